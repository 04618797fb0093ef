"""Turn raw content into documents and extractions: pure functions, their codec and the cache of parsed items."""
