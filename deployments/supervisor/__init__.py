"""`up` and `down`: the processes that run, and their supervision."""
