"""Vacuum: return unused space of the database to the disk."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from sqlalchemy import select, text

from catchment.errors import LedgerUnavailable, TryAgain
from catchment.ledger.db.checkpoints import log_of
from catchment.ledger.db.database import Reading, Store
from catchment.ledger.db.driver_errors import translated
from catchment.ledger.db.schema import syncs

_INDEXES = ("chunk_index", "document_index", "chunk_pairs", "document_pairs")
_PAGES_AT_ONCE = 500
_LOG_SECONDS = 10.0
"""Time limit for truncating the log while other processes read."""


def vacuum(store: Store, alive: Callable[[str], bool]) -> tuple[int, int]:
    """Compact the database. Return its size in bytes before and after. Idempotent.

    Raises TryAgain while a sync runs, since its writes would block, and LedgerUnavailable without space for a second copy.
    """
    with store.read() as reading:
        owners = reading.execute(select(syncs.c.owner).where(syncs.c.outcome.is_(None))).scalars()
        if any(map(alive, owners)):
            raise TryAgain("a sync is running; try again later")
    before = _size(store)
    rewrite(store)
    return before, _size(store)


def rewrite(store: Store) -> None:
    """Erase the bytes of deleted rows. Idempotent. Raises LedgerUnavailable.

    SQLite rewrites its file, which temporarily doubles the space used and blocks writers but not readers. PostgreSQL marks the
    space for reuse.
    """
    if store.file is None:
        with translated(), store.engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT").execute(text("VACUUM (ANALYZE)"))
        return
    for index in _INDEXES:
        _merge(store, index)
    with translated():
        _write_anew(store.file)


def _merge(store: Store, index: str) -> None:
    """Merge the segments of an index in small steps. Until then, deleted texts remain in it, marked as deleted."""
    pages = -_PAGES_AT_ONCE
    while True:
        with store.write() as writing:
            before = _changes(writing)
            writing.connection.exec_driver_sql(f"INSERT INTO {index} ({index}, rank) VALUES ('merge', ?)", (pages,))
            # One of the changed rows is the command itself.
            if _changes(writing) - before < 2:
                return
        pages = _PAGES_AT_ONCE
        store.let_others_write()


def _changes(reading: Reading) -> int:
    return int(reading.connection.exec_driver_sql("SELECT total_changes()").scalar_one())


def _write_anew(file: Path) -> None:
    """Run VACUUM on a separate connection with temporary data in a file. Other connections have it in memory."""
    # The temporary file is private and on the ledger's disk, which has enough space.
    os.environ["SQLITE_TMPDIR"] = str(file.parent)
    with closing(sqlite3.connect(file, timeout=_LOG_SECONDS, isolation_level=None)) as database:
        database.execute("VACUUM")
        deadline = time.monotonic() + _LOG_SECONDS
        while database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            if time.monotonic() > deadline:
                raise LedgerUnavailable("ledger: another process is reading, so the log cannot be emptied; try again")
            time.sleep(0.1)


def _size(store: Store) -> int:
    if store.file is not None:
        parts = (store.file, log_of(store.file))
        return sum(part.stat().st_size for part in parts if part.exists())
    with store.read() as reading:
        return int(reading.execute(text("SELECT pg_database_size(current_database())")).scalar_one())
