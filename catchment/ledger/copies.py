"""A copy of a ledger in the making: a file that gets its name when it is whole, and is gone when it cannot be finished."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from catchment import durable
from catchment.ledger.store import make_file

WITH_LEDGER = ("-wal", "-shm")
"""What SQLite keeps beside a file while it is used."""


@contextmanager
def until_whole(target: Path) -> Iterator[Path]:
    """A file beside the target that becomes the target when the block ends well, and is gone when it does not.

    Raises HomeUnavailable, LedgerUnavailable.
    """
    unfinished = target.with_name(f".{target.name}.unfinished")
    with durable.explained():
        remove(unfinished)
        make_file(unfinished)
        try:
            yield unfinished
            durable.put(unfinished, target)
        finally:
            remove(unfinished)


def remove(file: Path) -> None:
    """Remove a ledger with what is beside it; may be called again."""
    for ending in ("", "-journal", *WITH_LEDGER):
        file.with_name(file.name + ending).unlink(missing_ok=True)
