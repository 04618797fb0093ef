"""Commands about stored data: backup, restore, ledger and configuration checks."""
