"""Joining a library that several hosts share, and leaving it."""
