"""The database with the file of each document in a folder sink. It plans names; it touches no file.

Each document wants one name, and takes an alternative with its ID if another document, or a file of a person, has it. A name
belongs to the document that wants it most (with the lowest rank), and of those to the oldest. So the names depend on the
documents only, and not on the order in which they arrived.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from sinks.markdown import alternative, folded

_VERSION = 1
_TABLES = (
    "DROP TABLE IF EXISTS files",
    "DROP TABLE IF EXISTS outdated",
    """CREATE TABLE files (id INTEGER PRIMARY KEY, wanted TEXT NOT NULL, wanted_folded TEXT NOT NULL, rank INTEGER NOT NULL,
        name TEXT NOT NULL, folded TEXT NOT NULL UNIQUE, version TEXT, size INTEGER, modified INTEGER)""",
    "CREATE INDEX waiting ON files (wanted_folded, id) WHERE rank > 0",
    "CREATE TABLE outdated (name TEXT PRIMARY KEY)",
)


class WrittenFile(NamedTuple):
    """The written state of the file of a document."""

    version: str
    size: int
    modified: int


class FileMove(NamedTuple):
    """A file that gets another name although its document did not change."""

    old: str
    new: str
    written: WrittenFile


class NamePlan(NamedTuple):
    """The names of changed documents, the moves of others by ID, and the names of files that must be removed before both."""

    names: Mapping[int, str]
    moves: Mapping[int, FileMove]
    freed: Collection[str]


class _Row(NamedTuple):
    wanted: str
    name: str
    written: WrittenFile | None


class FolderIndex:
    """The index of a folder sink. Raises sqlite3.Error.

    From a plan to its end, its documents have no version here, and the names that they left stay known as ours. A kill in
    between therefore costs only time.
    """

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)

    def close(self) -> None:
        self._database.close()

    @property
    def is_present(self) -> bool:
        """Return whether it was filled, by this version of the program."""
        return bool(self._value("PRAGMA user_version") == _VERSION)

    @property
    def is_complete(self) -> bool:
        """Return whether all documents that it knows are written."""
        query = "SELECT EXISTS (SELECT 1 FROM files WHERE version IS NULL) OR EXISTS (SELECT 1 FROM outdated)"
        return not self._value(query)

    def fill(self, files: Iterable[tuple[int, str]]) -> None:
        """Make it anew, of IDs and names of files. Of two files of one document, the first is ours."""
        with self._transaction():
            for statement in _TABLES:
                self._database.execute(statement)
            rows = ((number, name, folded(name), name, folded(name)) for number, name in files)
            insert = (
                "INSERT OR IGNORE INTO files (id, wanted, wanted_folded, rank, name, folded) VALUES (?, ?, ?, 0, ?, ?)"
            )
            self._database.executemany(insert, rows)
            self._database.execute(f"PRAGMA user_version = {_VERSION}")

    def files(self, after: int, last: int) -> Iterator[tuple[int, str, WrittenFile | None]]:
        """Yield ID and name of each file, and its written state; None during a plan."""
        query = "SELECT id, name, version, size, modified FROM files WHERE id > ? AND id <= ?"
        for number, name, *written in self._database.execute(query, (after, last)).fetchall():
            yield number, name, None if written[0] is None else WrittenFile(*written)

    def plan(
        self, planned: Mapping[int, str], removed: Collection[int], is_foreign: Callable[[str, int], bool]
    ) -> NamePlan:
        """Give each changed document the best free name, and give names that became free to other documents that want them.

        `is_foreign`: whether a file that was never ours has this name, so that the document with this ID cannot have it.
        """
        with self._transaction():
            planning = _Planning(self._database, planned, removed, is_foreign)
            planning.run()
            names = {number: self._name(number) for number in planned}
            moves = dict[int, FileMove]()
            for number, row in planning.displaced.items():
                if (new := self._name(number)) == row.name:
                    self._store(number, row.written)
                elif row.written is not None:
                    moves[number] = FileMove(row.name, new, row.written)
            query = "SELECT name FROM outdated WHERE name NOT IN (SELECT name FROM files)"
            return NamePlan(names, moves, [name for (name,) in self._database.execute(query).fetchall()])

    def finish(self, written: Mapping[int, WrittenFile]) -> None:
        """End the plan: these documents are written, and its freed names are free.

        A name that a killed plan gave to a document that is not yet written still has the file of another.
        """
        with self._transaction():
            for number, each in written.items():
                self._store(number, each)
            unwritten = "SELECT name FROM files WHERE version IS NULL"
            self._database.execute(f"DELETE FROM outdated WHERE name NOT IN ({unwritten})")

    def is_outdated(self, name: str) -> bool:
        """Return whether a file with this name was ours until now."""
        return bool(self._value("SELECT EXISTS (SELECT 1 FROM outdated WHERE name = ?)", name))

    def _store(self, number: int, written: WrittenFile | None) -> None:
        if written is not None:
            self._database.execute(
                "UPDATE files SET version = ?, size = ?, modified = ? WHERE id = ?", (*written, number)
            )

    def _name(self, number: int) -> str:
        return str(self._value("SELECT name FROM files WHERE id = ?", number))

    def _value(self, query: str, *values: object) -> object:
        (value,) = self._database.execute(query, values).fetchone()
        return value

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        with self._database:
            yield


class _Planning:
    """One plan, within a transaction."""

    def __init__(
        self,
        database: sqlite3.Connection,
        planned: Mapping[int, str],
        removed: Collection[int],
        is_foreign: Callable[[str, int], bool],
    ) -> None:
        self._database = database
        self._changed = planned
        self._removed = removed
        self._is_foreign = is_foreign
        self._wanted = dict(planned)
        self._queue = deque(sorted(planned))
        self._freed = set[str]()
        self.displaced = dict[int, _Row]()
        """The rows that other documents had before."""

    def run(self) -> None:
        for number in {*self._removed, *self._changed}:
            self._release(number)
        # A person may have moved their file away.
        query = """SELECT DISTINCT wanted_folded FROM files AS waiting WHERE rank > 0
            AND NOT EXISTS (SELECT 1 FROM files WHERE folded = waiting.wanted_folded)"""
        self._freed.update(name for (name,) in self._database.execute(query))
        while True:
            while self._queue:
                self._claim(self._queue.popleft())
            if (waiting := self._waiting()) is None:
                return
            self._release(waiting)
            self._queue.append(waiting)

    def _release(self, number: int) -> None:
        """Take the name of a document away."""
        query = "SELECT wanted, name, folded, version, size, modified FROM files WHERE id = ?"
        freed = self._database.execute(query, (number,)).fetchone()
        if freed is None:
            return
        requested, name, key, *written = freed
        row = _Row(requested, name, None if written[0] is None else WrittenFile(*written))
        if row.written is not None or not self._is_foreign(name, number):
            self._database.execute("INSERT OR IGNORE INTO outdated VALUES (?)", (name,))
        self._database.execute("DELETE FROM files WHERE id = ?", (number,))
        self._freed.add(key)
        if number not in self._changed and number not in self._removed:
            self.displaced.setdefault(number, row)
            self._wanted[number] = requested

    def _claim(self, number: int) -> None:
        """Give a document the first of its names that it can have."""
        requested = self._wanted[number]
        for rank in itertools.count():
            name = alternative(requested, number, rank)
            key = folded(name)
            holder = self._database.execute("SELECT rank, id FROM files WHERE folded = ?", (key,)).fetchone()
            if holder is not None and holder < (rank, number):
                continue
            if holder is not None:
                self._release(holder[1])
                self._queue.append(holder[1])
            if not self._is_foreign(name, number):
                insert = "INSERT INTO files (id, wanted, wanted_folded, rank, name, folded) VALUES (?, ?, ?, ?, ?, ?)"
                self._database.execute(insert, (number, requested, folded(requested), rank, name, key))
                return

    def _waiting(self) -> int | None:
        """Return the first document for which a freed name is better than its present one."""
        while self._freed:
            key = self._freed.pop()
            query = "SELECT rank, id, name FROM files WHERE folded = ?"
            *holder, held = self._database.execute(query, (key,)).fetchone() or (None,)
            query = "SELECT id, wanted, rank FROM files WHERE rank > 0 AND wanted_folded = ? ORDER BY id"
            rows = self._database.execute(query, (key,)).fetchall()
            rows += self._database.execute("SELECT id, wanted, rank FROM files WHERE rank > 1").fetchall()
            for waiting, requested, rank in rows:
                for lower in range(rank):
                    name = alternative(requested, waiting, lower)
                    is_better = folded(name) == key and (not holder or [lower, waiting] < holder)
                    if is_better and (name == held or not self._is_foreign(name, waiting)):
                        return int(waiting)
        return None
