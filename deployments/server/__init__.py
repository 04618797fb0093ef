"""The Prefect server on the loopback interface: its process, settings, port and database file, and our HTTP client for it."""
