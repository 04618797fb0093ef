"""How fast, beside what: measurements with the same work done by a bare loop in the same run."""
