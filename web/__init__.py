"""The web process: search with a warm model, and whether the system works, as JSON on the loopback interface.

Reads the ledger and never writes it, so it may be killed at any time. Without it, search works by words.
"""
