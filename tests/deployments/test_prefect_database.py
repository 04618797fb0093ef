"""The room that Prefect's database gives back, while another connection has it open."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from catchment.errors import TryAgain
from catchment.settings import Home
from deployments.prefect_database import prepare, shrink

_MB = 1_000_000


@contextmanager
def used(home: Home) -> Iterator[sqlite3.Connection]:
    """The database as a server holds it: in WAL mode, and open."""
    with closing(sqlite3.connect(home.prefect / "prefect.db", isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        yield database


def fill(database: sqlite3.Connection) -> None:
    database.execute("CREATE TABLE IF NOT EXISTS log (line)")
    database.execute("BEGIN")
    database.executemany("INSERT INTO log VALUES (?)", [("x" * 2_000,)] * 4_000)
    database.execute("COMMIT")


def size(home: Home) -> int:
    files = (home.prefect / "prefect.db", home.prefect / "prefect.db-wal")
    return sum(file.stat().st_size for file in files if file.exists())


def test_what_was_deleted_is_given_back_beside_a_connection_that_is_open(home: Home) -> None:
    prepare(home)
    with used(home) as database:
        fill(database)
        assert shrink(home) == 0
        full = size(home)
        assert full > 8 * _MB
        database.execute("DELETE FROM log WHERE rowid > 100")
        assert shrink(home) > 7 * _MB
        assert size(home) < _MB
        assert database.execute("SELECT count(*) FROM log").fetchone() == (100,)
        assert shrink(home) == 0


def test_a_database_made_before_is_rewritten_once_and_keeps_what_is_in_it(home: Home) -> None:
    with used(home) as database:
        fill(database)
        database.execute("DELETE FROM log WHERE rowid > 100")
    prepare(home)
    assert size(home) < _MB
    prepare(home)
    with used(home) as database:
        assert database.execute("SELECT count(*) FROM log").fetchone() == (100,)
        fill(database)
        database.execute("DELETE FROM log WHERE rowid > 100")
        assert shrink(home) > 7 * _MB


def test_a_database_that_is_being_written_is_left_alone_for_now(home: Home) -> None:
    prepare(home)
    with used(home) as database:
        fill(database)
        database.execute("DELETE FROM log")
        database.execute("BEGIN IMMEDIATE")
        database.execute("INSERT INTO log VALUES ('being written')")
        assert shrink(home) == 0
        database.execute("COMMIT")
        assert shrink(home) > 7 * _MB
        assert size(home) < _MB


def test_the_file_is_for_its_owner_alone(home: Home) -> None:
    prepare(home)
    assert (home.prefect / "prefect.db").stat().st_mode & 0o777 == 0o600


def test_a_damaged_database_is_told_with_the_remedy_and_left_as_it_is(home: Home) -> None:
    file = home.prefect / "prefect.db"
    file.write_bytes(b"this is no database " * 500)
    with pytest.raises(TryAgain, match=r"move the files prefect/prefect\.db\* .* away"):
        prepare(home)
    assert file.read_bytes() == b"this is no database " * 500
