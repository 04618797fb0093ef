"""Folder trees, shared by the kinds of source that read files: scanning, comparison, ignore patterns, single files."""
