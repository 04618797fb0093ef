"""Other libraries that bring files in, each as its own documentation proposes, in an environment of its own.

Each module is a program: it brings a folder in and prints what it holds, as JSON. It imports nothing of Catchment. Corrections
by those who know the library better are welcome.
"""
