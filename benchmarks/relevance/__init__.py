"""Search quality: queries with the expected documents, compared with plain FTS5 and grep."""
