"""Benchmarks of Catchment. Each comparison also measures a bare loop that does the same work, in the same run."""
