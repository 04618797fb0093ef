"""Make room for the hosts that share a ledger."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"

_ID = {"sqlite": "INTEGER", "postgresql": "BIGINT"}
_WITHOUT_ROWID = {"sqlite": " WITHOUT ROWID", "postgresql": ""}


def upgrade() -> None:
    """Create two tables, empty."""
    connection = op.get_bind()
    number, end = _ID[connection.dialect.name], _WITHOUT_ROWID[connection.dialect.name]
    for statement in (
        f"""CREATE TABLE hosts ( id {number} NOT NULL, name TEXT NOT NULL, boot TEXT NOT NULL, beat_until BIGINT NOT NULL,
            version TEXT NOT NULL, takes_any BOOLEAN NOT NULL, joined_at BIGINT NOT NULL, PRIMARY KEY (id), UNIQUE (name) )""",
        f"""CREATE TABLE host_purges ( host_id {number} NOT NULL, source_id {number} NOT NULL, asked_at BIGINT NOT NULL,
            PRIMARY KEY (host_id, source_id), FOREIGN KEY(host_id) REFERENCES hosts (id),
            FOREIGN KEY(source_id) REFERENCES sources (id) ){end}""",
    ):
        connection.exec_driver_sql(statement)
