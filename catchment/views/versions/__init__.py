"""The versions of documents, and the changes between them."""
