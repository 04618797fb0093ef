"""Pairs of acts that write the same rows: one is started, or is killed, at each step of the other."""
