"""The records of a program on disk, as it printed them: until they are documents, and to read them again."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from secrets import token_hex

from catchment.content.disposable_file import DisposableFile

_SCHEMA = """
    CREATE TABLE IF NOT EXISTS records(locator TEXT PRIMARY KEY, stream TEXT NOT NULL, data BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS place(id TEXT NOT NULL, number INTEGER NOT NULL)"""
_AT_ONCE = 1_000


class RecordStore(DisposableFile):
    """The latest record at each locator. Created on first use. Methods may raise HomeUnavailable."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "records.db", _SCHEMA)

    @property
    def mark(self) -> str:
        """The mark of this moment; "" of an empty store."""
        return self._with_database(_mark)

    def follows(self, mark: str | None) -> bool:
        """Return whether all is there that was there at this mark."""
        then, now = (mark or "").partition(" "), self.mark.partition(" ")
        return bool(mark) and then[0] == now[0] and int(then[2]) <= int(now[2])

    def put(self, records: Sequence[tuple[str, str, bytes]]) -> str:
        """Store records as locator, stream and JSON. Return the mark of this moment."""

        def store(database: sqlite3.Connection) -> str:
            with database:
                if not database.execute("UPDATE place SET number = number + 1").rowcount:
                    database.execute("INSERT INTO place VALUES (?, 1)", (token_hex(8),))
                database.executemany("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", records)
            return _mark(database)

        return self._with_database(store)

    def get(self, locator: str) -> tuple[str, bytes] | None:
        """Return the stream and the record at a locator; None if there is none."""
        select = "SELECT stream, data FROM records WHERE locator = ?"
        row: tuple[str, bytes] | None = self._with_database(
            lambda database: database.execute(select, (locator,)).fetchone()
        )
        return row

    def drop(self, locators: Sequence[str]) -> None:
        """Delete the records at these locators."""

        def delete(database: sqlite3.Connection) -> None:
            with database:
                database.executemany("DELETE FROM records WHERE locator = ?", [(locator,) for locator in locators])

        self._with_database(delete)

    def __iter__(self) -> Iterator[tuple[str, str, bytes]]:
        """Yield all records, some at once."""
        last = ""
        while rows := self._after(last):
            yield from rows
            last = rows[-1][0]

    def _after(self, locator: str) -> list[tuple[str, str, bytes]]:
        select = "SELECT locator, stream, data FROM records WHERE locator > ? ORDER BY locator LIMIT ?"
        return self._with_database(lambda database: database.execute(select, (locator, _AT_ONCE)).fetchall())


def _mark(database: sqlite3.Connection) -> str:
    row = database.execute("SELECT id || ' ' || number FROM place").fetchone()
    return "" if row is None else str(row[0])
