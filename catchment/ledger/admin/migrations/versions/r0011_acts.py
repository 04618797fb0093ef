"""Name the sync that another one continues, instead of deriving it from their order."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add a column; an earlier sync continues a yielded one directly before it that worked for the same backfill, or for none."""
    for statement in (
        "ALTER TABLE syncs ADD COLUMN continues BIGINT",
        """UPDATE syncs SET continues = (
            SELECT before.id FROM syncs AS before
            WHERE before.id = (SELECT max(id) FROM syncs AS earlier
                WHERE earlier.source_id = syncs.source_id AND earlier.id < syncs.id)
            AND before.outcome = 'yielded' AND coalesce(before.backfill_id, 0) = coalesce(syncs.backfill_id, 0))""",
        # Sinks have no stamp yet: each is compared once, and gets one.
        "ALTER TABLE sinks ADD COLUMN stamp TEXT",
        "UPDATE sinks SET compared = 0",
    ):
        op.get_bind().exec_driver_sql(statement)
