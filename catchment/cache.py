"""The cache of finished steps: what was read and parsed but is not in the library yet.

It exists so that a failure downstream, or a kill, reads and parses nothing twice. It is only a cache: it may be deleted at
any time, it is not fsynced, and a damaged file is thrown away. Keys are content hashes or jobs, never names.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

_SCHEMA = "CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value BLOB NOT NULL)"
_AT_ONCE = 500


class Cache:
    """Bytes by key in a SQLite file. Safe for several threads and processes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._database = self._open()

    def put(self, entries: Mapping[str, bytes]) -> None:
        """Keep the entries; an existing key is replaced."""
        if entries:
            with self._lock, self._database as database:
                database.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", entries.items())

    def get(self, keys: Iterable[str]) -> dict[str, bytes]:
        """The entries that are there."""
        found: dict[str, bytes] = {}
        wanted = list(keys)
        with self._lock:
            for start in range(0, len(wanted), _AT_ONCE):
                part = wanted[start : start + _AT_ONCE]
                marks = ",".join("?" * len(part))
                found.update(self._database.execute(f"SELECT key, value FROM entries WHERE key IN ({marks})", part))
        return found

    def drop(self, keys: Collection[str]) -> None:
        """Forget the entries."""
        with self._lock, self._database as database:
            database.executemany("DELETE FROM entries WHERE key = ?", [(key,) for key in keys])

    def clear(self) -> None:
        """Forget everything, down to the bytes, in the file and in its log; may be called again."""
        with self._lock:
            self._database.execute("PRAGMA secure_delete = ON")
            with self._database as database:
                database.execute("DELETE FROM entries")
            self._database.execute("VACUUM")
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the file; may be called again."""
        self._database.close()

    def _open(self) -> sqlite3.Connection:
        try:
            return _connect(self._path)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            for suffix in ("", "-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    Path(f"{self._path}{suffix}").unlink()
            return _connect(self._path)


def _connect(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=30, check_same_thread=False)
    path.chmod(0o600)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=OFF")
    database.execute(_SCHEMA)
    return database
