"""Moving what was committed from SQLite's write-ahead log into the database file, beside the work and not in its way."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

IN_COMMIT_PAGES = 32_000
"""The log's length, in pages, from which a commit moves the pages itself: only if no thread of ours came to do it."""

_BEGIN_BYTES = 32 << 20
_REST_SECONDS = 0.25
_FEW_PAGES = 50
_MOST_ROUNDS = 5
_BUSY_SECONDS = 0.02
"""How long the last pages may keep writers waiting for readers; when that is too short, the next round does it."""


def log_of(file: Path) -> Path:
    """The write-ahead log of a database file."""
    return file.with_name(f"{file.name}-wal")


class Checkpoints:
    """Empties the log of one database file from a thread of its own, whenever it has become long.

    A commit that does so itself takes 40 ms longer, in the middle of somebody's claim.
    """

    def __init__(self, file: Path, writing: threading.Lock) -> None:
        self._file = file
        self._log = log_of(file)
        self._writing = writing
        self._at_work = threading.Lock()
        self._thread: threading.Thread | None = None
        self._due = 0.0

    def committed(self) -> None:
        """To be called after each commit, which stands whatever comes of this."""
        with contextlib.suppress(OSError):
            if time.monotonic() < self._due or not _is_long(self._log):
                return
            if self._at_work.acquire(blocking=False):
                self._thread = threading.Thread(target=self._empty, name="checkpoint")
                self._thread.start()

    def settle(self) -> None:
        """Move all that was committed into the file now. Raises sqlite3.Error."""
        with closing(sqlite3.connect(self._file, isolation_level=None)) as database:
            _moved(database, "PASSIVE")

    def close(self) -> None:
        """Wait for the round under way; may be called twice."""
        if self._thread is not None:
            self._thread.join()

    def _empty(self) -> None:
        try:
            with closing(sqlite3.connect(self._file, timeout=_BUSY_SECONDS, isolation_level=None)) as database:
                left = _FEW_PAGES + 1
                for _ in range(_MOST_ROUNDS):
                    if left > _FEW_PAGES:
                        left = _moved(database, "PASSIVE")
                # The log begins anew only when all of it was moved, which takes a moment without writers. The file is not
                # cut: that takes 20 ms for 32 MB, and the log's next pages overwrite the old ones as well.
                with self._writing:
                    _moved(database, "RESTART")
        except sqlite3.Error:
            # Whatever it is, a full disk or a damaged page, the next commit meets it and tells what it means.
            pass
        finally:
            self._due = time.monotonic() + _REST_SECONDS
            self._at_work.release()


def _moved(database: sqlite3.Connection, how: str) -> int:
    """How many pages of the log are left after moving what can be moved."""
    _busy, pages, moved = database.execute(f"PRAGMA wal_checkpoint({how})").fetchone()
    return int(pages) - int(moved)


def _is_long(log: Path) -> bool:
    """Whether the log goes on beyond where it is to be emptied; behind its end the file may hold pages of an earlier log.

    Pages of this log bear its two salts (https://sqlite.org/walformat.html).
    """
    if log.stat().st_size < _BEGIN_BYTES:
        return False
    with log.open("rb", buffering=0) as file:
        header = file.read(32)
        page = 24 + int.from_bytes(header[8:12])
        file.seek(32 + page * (_BEGIN_BYTES // page - 1) + 8)
        return file.read(8) == header[16:24]
