"""What the ledger returns: frozen values with aware UTC times. Quick to import, without the database."""
