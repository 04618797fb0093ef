"""stub"""
NOTES = frozenset({"text/markdown", "application/x-jsoncanvas"})
SOURCE_TEXT: frozenset[str] = frozenset({"text/plain"})
