"""The values that the ledger returns: frozen, with aware UTC times. Quick to import, without the database."""
