"""Search by meaning: the models that turn text into vectors, the library's vectors in memory, and making missing ones.

numpy is imported only by `builtin` and `vectors`, so that commands which do not search by meaning start quickly.
"""
