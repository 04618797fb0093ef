"""The library: documents, contents, the word index, threads and before-images."""
