"""The file of Prefect's database, kept as small as what is in it: Prefect deletes what is old, and never gives room back."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from catchment.errors import TryAgain
from catchment.home import Home

_STEP_PAGES = 250
"""Given back in one transaction, 1 MB: those who write meanwhile wait for some milliseconds."""
_WORTH_PAGES = 250
_INCREMENTAL = 2
_PATIENCE_SECONDS = 1.0


def prepare(home: Home) -> None:
    """See to it that the database can shrink while it is used; only while no server runs. May be called again.

    A file made before is rewritten once. Nothing happens when the disk has no room for that. Raises TryAgain, with the
    remedy, when the file is damaged.
    """
    file = _file(home)
    if not file.exists():
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600))
    try:
        with contextlib.suppress(sqlite3.OperationalError), _open(file) as database:
            if _number(database, "auto_vacuum") != _INCREMENTAL:
                database.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
                # What writes the first page of an empty file; the server would do the same.
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("VACUUM")
    except sqlite3.DatabaseError:
        raise TryAgain(
            "Prefect's database is damaged; move the files prefect/prefect.db* of the home folder away and start again: "
            "past runs are forgotten, the library does not need them"
        ) from None


def shrink(home: Home) -> int:
    """Give the room of what was deleted back to the disk, beside a running server; how many bytes. Cheap when there is none."""
    file = _file(home)
    before = _bytes(file)
    # A database that is busy for so long is shrunk another time.
    with contextlib.suppress(sqlite3.OperationalError), _open(file) as database:
        free = _number(database, "freelist_count")
        if free < _WORTH_PAGES:
            return 0
        for _ in range(0, free, _STEP_PAGES):
            # `execute` would stop after the first page.
            database.executescript(f"PRAGMA incremental_vacuum({_STEP_PAGES})")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return before - _bytes(file)


def _bytes(file: Path) -> int:
    """With what is written and not yet in its place."""
    log = file.with_name(f"{file.name}-wal")
    return sum(one.stat().st_size for one in (file, log) if one.exists())


def _file(home: Home) -> Path:
    return home.prefect / "prefect.db"


def _open(file: Path) -> contextlib.closing[sqlite3.Connection]:
    return contextlib.closing(sqlite3.connect(file, timeout=_PATIENCE_SECONDS, isolation_level=None))


def _number(database: sqlite3.Connection, pragma: str) -> int:
    return int(database.execute(f"PRAGMA {pragma}").fetchone()[0])
