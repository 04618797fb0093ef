"""The first revision: tables, word index and history triggers. Frozen: later changes are separate revisions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None

_HERE = Path(__file__).parent


def upgrade() -> None:
    """Create everything except the table `revision`, which alembic has already created."""
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        for statement in _statements((_HERE / "0001.sqlite.sql").read_text(encoding="utf-8")):
            connection.exec_driver_sql(statement)
    else:
        # PostgreSQL itself splits a script into statements, including functions.
        connection.exec_driver_sql((_HERE / "0001.postgres.sql").read_text(encoding="utf-8"))


def _statements(script: str) -> Iterator[str]:
    """Split a SQLite script into statements. Each ends at the end of a line; triggers contain further semicolons."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
