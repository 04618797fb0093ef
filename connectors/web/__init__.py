"""Web pages, feeds and lists of addresses."""
