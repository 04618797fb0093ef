"""Count the words of the index on PostgreSQL, for the search that SQLite has, and index long texts there by their MD5."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Connection

from catchment.ledger.admin import index_check
from catchment.ledger.db.database import Writing
from catchment.ledger.db.schema import LONG_TEXTS
from catchment.ledger.library import word_index

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Change what differs by database."""
    connection = op.get_bind()
    if connection.dialect.name == "postgresql":
        _count_words(connection)
        for statement in () if _has(connection, "marks_by_key") else LONG_TEXTS:
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
