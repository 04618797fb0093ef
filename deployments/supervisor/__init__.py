"""`up` and `down`: start, supervise and stop the processes of a home."""
