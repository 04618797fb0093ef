"""The scorecard: real mishaps, done to Catchment as a person uses it, and to other systems where they are installed.

`python -m tests.hazards` prints one table. A mishap is a few lines in `folders`. What happens to processes, disks and
clocks is in `tests/acceptance`.
"""
