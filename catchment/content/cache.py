"""The cache of items that are read and parsed but not yet in the library.

After a crash or a failure in a later step, the next sync continues from the cache instead of reading and parsing again. Keys
are content hashes or jobs, never names.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from catchment.content.disposable_file import DisposableFile, rows_of
from catchment.errors import HomeUnavailable

_DIGEST_BYTES = 16
_SCHEMA = "CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value BLOB NOT NULL)"
_KEYS = "SELECT CAST(key AS BLOB) FROM entries"
# Damage may change the type of a value. SQLite raises an error for text that is not UTF-8 unless it is cast.
_GET = "SELECT CAST(key AS BLOB), CAST(value AS BLOB) FROM entries WHERE key IN ({})"


class Cache(DisposableFile):
    """Bytes by key."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _SCHEMA)
        self._with_database(lambda _: None)

    def put(self, entries: Mapping[str, bytes]) -> None:
        """Store the entries, replacing those with the same keys. The digest of its key and value precedes each value."""
        if entries:
            self._with_database(lambda database: _put(database, entries))

    def get(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the entries that exist and match their digest."""
        requested = list(keys)
        return self._with_database(lambda database: _get(database, requested))

    def keys(self) -> list[str]:
        """Return all keys."""
        return self._with_database(lambda database: [_text(key) for (key,) in database.execute(_KEYS)])

    def drop(self, keys: Collection[str]) -> None:
        """Delete the entries."""
        self._with_database(lambda database: _drop(database, keys))

    def clear(self) -> None:
        """Delete all entries and overwrite their bytes in the file and its log. May be called again."""
        self._with_database(_clear)
        self.erase()

    def close(self) -> None:
        """Return the space of delivered items to the disk if it is most of the file, and close the file."""
        # If the disk is full or another process is writing, the next close does this.
        with suppress(HomeUnavailable):
            self.shrink()
        super().close()


def _put(database: sqlite3.Connection, entries: Mapping[str, bytes]) -> None:
    with database:
        signed = ((key, _digest(key, value) + value) for key, value in entries.items())
        database.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", signed)


def _get(database: sqlite3.Connection, keys: list[str]) -> dict[str, bytes]:
    entries: dict[str, bytes] = {}
    for name, signed in rows_of(database, _GET, keys):
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
    with database:
        database.execute("DELETE FROM entries")
