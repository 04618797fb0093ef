"""Database copies: written to a temporary file, renamed when complete, deleted on failure."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from catchment.ledger.db.database import make_file
from catchment.ledger.db.driver_errors import translated
from catchment.runtime import atomic_files, heartbeat

SIDE_FILES = ("-journal", "-wal", "-shm")
"""Suffixes of the files that SQLite keeps beside an open database."""
_STEPS = 100_000
"""Instructions of SQLite between two reports."""


@contextmanager
def atomic_copy(target: Path) -> Iterator[Path]:
    """Yield a temporary file that is renamed to `target` on success and deleted on failure.

    Raises HomeUnavailable or LedgerUnavailable.
    """
    with atomic_files.explained(), temporary_copy(target) as unfinished:
        yield unfinished
        atomic_files.put(unfinished, target)


@contextmanager
def temporary_copy(target: Path) -> Iterator[Path]:
    """Yield an empty private file beside `target`, deleted on exit unless it was renamed. Raises OSError."""
    unfinished = atomic_files.unfinished(target)
    make_file(unfinished)
    try:
        yield unfinished
    finally:
        remove(unfinished)


def copy_into(source: Path, target: Path) -> None:
    """Write a compact, consistent copy of a SQLite database into an empty file, without blocking others."""
    size = source.stat().st_size

    def report() -> None:
        heartbeat.report("copying", min(target.stat().st_size, size - 1), size)

    with translated(), closing(sqlite3.connect(source, timeout=30)) as database:
        database.set_progress_handler(report, _STEPS)
        database.execute("VACUUM INTO ?", (str(target),))
    heartbeat.report("copying", size, size)


def remove(file: Path) -> None:
    """Remove a database and the files beside it. Idempotent."""
    for ending in ("", *SIDE_FILES, atomic_files.OPENING):
        file.with_name(file.name + ending).unlink(missing_ok=True)
