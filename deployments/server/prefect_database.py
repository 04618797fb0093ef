"""The file of Prefect's database: fills a new one, checks it before a start, shrinks it, and avoids repeated registrations.

Prefect creates its tables by 7 s of migrations, so those that it made for the installed versions are recorded in a file
(`python -m tests.golden.prefect_tables`). It deletes old rows but never returns the space to the disk. And at each start its
server imports every package that may bring block types, the worker and its dependencies among them, which takes 1 s. SQLite's
`user_version` therefore records for which packages the block types were registered.
"""

from __future__ import annotations

import contextlib
import gzip
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
"""Pages returned to the disk in one transaction, 1 MB: other writers wait for some milliseconds."""
_WORTH_PAGES = 250
_INCREMENTAL = 2
_PATIENCE_SECONDS = 1.0
_DAMAGED = "is damaged"
_NOTE = "user_version"
_REVISION = "alembic_version"
_FIRST = "flow_run"
_RECORDED = Path(__file__).parent / "fresh_prefect.sql.gz"
"""The tables of a new database with the block types in them, and the `user_version` for which they were recorded."""
_STEPS = "server/database/_migrations/versions/sqlite/*.py"


def prepare(home: Home) -> str | None:
    """Make the database usable for the server, fill a new one, and enable shrinking. Only while no server is running.

    A damaged database, or one of a newer Prefect, is renamed, and the server creates a new one; returns a line that reports
    this. A file without incremental vacuum is rewritten once, unless the disk has no room. Idempotent. Raises TryAgain, with
    the remedy, if the file is not writable.
    """
    file = _file(home)
    if not file.exists():
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600))
    report = None
    if defect := _defect(file):
        copy = _rename(file)
        report = (
            f"Prefect's database {defect}; renamed to {copy.relative_to(home.path)}, and a new one is created; "
            "past runs are lost, the library is not affected"
        )
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600))
    # If there is no room now, the next start tries again.
    with contextlib.suppress(sqlite3.OperationalError), _open(file) as database:
        if _number(database, "auto_vacuum") != _INCREMENTAL:
            database.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
            # Writes the first page of an empty file; the server would set the same mode.
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("VACUUM")
        _fill(database)
    return report


def _fill(database: sqlite3.Connection) -> None:
    """Create the recorded tables in a new database. With other versions than those recorded, Prefect creates its own."""
    if not database.execute("SELECT EXISTS (SELECT 1 FROM sqlite_master)").fetchone()[0]:
        recorded = gzip.decompress(_RECORDED.read_bytes()).decode()
        if recorded.startswith(note := f"PRAGMA {_NOTE} = {_packages()};"):
            # Not with the pragma: it is noted with the tables or not at all.
            database.executescript(f"BEGIN; {note} {recorded.removeprefix(note)} COMMIT;")


def _defect(file: Path) -> str | None:
    """Return why the server cannot use the file; None if it can. Reads the whole file."""
    try:
        with _open(file) as database:
            if database.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                return _DAMAGED
            tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            stored = database.execute("SELECT version_num FROM alembic_version") if _REVISION in tables else ()
            revisions = [revision for (revision,) in stored]
            database.execute("BEGIN IMMEDIATE")
            # SQLite grants the lock even without write permission, so write a value.
            database.execute(f"PRAGMA {_NOTE} = {_number(database, _NOTE)}")
            database.execute("ROLLBACK")
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
            raise TryAgain(
                "Prefect's database cannot be written; make prefect/prefect.db and its folder in the home folder writable "
                "(`chmod -R u+w`), and start again"
            ) from error
        # The server reports a full or failing disk, and a locked database.
        return _DAMAGED if code in (0, 1, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) else None
    if not revisions:
        # A kill before or during the first migration leaves no revision; Prefect does not continue such a migration.
        return _DAMAGED if _FIRST in tables else None
    return None if all(map(_is_known, revisions)) else "is of another version of Prefect"


def _is_known(revision: str) -> bool:
    """Whether the installed Prefect can migrate a database of this revision. Does not import Prefect."""
    spec = find_spec("prefect")
    folders = spec.submodule_search_locations if spec else None
    steps = [step for folder in folders or () for step in Path(folder).glob(_STEPS)]
    # A Prefect version that stores its migrations elsewhere decides by itself.
    return not steps or any(f"_{revision}_" in step.name for step in steps)


def _rename(file: Path) -> Path:
    """Rename the database and SQLite's files beside it. Returns the new path."""
    copy = file.with_name(f"{file.name}.kept-{datetime.now(UTC):%Y%m%dT%H%M%S-%f}")
    for ending in ("-wal", "-shm", ""):
        with contextlib.suppress(FileNotFoundError):
            file.with_name(file.name + ending).rename(copy.with_name(copy.name + ending))
    return copy


def block_type_settings(home: Home) -> Mapping[str, str]:
    """Settings for a server that is about to start: it registers the block types unless they are registered."""
    with contextlib.suppress(sqlite3.DatabaseError), _open(_file(home)) as database:
        # Resetting a database keeps its `user_version`.
        has_some = database.execute("SELECT EXISTS (SELECT 1 FROM block_type)").fetchone()[0]
        if has_some and _number(database, _NOTE) == _packages():
            return {
                "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
                "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION": "false",
            }
    # Prefect's own record, which may belong to another database.
    (home.prefect / "memo_store.toml").unlink(missing_ok=True)
    return {}


def note_block_types(home: Home) -> None:
    """Record that the running server has registered all block types. No effect if the file is busy or not writable."""
    with contextlib.suppress(sqlite3.DatabaseError), _open(_file(home)) as database:
        if _number(database, _NOTE) != (number := _packages()):
            database.execute(f"PRAGMA {_NOTE} = {number}")


def _packages() -> int:
    """A checksum of the versions of Prefect and of the packages that bring block types."""
    brought = {
        (entry_point.dist.name, entry_point.dist.version)
        for entry_point in entry_points(group="prefect.collections")
        if entry_point.dist
    }
    return zlib.crc32(repr(sorted({*brought, ("prefect", version("prefect"))})).encode()) >> 1


def shrink(home: Home) -> int:
    """Return the free space in the file to the disk while the server runs. Returns the bytes freed. Cheap if there are none."""
    file = _file(home)
    before = _bytes(file)
    # A busy database is shrunk the next time. The server reports a damaged one.
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
    """Size of the database, including the write-ahead log."""
    log = file.with_name(f"{file.name}-wal")
    return sum(path.stat().st_size for path in (file, log) if path.exists())


def _file(home: Home) -> Path:
    return home.prefect / "prefect.db"


def _open(file: Path) -> contextlib.closing[sqlite3.Connection]:
    return contextlib.closing(sqlite3.connect(file, timeout=_PATIENCE_SECONDS, isolation_level=None))


def _number(database: sqlite3.Connection, pragma: str) -> int:
    return int(database.execute(f"PRAGMA {pragma}").fetchone()[0])
