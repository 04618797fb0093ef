"""The scorecard: real mishaps applied to Catchment as users run it, and to other systems if installed.

`python -m tests.hazards` prints one table. Each mishap is a few lines in `folders`. Failures of processes, disks and
clocks are tested in `tests/acceptance`.
"""
