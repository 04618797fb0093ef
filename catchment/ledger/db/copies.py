"""Database copies: written to a temporary file, renamed when complete, deleted on failure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from catchment.ledger.db.database import make_file
from catchment.runtime import atomic_files

SIDE_FILES = ("-journal", "-wal", "-shm")
"""Suffixes of the files that SQLite keeps beside an open database."""


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


def remove(file: Path) -> None:
    """Remove a database and the files beside it. Idempotent."""
    for ending in ("", *SIDE_FILES):
        file.with_name(file.name + ending).unlink(missing_ok=True)
