"""Administration of the ledger: opening, migrations, backup, checks, proof and dry runs."""
