"""Prefect tasks: each adds retry and caching policies to one call into the engine. The order of a sync is in `flows`."""
