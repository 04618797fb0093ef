"""Commands that read the library."""
