"""The library: documents, contents, the search index, mail threads and before-images."""
