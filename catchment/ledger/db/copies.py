"""A copy of a ledger in the making: a file that gets its name when it is whole, and is gone when it cannot be finished."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from catchment.ledger.db.database import make_file
from catchment.runtime import atomic_files

WITH_LEDGER = ("-journal", "-wal", "-shm")
"""What SQLite keeps beside a file while it is used."""


@contextmanager
def until_whole(target: Path) -> Iterator[Path]:
    """A file beside the target that becomes the target when the block ends well, and is gone when it does not.

    Raises HomeUnavailable, LedgerUnavailable.
    """
    with atomic_files.explained(), in_the_making(target) as unfinished:
        yield unfinished
        atomic_files.put(unfinished, target)


@contextmanager
def in_the_making(target: Path) -> Iterator[Path]:
    """An empty private file beside the target, which is gone afterwards unless it was given another name. Raises OSError."""
    unfinished = atomic_files.unfinished(target)
    make_file(unfinished)
    try:
        yield unfinished
    finally:
        remove(unfinished)


def remove(file: Path) -> None:
    """Remove a database with what is beside it; may be called again."""
    for ending in ("", *WITH_LEDGER):
        file.with_name(file.name + ending).unlink(missing_ok=True)
