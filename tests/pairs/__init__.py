"""Pairs of acts that write the same rows: the second act starts at a step of the first, or the first is killed there."""
