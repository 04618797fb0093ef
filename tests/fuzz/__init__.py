"""Bad input: every parser's edge, given what is nearly right, what is plainly wrong, and what was made to do harm.

`targets` is the table of what is tried: each takes bytes and raises when a promise is broken. The tests give it the kept
cases (`corpus/TARGET/`) and what Hypothesis makes; `python -m tests.fuzz TARGET` searches on, led by coverage.
"""
