"""Add the rollups of metrics, the incidents, and the cause of a failed sync."""

from __future__ import annotations

from alembic import op
from sqlalchemy import text

revision = "0006"
down_revision = "0005"

_BUCKETS = ", ".join(f"b{number} BIGINT NOT NULL" for number in range(14))
_ID = {"sqlite": "INTEGER NOT NULL", "postgresql": "BIGINT NOT NULL"}
_WITHOUT_ROWID = {"sqlite": " WITHOUT ROWID", "postgresql": ""}


def upgrade() -> None:
    """Create the tables, empty, and the column."""
    connection = op.get_bind()
    dialect = connection.dialect.name
    for statement in (
        f"""CREATE TABLE measures ( metric TEXT NOT NULL, labels TEXT NOT NULL, source_id BIGINT NOT NULL,
            at BIGINT NOT NULL, level INTEGER NOT NULL, n BIGINT NOT NULL, total FLOAT NOT NULL,
            {_BUCKETS},
            PRIMARY KEY (metric, labels, source_id, at, level) ){_WITHOUT_ROWID[dialect]}""",
        f"""CREATE TABLE incidents ( id {_ID[dialect]}, reason TEXT NOT NULL, subject TEXT NOT NULL,
            opened_at BIGINT NOT NULL, closed_at BIGINT, acknowledged_at BIGINT, acknowledged_by TEXT, note TEXT,
            message TEXT NOT NULL, remedy TEXT NOT NULL, timeline TEXT, PRIMARY KEY (id) )""",
        "ALTER TABLE syncs ADD COLUMN cause TEXT",
        "CREATE UNIQUE INDEX incidents_open ON incidents (reason, subject) WHERE closed_at IS NULL",
    ):
        connection.exec_driver_sql(statement)
    connection.execute(text("INSERT INTO counters (name, value) VALUES ('incidents', 0)"))
