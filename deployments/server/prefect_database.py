"""The file of Prefect's database: fit for use, as small as what is in it, and with a note of what need not be done to it again.

Prefect deletes what is old, and never gives room back. And to learn that a database has the types of all blocks that are
installed, each start of its server imports whatever may bring some, the worker with all that runs need among it: 1 s. So the
number that SQLite leaves to the user of a file says for which packages they were registered in it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import entry_points, version
from importlib.util import find_spec
from pathlib import Path

from catchment.errors import TryAgain
from catchment.runtime.home import Home

_STEP_PAGES = 250
"""Given back in one transaction, 1 MB: those who write meanwhile wait for some milliseconds."""
_WORTH_PAGES = 250
_INCREMENTAL = 2
_PATIENCE_SECONDS = 1.0
_DAMAGED = "is damaged"
_NOTE = "user_version"
_REVISION = "alembic_version"
_FIRST = "flow_run"
_STEPS = "server/database/_migrations/versions/sqlite/*.py"


def prepare(home: Home) -> str | None:
    """See to it that the server can use its database, and that it can shrink meanwhile; only while no server runs.

    One that is damaged, or of a newer Prefect, is kept aside, and the server makes a new one: the answer is a line that says
    so. A file made before is rewritten once; nothing happens when the disk has no room for that. May be called again. Raises
    TryAgain, with the remedy, when the file cannot be written.
    """
    file = _file(home)
    if not file.exists():
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600))
    said = None
    if wrong := _wrong(file):
        kept = _put_aside(file)
        said = (
            f"Prefect's database {wrong}; it is kept as {kept.relative_to(home.path)}, and a new one is made: "
            "past runs are forgotten, the library does not need them"
        )
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600))
    # Another time there may be room.
    with contextlib.suppress(sqlite3.OperationalError), _open(file) as database:
        if _number(database, "auto_vacuum") != _INCREMENTAL:
            database.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
            # What writes the first page of an empty file; the server would do the same.
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("VACUUM")
    return said


def _wrong(file: Path) -> str | None:
    """Why the server could not use the file; None where it can. All of it is read."""
    try:
        with _open(file) as database:
            if database.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                return _DAMAGED
            tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            found = database.execute("SELECT version_num FROM alembic_version") if _REVISION in tables else ()
            revisions = [revision for (revision,) in found]
            database.execute("BEGIN IMMEDIATE")
            # A lock alone SQLite gives to those who may not write, too.
            database.execute(f"PRAGMA {_NOTE} = {_number(database, _NOTE)}")
            database.execute("ROLLBACK")
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
            raise TryAgain(
                "Prefect's database cannot be written; make prefect/prefect.db and its folder in the home folder writable "
                "(`chmod -R u+w`), and start again"
            ) from error
        # A disk that is full or fails, or whoever has it locked, is told by the server.
        return _DAMAGED if code in (0, 1, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) else None
    if not revisions:
        # As a kill before the first table leaves it, or in the middle of the first step, after which no other is done.
        return _DAMAGED if _FIRST in tables else None
    return None if all(map(_is_known, revisions)) else "is of another version of Prefect"


def _is_known(revision: str) -> bool:
    """Whether the Prefect that is installed can lead a database of this revision forward; it is not imported for that."""
    spec = find_spec("prefect")
    folders = spec.submodule_search_locations if spec else None
    steps = [step for folder in folders or () for step in Path(folder).glob(_STEPS)]
    # A Prefect that keeps its steps elsewhere decides by itself.
    return not steps or any(f"_{revision}_" in step.name for step in steps)


def _put_aside(file: Path) -> Path:
    """Give the database, and what SQLite has beside it, other names."""
    kept = file.with_name(f"{file.name}.kept-{datetime.now(UTC):%Y%m%dT%H%M%S-%f}")
    for ending in ("-wal", "-shm", ""):
        with contextlib.suppress(FileNotFoundError):
            file.with_name(file.name + ending).rename(kept.with_name(kept.name + ending))
    return kept


def block_type_settings(home: Home) -> Mapping[str, str]:
    """Settings of a server that is about to start: it registers the types of blocks, unless that was done."""
    with contextlib.suppress(sqlite3.DatabaseError), _open(_file(home)) as database:
        # A database that was reset has its number still.
        has_some = database.execute("SELECT EXISTS (SELECT 1 FROM block_type)").fetchone()[0]
        if has_some and _number(database, _NOTE) == _packages():
            return {
                "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
                "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION": "false",
            }
    # Prefect's own note, which may be of another database.
    (home.prefect / "memo_store.toml").unlink(missing_ok=True)
    return {}


def note_block_types(home: Home) -> None:
    """Note that the server which runs now has them all; another time, where the file is busy or cannot be written."""
    with contextlib.suppress(sqlite3.DatabaseError), _open(_file(home)) as database:
        if _number(database, _NOTE) != (number := _packages()):
            database.execute(f"PRAGMA {_NOTE} = {number}")


def _packages() -> int:
    """A number of Prefect's version, and of those of the packages that bring types of blocks."""
    brought = {(one.dist.name, one.dist.version) for one in entry_points(group="prefect.collections") if one.dist}
    return zlib.crc32(repr(sorted({*brought, ("prefect", version("prefect"))})).encode()) >> 1


def shrink(home: Home) -> int:
    """Give the room of what was deleted back to the disk, beside a running server; how many bytes. Cheap when there is none."""
    file = _file(home)
    before = _bytes(file)
    # A database that is busy for so long is shrunk another time; of one that is damaged the server tells.
    with contextlib.suppress(sqlite3.DatabaseError), _open(file) as database:
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
