"""The cache of items that are read and parsed but not yet in the library.

After a crash or a failure in a later step, the next sync continues from the cache instead of reading and parsing again. The
file may be deleted at any time. It is not fsynced, and a damaged file is replaced by an empty one. A power cut may alter
entries of a file that SQLite can still open, so each entry has a digest of its key and value; an entry with a wrong digest
counts as missing. Keys are content hashes or jobs, never names.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from catchment.errors import HomeUnavailable
from catchment.runtime import atomic_files

_SCHEMA = "CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value BLOB NOT NULL)"
_AT_ONCE = 500
_DIGEST_BYTES = 16
"""Size of the digest that precedes each stored value."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_MEANINGS = {
    sqlite3.SQLITE_FULL: "cache: the disk is full; make room and try again",
    sqlite3.SQLITE_BUSY: "cache: in use by another process; try again",
}

_KEYS = "SELECT CAST(key AS BLOB) FROM entries"

T = TypeVar("T")


class Cache:
    """Bytes by key in a SQLite file, for any number of threads and processes. Every method may raise HomeUnavailable."""

    def __init__(self, path: Path) -> None:
        self.thrown_away = 0
        """The number of damaged files that were replaced by an empty one."""
        self._path = path
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None
        self._done(lambda _: None)

    def put(self, entries: Mapping[str, bytes]) -> None:
        """Store the entries, replacing those with the same keys."""
        if entries:
            self._done(lambda database: _put(database, entries))

    def get(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the entries that exist and match their digest."""
        requested = list(keys)
        return self._done(lambda database: _get(database, requested))

    def keys(self) -> list[str]:
        """Return all keys."""
        return self._done(lambda database: [_text(key) for (key,) in database.execute(_KEYS)])

    def drop(self, keys: Collection[str]) -> None:
        """Delete the entries."""
        self._done(lambda database: _drop(database, keys))

    def clear(self) -> None:
        """Delete all entries and overwrite their bytes in the file and its log. May be called again."""
        self._done(_clear)

    def close(self) -> None:
        """Close the file once other threads have finished their call. May be called again."""
        # A cancelled sync does not stop its threads, and SQLite crashes if its file is closed during a call.
        with self._lock:
            self._shut()

    def _shut(self) -> None:
        if self._database is not None:
            self._database.close()

    def _done(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of `work`. If the file is damaged, replace it by an empty one and run `work` again."""
        with self._lock, atomic_files.explained():
            try:
                try:
                    return work(self._opened())
                except sqlite3.DatabaseError as error:
                    if _kind(error) not in _DAMAGED:
                        raise
                self._throw_away()
                return work(self._opened())
            except sqlite3.Error as error:
                remedy = "cache: cannot be read or written; check the disk and the owner of cache.db"
                raise HomeUnavailable(_MEANINGS.get(_kind(error), remedy)) from error

    def _opened(self) -> sqlite3.Connection:
        if self._database is None:
            self._database = _connect(self._path)
        return self._database

    def _throw_away(self) -> None:
        self._shut()
        self._database = None
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)
        self.thrown_away += 1


def _connect(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=30, check_same_thread=False)
    try:
        path.chmod(0o600)
        # SQLite does not wait where two connections switch a new file to WAL at once.
        with atomic_files.alone(path.parent):
            database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=OFF")
        database.execute(_SCHEMA)
    except BaseException:
        database.close()
        raise
    return database


def _put(database: sqlite3.Connection, entries: Mapping[str, bytes]) -> None:
    with database:
        signed = ((key, _digest(key, value) + value) for key, value in entries.items())
        database.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", signed)


def _get(database: sqlite3.Connection, keys: list[str]) -> dict[str, bytes]:
    entries: dict[str, bytes] = {}
    for start in range(0, len(keys), _AT_ONCE):
        part = keys[start : start + _AT_ONCE]
        marks = ",".join("?" * len(part))
        # Damage may change the type of a value. SQLite raises an error for text that is not UTF-8 unless it is cast.
        statement = f"SELECT CAST(key AS BLOB), CAST(value AS BLOB) FROM entries WHERE key IN ({marks})"
        for name, signed in database.execute(statement, part):
            key, value = _text(name), signed[_DIGEST_BYTES:]
            if signed[:_DIGEST_BYTES] == _digest(key, value):
                entries[key] = value
    return entries


def _digest(key: str, value: bytes) -> bytes:
    digest = hashlib.blake2b(f"{key}\0".encode(errors="surrogateescape"), digest_size=_DIGEST_BYTES)
    digest.update(value)
    return digest.digest()


def _text(key: bytes) -> str:
    return key.decode(errors="surrogateescape")


def _drop(database: sqlite3.Connection, keys: Collection[str]) -> None:
    with database:
        raw = [(key.encode(errors="surrogateescape"),) for key in keys]
        database.executemany("DELETE FROM entries WHERE key = CAST(? AS TEXT)", raw)


def _clear(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA secure_delete = ON")
    with database:
        database.execute("DELETE FROM entries")
    database.execute("VACUUM")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _kind(error: sqlite3.Error) -> int:
    # Errors raised by the sqlite3 module itself have no code.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
