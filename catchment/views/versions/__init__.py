"""The versions of documents, and what changed from one to another."""
