"""Faults that no file, process or network of a test can make: a clock that is set while everything runs."""
