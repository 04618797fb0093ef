"""Flow runs on the server: their states, recovery after a crash, and the work pool."""
