"""Make room for backfills, for how long versions are kept, and for sinks; search PostgreSQL as SQLite."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Connection, text

from catchment.ledger.admin import index_check
from catchment.ledger.db.database import Writing
from catchment.ledger.db.schema import LONG_TEXTS
from catchment.ledger.library import word_index

revision = "0009"
down_revision = "0008"

_ID = {"sqlite": "INTEGER", "postgresql": "BIGINT"}
_WITHOUT_ROWID = {"sqlite": " WITHOUT ROWID", "postgresql": ""}


def upgrade() -> None:
    """Create the tables, empty, and the columns; on PostgreSQL also the indexes anew."""
    connection = op.get_bind()
    connection.exec_driver_sql("ALTER TABLE sources ADD COLUMN keep_days INTEGER DEFAULT '30' NOT NULL")
    _backfills(connection)
    _sinks(connection)
    if connection.dialect.name == "postgresql":
        _count_words(connection)
        for statement in () if _has(connection, "marks_by_key") else LONG_TEXTS:
            connection.exec_driver_sql(statement)


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


def _count_words(connection: Connection) -> None:
    """Make the indexes anew from the texts of the library, unless an earlier migration has just done so."""
    if _has(connection, "index_words"):
        return
    for statement in (
        "DROP VIEW chunk_text",
        "DROP VIEW document_names",
        "DROP FUNCTION fold",
        *(f"DROP TABLE {index}" for index in word_index.INDEXES),
    ):
        connection.exec_driver_sql(statement)
    word_index.create(connection)
    index_check.rebuild(Writing(connection, 0))


def _has(connection: Connection, name: str) -> bool:
    return connection.exec_driver_sql("SELECT to_regclass(%s)", (name,)).scalar() is not None


def _sinks(connection: Connection) -> None:
    """Create the tables of the outbox, empty. Its triggers come with the first sink."""
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
