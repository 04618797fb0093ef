"""A SQLite file that may be deleted at any time: the base of the cache and of the raw content.

It is not fsynced, and a damaged file is replaced by an empty one. A power cut may alter entries of a file that SQLite can still
open, so each entry has a digest; an entry with a wrong digest counts as missing.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

from catchment.errors import HomeUnavailable
from catchment.runtime import atomic_files

_AT_ONCE = 500
"""Parameters of one statement."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_MEANINGS = {
    sqlite3.SQLITE_FULL: "the disk is full; make room and try again",
    sqlite3.SQLITE_BUSY: "in use by another process; try again",
}

T = TypeVar("T")


class DisposableFile:
    """A connection for any number of threads, to a file for any number of processes. Methods may raise HomeUnavailable."""

    def __init__(self, path: Path, schema: str) -> None:
        self.thrown_away = 0
        """The number of damaged files that were replaced by an empty one."""
        self._path = path
        self._schema = schema
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None

    def check(self) -> None:
        """Replace the file by an empty one if it is damaged. Reads all of it."""
        self._with_database(_check)

    def erase(self) -> None:
        """Overwrite the bytes of deleted entries in the file and its log. May be called again."""
        self._with_database(_erase)

    def shrink(self) -> None:
        """Return free pages to the disk if they are more than half of the file."""
        if file_size(self._path) > 2 * self._with_database(used_bytes):
            self.erase()

    def close(self) -> None:
        """Close the file once other threads have finished their call. May be called again."""
        # A cancelled sync does not stop its threads, and SQLite crashes if its file is closed during a call.
        with self._lock:
            self._shut()

    def _with_database(self, work: Callable[[sqlite3.Connection], T]) -> T:
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
                name = self._path.name
                meaning = _MEANINGS.get(
                    _kind(error), f"cannot be read or written; check the disk and the owner of {name}"
                )
                raise HomeUnavailable(f"{self._path.stem}: {meaning}") from error

    def _opened(self) -> sqlite3.Connection:
        if self._database is None:
            self._database = _connect(self._path, self._schema)
        return self._database

    def _shut(self) -> None:
        if self._database is not None:
            self._database.close()

    def _throw_away(self) -> None:
        self._shut()
        self._database = None
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)
        self.thrown_away += 1


def rows_of(database: sqlite3.Connection, statement: str, values: Sequence[Any]) -> Iterator[Any]:
    """Yield the rows of a statement with a `{}` for its parameters, which may be any number."""
    for start in range(0, len(values), _AT_ONCE):
        part = values[start : start + _AT_ONCE]
        yield from database.execute(statement.format(",".join("?" * len(part))), part)


def used_bytes(database: sqlite3.Connection) -> int:
    """Return the bytes of a database file without its free pages."""
    pages, free, each = (
        database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * each)


def file_size(path: Path) -> int:
    """Return the bytes of a SQLite file and its log; 0 without it."""
    size = 0
    for suffix in ("", "-wal"):
        # Deleted meanwhile, or never made.
        with suppress(FileNotFoundError):
            size += Path(f"{path}{suffix}").stat().st_size
    return size


def is_damaged(path: Path, *, deep: bool) -> bool:
    """Return whether a file is damaged, without a change to it. False if it does not exist or is in use.

    `deep`: read all of it, not only its first page.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            database.execute("SELECT count(*) FROM sqlite_master")
            if deep:
                _check(database)
    except sqlite3.DatabaseError as error:
        return _kind(error) in _DAMAGED
    return False


def _connect(path: Path, schema: str) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=30, check_same_thread=False)
    try:
        path.chmod(0o600)
        # SQLite does not wait where two connections switch a new file to WAL at once.
        with atomic_files.alone(path.parent):
            database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=OFF")
        for statement in schema.split(";"):
            database.execute(statement)
    except BaseException:
        database.close()
        raise
    return database


class _Inconsistent(sqlite3.DatabaseError):
    """A page contradicts another one."""

    sqlite_errorcode = sqlite3.SQLITE_CORRUPT


def _check(database: sqlite3.Connection) -> None:
    if database.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
        raise _Inconsistent


def _erase(database: sqlite3.Connection) -> None:
    # `VACUUM` writes the remaining rows only, and the log would keep the pages from before.
    database.execute("VACUUM")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _kind(error: sqlite3.Error) -> int:
    # Errors raised by the sqlite3 module itself have no code.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
