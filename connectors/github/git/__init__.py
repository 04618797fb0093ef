"""Repositories read with the git program: mirrors, local clones, file listings."""
