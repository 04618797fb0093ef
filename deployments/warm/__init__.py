"""The warm worker: a Prefect worker type whose runs are forked from a process that has everything imported already."""
