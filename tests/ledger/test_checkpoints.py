"""The write-ahead log of a ledger is checkpointed during work: it stays short, and committed data is kept."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from catchment.ledger.db import checkpoints
from catchment.ledger.db.checkpoints import Checkpoints
from catchment.ledger.db.database import Store
from tests.ledger.world import World, note

_MEGABYTE = 1 << 20
_PROMPT_SECONDS, _PATIENCE = 20, 60


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
    """A second connection. While it is open, closing the store does not checkpoint the log automatically."""
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


def test_long_log_is_reset_while_work_continues(store: Store, file: Path, somebody_else: sqlite3.Connection) -> None:
    _commit(store, 150)
    assert _log_bytes(file) < 64 * _MEGABYTE
    assert somebody_else.execute("SELECT count(*) FROM kept").fetchone() == (150 * 64,)


def test_log_stays_bounded_while_readers_overlap(store: Store, file: Path) -> None:
    """Two connections alternate, so that one of them is reading at any time."""
    ended = threading.Event()

    def read(begin: threading.Event, other: threading.Event) -> None:
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            while not ended.is_set():
                begin.wait(0.05)
                begin.clear()
                connection.execute("BEGIN")
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
                other.set()
                ended.wait(0.02)
                connection.execute("COMMIT")

    turns = (threading.Event(), threading.Event())
    readers = [threading.Thread(target=read, args=pair) for pair in (turns, turns[::-1])]
    for reader in readers:
        reader.start()
    try:
        _commit(store, 320)
        assert _log_bytes(file) < 240 * _MEGABYTE
    finally:
        ended.set()
        for reader in readers:
            reader.join()


def test_reader_of_an_old_snapshot_only_delays_the_log_reset(
    store: Store, file: Path, somebody_else: sqlite3.Connection
) -> None:
    somebody_else.execute("BEGIN")
    somebody_else.execute("SELECT count(*) FROM kept").fetchone()
    _commit(store, 100)
    assert somebody_else.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    somebody_else.execute("COMMIT")
    longest = _log_bytes(file)
    assert longest > 100 * _MEGABYTE
    _commit(store, 100)
    assert _log_bytes(file) < longest + 33 * _MEGABYTE
    assert somebody_else.execute("SELECT count(*) FROM kept").fetchone() == (200 * 64,)


def test_long_log_is_emptied_and_a_short_one_kept(store: Store, file: Path, somebody_else: sqlite3.Connection) -> None:
    _commit(store, 2)
    store.cut_log()
    assert _log_bytes(file) > 2 * _MEGABYTE
    _commit(store, 20)
    store.cut_log()
    assert _log_bytes(file) == 0
    assert somebody_else.execute("SELECT count(*) FROM kept").fetchone() == (22 * 64,)


def test_end_of_a_large_sync_empties_the_log(sqlite_world: World) -> None:
    file = Path(sqlite_world.url.removeprefix("sqlite:///"))
    sqlite_world.ingest(note("long.md"), text="word " * _MEGABYTE)
    assert _log_bytes(file) > 5 * _MEGABYTE
    sqlite_world.ledger.syncs.end(sqlite_world.sync.id, "completed", {})
    assert _log_bytes(file) == 0


def test_log_that_is_in_use_is_cut_by_a_later_commit(
    store: Store, file: Path, somebody_else: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "_READERS_SECONDS", _PATIENCE)
    _commit(store, 25)
    somebody_else.execute("BEGIN")
    somebody_else.execute("SELECT count(*) FROM kept").fetchone()
    begun = time.monotonic()
    store.cut_log()
    assert time.monotonic() - begun < _PROMPT_SECONDS
    assert _log_bytes(file) > 25 * _MEGABYTE
    assert somebody_else.execute("SELECT count(*) FROM kept").fetchone() == (25 * 64,)
    somebody_else.execute("COMMIT")
    _commit(store, 1)
    assert _log_bytes(file) < 5 * _MEGABYTE


def test_cutting_the_log_does_not_wait_for_a_writer(
    store: Store, file: Path, somebody_else: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "_READERS_SECONDS", _PATIENCE)
    _commit(store, 25)
    somebody_else.execute("BEGIN IMMEDIATE")
    begun = time.monotonic()
    store.cut_log()
    assert time.monotonic() - begun < _PROMPT_SECONDS
    somebody_else.execute("COMMIT")
    store.cut_log()
    assert _log_bytes(file) == 0


def test_failed_checkpoint_does_not_fail_the_commit(tmp_path: Path) -> None:
    (tmp_path / "no folder").touch()
    unusable = Checkpoints(tmp_path / "no folder" / "ledger.db")
    for _ in range(100):
        unusable.committed()
    unusable.cut()
