"""Prefect's server on loopback: its start, settings, port, database file and our HTTP client for it."""
