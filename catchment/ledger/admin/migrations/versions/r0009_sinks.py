"""Add the sinks, the outbox, and the documents that a sink refused."""

from __future__ import annotations

from alembic import op
from sqlalchemy import text

revision = "0009"
down_revision = "0008"

_ID = {"sqlite": "INTEGER", "postgresql": "BIGINT"}
_WITHOUT_ROWID = {"sqlite": " WITHOUT ROWID", "postgresql": ""}


def upgrade() -> None:
    """Create the tables, empty."""
    add_sinks()


def add_sinks() -> None:
    """Create the tables of the outbox, empty. Its triggers come with the first sink."""
    connection = op.get_bind()
    number, end = _ID[connection.dialect.name], _WITHOUT_ROWID[connection.dialect.name]
    for statement in (
        f"""CREATE TABLE sinks ( id {number} NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, place TEXT NOT NULL,
            secret TEXT, wants_vectors BOOLEAN NOT NULL, state TEXT NOT NULL,
            position BIGINT NOT NULL, compared BIGINT, failures INTEGER NOT NULL,
            not_before BIGINT NOT NULL, error TEXT, current_at BIGINT, PRIMARY KEY (id),
            CONSTRAINT state_is_known CHECK (state IN ('active', 'paused', 'emptying')), UNIQUE (name) )""",
        f"""CREATE TABLE outbox ( document_id {number} NOT NULL, position BIGINT NOT NULL,
            PRIMARY KEY (document_id), UNIQUE (position) )""",
        f"""CREATE TABLE refused_documents ( sink_id {number} NOT NULL, document_id BIGINT NOT NULL,
            reason TEXT NOT NULL, PRIMARY KEY (sink_id, document_id),
            FOREIGN KEY(sink_id) REFERENCES sinks (id) ){end}""",
    ):
        connection.exec_driver_sql(statement)
    connection.execute(text("INSERT INTO counters (name, value) VALUES ('sinks', 0), ('changes', 0)"))
