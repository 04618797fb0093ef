"""The write-ahead log of a ledger is emptied beside the work: it stays short, and nothing that was committed is lost."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from catchment.ledger.db.checkpoints import Checkpoints
from catchment.ledger.db.database import Store

_MEGABYTE = 1 << 20


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def store(file: Path) -> Iterator[Store]:
    store = Store(f"sqlite:///{file}", time.time)
    with store.write() as writing:
        writing.connection.exec_driver_sql("CREATE TABLE kept (n INTEGER PRIMARY KEY, what BLOB)")
    yield store
    store.close()


@pytest.fixture
def somebody_else(file: Path, store: Store) -> Iterator[sqlite3.Connection]:
    """As long as this connection is open, closing the store does not empty the log by itself."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("SELECT * FROM kept").fetchall()
        yield connection


def _commit(store: Store, megabytes: int) -> None:
    for _ in range(megabytes):
        with store.write() as writing:
            writing.connection.exec_driver_sql(
                "INSERT INTO kept (what) VALUES (?)", [(b"x" * (_MEGABYTE // 64),) for _ in range(64)]
            )


def _log_bytes(file: Path) -> int:
    return file.with_name(f"{file.name}-wal").stat().st_size


def test_a_long_log_is_emptied_while_work_goes_on(store: Store, file: Path, somebody_else: sqlite3.Connection) -> None:
    for _ in range(2):
        _commit_anew(file, 36)
    assert _log_bytes(file) < 48 * _MEGABYTE
    assert somebody_else.execute("SELECT count(*) FROM kept").fetchone() == (2 * 36 * 64,)


def test_a_reader_of_an_old_moment_only_delays_the_emptying(
    store: Store, file: Path, somebody_else: sqlite3.Connection
) -> None:
    somebody_else.execute("BEGIN")
    somebody_else.execute("SELECT count(*) FROM kept").fetchone()
    _commit(store, 40)
    store.close()
    assert somebody_else.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    somebody_else.execute("COMMIT")
    _commit_anew(file, 1)
    longest = _log_bytes(file)
    assert longest > 40 * _MEGABYTE
    _commit_anew(file, 20)
    assert _log_bytes(file) == longest
    assert somebody_else.execute("SELECT count(*) FROM kept").fetchone() == (61 * 64,)


def test_what_an_emptied_log_left_in_its_file_is_not_taken_for_a_long_log(
    store: Store, file: Path, somebody_else: sqlite3.Connection
) -> None:
    _commit(store, 34)
    store.close()
    _commit_anew(file, 1)
    moved = file.stat().st_size
    assert _log_bytes(file) > 32 * _MEGABYTE
    _commit_anew(file, 1)
    assert file.stat().st_size == moved


def _commit_anew(file: Path, megabytes: int) -> None:
    """Commit through a store that has not emptied the log before: between two rounds it would rest."""
    store = Store(f"sqlite:///{file}", time.time)
    _commit(store, megabytes)
    store.close()


def test_a_log_that_cannot_be_looked_at_is_no_failure_of_the_commit(tmp_path: Path) -> None:
    (tmp_path / "no folder").touch()
    Checkpoints(tmp_path / "no folder" / "ledger.db", threading.Lock()).committed()
