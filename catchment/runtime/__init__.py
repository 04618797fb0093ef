"""Process-level services: the home folder, process identity, atomic files, heartbeats, secret references, addresses."""
