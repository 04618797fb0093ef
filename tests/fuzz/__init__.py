"""Fuzz tests: every parser boundary with almost valid, invalid and malicious input.

`targets` lists the functions under test. Each takes bytes and raises if a guarantee is violated. The tests run the
stored cases (`corpus/TARGET/`) and input that Hypothesis generates from the target's syntax; `--times N` generates N
times as much, at random.
"""
