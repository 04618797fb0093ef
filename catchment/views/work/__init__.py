"""The work: jobs, syncs and backfills."""
