"""The database under the ledger: connections, schema, migrations, records and the monotonic clock."""
