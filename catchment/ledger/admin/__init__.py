"""Care of the ledger: opening, backup, check, purge, vacuum, proof."""
