"""Name the sync that another one continues or undoes, and the stamp of a sink's place."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"

_UNDO = '{"undoes":'


def upgrade() -> None:
    """Add three columns. A sync continues a yielded one directly before it that worked for the same backfill, or for none."""
    for statement in (
        "ALTER TABLE syncs ADD COLUMN continues BIGINT",
        "ALTER TABLE syncs ADD COLUMN undoes BIGINT",
        f"""UPDATE syncs SET summary = NULL, undoes = CAST(replace(replace(summary, '{_UNDO}', ''), '}}', '') AS BIGINT)
            WHERE summary LIKE '{_UNDO}%'""",
        """UPDATE syncs SET continues = (
            SELECT before.id FROM syncs AS before
            WHERE before.id = (SELECT max(id) FROM syncs AS earlier
                WHERE earlier.source_id = syncs.source_id AND earlier.id < syncs.id)
            AND before.outcome = 'yielded' AND coalesce(before.backfill_id, 0) = coalesce(syncs.backfill_id, 0))
            WHERE undoes IS NULL""",
        "CREATE INDEX syncs_continuing ON syncs (continues) WHERE continues IS NOT NULL",
        "CREATE INDEX syncs_undoing ON syncs (undoes) WHERE undoes IS NOT NULL",
        # Sinks have no stamp yet: each is compared once, and gets one.
        "ALTER TABLE sinks ADD COLUMN stamp TEXT",
        "UPDATE sinks SET compared = 0",
    ):
        op.get_bind().exec_driver_sql(statement)
