"""Bad input: every parser's edge, given what is nearly right, what is plainly wrong, and what was made to do harm.

`targets` is the table of what is tried: each takes bytes and raises when a promise is broken. The tests give it the kept
cases (`corpus/TARGET/`) and what Hypothesis makes of its syntax; `--times N` makes N times as much, at random.
"""
