"""How well search finds what a person wants: queries with the documents to be found, beside plain FTS5 and grep."""
