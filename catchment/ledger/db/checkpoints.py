"""Checkpoints: keep SQLite's write-ahead log short by regularly moving committed pages into the database file."""

from __future__ import annotations

import contextlib
import sqlite3
from contextlib import closing
from pathlib import Path

LONG_PAGES = 8_192
"""64 MB. Longer logs must be restarted, and commits checkpoint automatically (`wal_autocheckpoint`)."""

_COMMITS = 32
"""Commits between checkpoints. Every 32nd takes up to 40 ms longer; without them, overlapping readers let the log grow."""
_READERS_SECONDS = 0.5
SHORT_BYTES = 4 << 20
"""Length to which the log is truncated when it restarts (`journal_size_limit`), since it otherwise stays at its longest."""


def log_of(file: Path) -> Path:
    """Return the path of a database file's write-ahead log."""
    return file.with_name(f"{file.name}-wal")


class Checkpoints:
    """Checkpoint one database file every 32 commits of this process."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._commits = 0
        self._restart_at = LONG_PAGES

    def committed(self) -> None:
        """Count a commit. Call this before the next one starts: only a fully checkpointed log can restart."""
        self._commits += 1
        if self._commits % _COMMITS:
            return
        # A full disk or a damaged page is reported by the next commit. This one has succeeded.
        with contextlib.suppress(sqlite3.Error), self._connection(_READERS_SECONDS) as database:
            _busy, pages, _moved = _checkpoint(database, "PASSIVE")
            if pages >= self._restart_at:
                # Overlapping readers prevent the log from restarting, so wait for them here. A slower reader is awaited only
                # once per 64 MB. Not TRUNCATE, which took 20 ms for 32 MB.
                busy, pages, _moved = _checkpoint(database, "RESTART")
                self._restart_at = LONG_PAGES + (pages if busy else 0)

    def cut(self) -> None:
        """Empty a long log. A reader or writer that needs it is not awaited: it is truncated when it restarts."""
        # As above, the next commit reports problems of the disk.
        with contextlib.suppress(OSError, sqlite3.Error):
            if log_of(self._file).stat().st_size > SHORT_BYTES:
                with self._connection(0) as database:
                    # The first moves the pages without a lock. The second, which blocks writers, has nothing left to move.
                    _checkpoint(database, "PASSIVE")
                    _checkpoint(database, "TRUNCATE")

    def settle(self) -> None:
        """Checkpoint all committed pages now, and empty the log unless a slow reader needs it. Raises sqlite3.Error."""
        with self._connection(_READERS_SECONDS) as database:
            _checkpoint(database, "TRUNCATE")

    def _connection(self, patience: float) -> closing[sqlite3.Connection]:
        return closing(sqlite3.connect(self._file, timeout=patience, isolation_level=None))


def _checkpoint(database: sqlite3.Connection, mode: str) -> tuple[int, int, int]:
    """Return whether the checkpoint was blocked, the pages in the log, and the number of them in the file."""
    busy, pages, moved = database.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
    return busy, pages, moved
