"""Raw content to documents and extractions: pure functions, their codec and the cache of finished steps."""
