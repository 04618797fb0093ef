"""Ledgers of earlier versions, made from present ones."""

from __future__ import annotations

BEFORE_0014 = ("DROP TABLE page_texts", "ALTER TABLE search_model DROP COLUMN recognition")
"""The statements that turn a present ledger into one of 0013."""
BEFORE_0009 = (
    *BEFORE_0014,
    "DROP INDEX syncs_continuing",
    "DROP INDEX syncs_undoing",
    "ALTER TABLE syncs DROP COLUMN continues",
    "ALTER TABLE syncs DROP COLUMN undoes",
    "DROP TABLE host_purges",
    "DROP TABLE hosts",
    "DROP INDEX jobs_by_backfill",
    "DROP INDEX syncs_by_backfill",
    "ALTER TABLE syncs DROP COLUMN backfill_id",
    "ALTER TABLE jobs DROP COLUMN backfill_id",
    "ALTER TABLE jobs DROP COLUMN replay_of",
    "DROP TABLE backfills",
    "ALTER TABLE sources DROP COLUMN keep_days",
    "DROP TABLE refused_documents",
    "DROP TABLE sinks",
    "DROP TABLE outbox",
    "DELETE FROM counters WHERE name IN ('backfills', 'sinks', 'changes')",
)
"""The statements that turn a present ledger into one of 0008."""
