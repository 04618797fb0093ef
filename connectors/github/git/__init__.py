"""Repositories read by the git program: mirrors, local clones, file listings."""
