"""Keep SQLite's write-ahead log short: move committed pages into the database file now and then."""

from __future__ import annotations

import contextlib
import sqlite3
from contextlib import closing
from pathlib import Path

LONG_PAGES = 8_192
"""64 MB. From this length on the log must start anew, and a commit moves pages by itself (`wal_autocheckpoint`)."""

_COMMITS = 32
_READERS_SECONDS = 0.5


def log_of(file: Path) -> Path:
    """The write-ahead log of a database file."""
    return file.with_name(f"{file.name}-wal")


class Checkpoints:
    """Checkpoint one database file every 32 commits of this process."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._commits = 0
        self._restart_at = LONG_PAGES

    def committed(self) -> None:
        """Count a commit. Call it before the next one starts: a log whose pages are all in the file starts anew."""
        self._commits += 1
        if self._commits % _COMMITS:
            return
        # A full disk or a damaged page is reported by the next commit; this one has succeeded.
        with contextlib.suppress(sqlite3.Error), self._connection() as database:
            _busy, pages, _moved = _checkpoint(database, "PASSIVE")
            if pages >= self._restart_at:
                # Readers that follow one another without a gap keep the log from starting anew, so wait for them here. A
                # reader that takes longer is waited for once in each 64 MB.
                busy, pages, _moved = _checkpoint(database, "RESTART")
                self._restart_at = LONG_PAGES + (pages if busy else 0)

    def settle(self) -> None:
        """Move all committed pages into the file now. Raises sqlite3.Error."""
        with self._connection() as database:
            _checkpoint(database, "PASSIVE")

    def _connection(self) -> closing[sqlite3.Connection]:
        return closing(sqlite3.connect(self._file, timeout=_READERS_SECONDS, isolation_level=None))


def _checkpoint(database: sqlite3.Connection, mode: str) -> tuple[int, int, int]:
    """Whether it was blocked, the pages in the log, and how many of them are in the file."""
    busy, pages, moved = database.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
    return busy, pages, moved
