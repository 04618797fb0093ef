"""Trees of files, shared by the kinds that read folders: scan, diff, patterns, single files."""
