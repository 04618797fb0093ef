"""The first revision: tables, word index and history triggers. Frozen: later changes are separate revisions."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None

_SCRIPT = Path(__file__).with_name("0001.sql")
_WORDS = {
    "sqlite": {"id": "INTEGER", "blob": "BLOB", "key": '"key"', "rows": " WITHOUT ROWID"},
    "postgresql": {"id": "BIGINT", "blob": "BYTEA", "key": "key", "rows": ""},
}


def upgrade() -> None:
    """Create everything except the table `revision`, which alembic has already created."""
    connection = op.get_bind()
    dialect = connection.dialect.name
    # PostgreSQL itself splits a script into statements, including functions.
    split = _statements if dialect == "sqlite" else lambda script: [script]
    for statement in split(_script(dialect)):
        connection.exec_driver_sql(statement)


def _script(dialect: str) -> str:
    """Return the script for one database: its marked lines without the mark, and the words that it uses."""
    script = re.sub(rf"^-- {dialect}: ", "", _SCRIPT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return re.sub(r"^-- .*\n", "", script, flags=re.MULTILINE).format_map(_WORDS[dialect])


def _statements(script: str) -> Iterator[str]:
    """Split a SQLite script into statements. Each ends at the end of a line; triggers contain further semicolons."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
