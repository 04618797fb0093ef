"""The library: documents, contents, the search index, mail conversations and before-images."""
