"""Make room for backfills, and for how long the versions of a source's documents are kept."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Connection

revision = "0009"
down_revision = "0008"

_ID = {"sqlite": "INTEGER", "postgresql": "BIGINT"}


def upgrade() -> None:
    """Create the table, empty, and the columns."""
    connection = op.get_bind()
    connection.exec_driver_sql("ALTER TABLE sources ADD COLUMN keep_days INTEGER DEFAULT '30' NOT NULL")
    _backfills(connection)


def _backfills(connection: Connection) -> None:
    number = _ID[connection.dialect.name]
    for statement in (
        f"""CREATE TABLE backfills ( id {number} NOT NULL, source_id {number} NOT NULL, selection TEXT NOT NULL,
            total BIGINT NOT NULL, unreadable BIGINT NOT NULL, digest TEXT NOT NULL, wish TEXT NOT NULL, reason TEXT,
            created_by TEXT NOT NULL, created_at BIGINT NOT NULL, started_at BIGINT, listed_at BIGINT, PRIMARY KEY (id),
            CONSTRAINT wish_is_known CHECK (wish IN ('plan', 'run', 'hold', 'cancel')),
            FOREIGN KEY(source_id) REFERENCES sources (id) )""",
        "CREATE INDEX backfills_by_source ON backfills (source_id, id)",
        "ALTER TABLE syncs ADD COLUMN backfill_id BIGINT",
        "ALTER TABLE jobs ADD COLUMN backfill_id BIGINT",
        "ALTER TABLE jobs ADD COLUMN replay_of BIGINT",
        "CREATE INDEX syncs_by_backfill ON syncs (backfill_id) WHERE backfill_id IS NOT NULL",
        "CREATE INDEX jobs_by_backfill ON jobs (backfill_id, state, id) WHERE backfill_id IS NOT NULL",
        "INSERT INTO counters (name, value) VALUES ('backfills', 0)",
    ):
        connection.exec_driver_sql(statement)
