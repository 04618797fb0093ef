"""Backups: a copy of the ledger in one file, with small files of the home in it, and how one is brought back.

A backup is a ledger itself: any SQLite can read it. What else it holds is in a table of its own, which a restored ledger
does not have. A ledger on PostgreSQL is backed up by what PostgreSQL has for it.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from sqlalchemy.engine import URL

from catchment.errors import BadInput, LedgerCorrupt, NotFound, Refused, TryAgain
from catchment.ledger.admin.check import check
from catchment.ledger.admin.opening import is_older, require_whole, revision_of
from catchment.ledger.db.copies import WITH_LEDGER, in_the_making, remove, until_whole
from catchment.ledger.db.database import Store
from catchment.runtime import atomic_files

_FILES = "CREATE TABLE backup (name TEXT PRIMARY KEY, data BLOB NOT NULL)"


@dataclass(frozen=True, slots=True)
class Restored:
    """What came of a restore: the files that were in the backup, the folder with what it replaced, broken invariants."""

    files: Mapping[str, bytes]
    aside: Path | None
    broken: list[str]


def back_up(store: Store, target: Path, files: Mapping[str, bytes]) -> list[str]:
    """Write a copy of the ledger as it is at this moment, and prove it; the invariants that its copy breaks.

    Nobody has to wait meanwhile. There is no file until it is whole. Raises Refused on PostgreSQL, BadInput where there is
    a file already, LedgerCorrupt where the ledger cannot be copied, HomeUnavailable or LedgerUnavailable where the disk
    refuses.
    """
    if store.file is None:
        raise Refused(
            "The ledger is on a PostgreSQL server, which is backed up by its own means; use pg_dump, and copy sources.yaml"
        )
    _require_free(target)
    made = None
    try:
        with until_whole(target) as unfinished:
            made = unfinished.stat()
            with store.translated(), closing(sqlite3.connect(store.file, timeout=30)) as source:
                source.execute("VACUUM INTO ?", (str(unfinished),))
            with store.translated(), closing(sqlite3.connect(unfinished)) as copy, copy:
                copy.execute(_FILES)
                copy.executemany("INSERT INTO backup VALUES (?, ?)", files.items())
            broken = _proved(unfinished)
            with store.translated(), closing(sqlite3.connect(unfinished)) as copy:
                # One file, which can also be read where nothing may be written.
                copy.execute("PRAGMA journal_mode = DELETE")
            # Another backup may have taken the name meanwhile.
            _require_free(target)
    except BaseException:
        # It may have its name, and it is not known whether the disk knows it.
        if made and target.exists() and os.path.samestat(made, target.stat()):
            target.unlink()
        raise
    return broken


def _require_free(target: Path) -> None:
    if target.exists():
        raise BadInput(f"There is a file {target.name} already; name another, or a folder")


def restore(target: Path, backup: Path, outdated: Iterable[Path] = ()) -> Restored:
    """Put a backup in the place of the ledger `target`, which may be damaged or missing; what was there is kept aside.

    `outdated` are databases that mean nothing beside another ledger: they are removed. Nothing is changed unless the backup is
    whole. May be called again after a kill. Raises NotFound, BadInput where the file is no ledger, SchemaMismatch where it is
    of a newer program, LedgerCorrupt where it is damaged, TryAgain where another process uses the ledger, HomeUnavailable or
    LedgerUnavailable where the disk refuses.
    """
    if not backup.is_file():
        raise NotFound(f"There is no file {backup.name}; name a file that `catchment backup` wrote")
    with atomic_files.explained(), in_the_making(target) as fresh:
        files = _copied(backup, fresh)
        broken = _proved(fresh)
        with _alone(target):
            for file in outdated:
                remove(file)
            aside = _put_aside(target)
            atomic_files.put(fresh, target)
    return Restored(files, aside, broken)


def _proved(file: Path) -> list[str]:
    """Which invariants a copy breaks. Raises LedgerCorrupt where its pages are damaged."""
    # At this moment of the clock no lease has ended: those of running jobs go on in the ledger that was copied.
    store = Store(URL.create("sqlite", database=str(file)), lambda: 0.0)
    try:
        with store.translated(), store.read() as reading:
            if reading.connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar_one() != "ok":
                raise LedgerCorrupt("The copy of the ledger is damaged and was not kept; check the disk")
        return check(store, deep=True)
    finally:
        store.close()


def _copied(backup: Path, fresh: Path) -> dict[str, bytes]:
    """Make a ledger of this program's revision of a backup; the files that were in it."""
    strange = BadInput(f"{backup.name} is no backup of Catchment; name a file that `catchment backup` wrote")
    damaged = LedgerCorrupt(f"The backup {backup.name} is damaged, and nothing was changed; take an older one")
    store = Store(URL.create("sqlite", database=str(fresh)), lambda: 0.0)
    try:
        with (
            store.translated(),
            closing(sqlite3.connect(f"file:{quote(str(backup))}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(fresh)) as copy,
        ):
            source.backup(copy)
            files = _taken_out(copy)
    except LedgerCorrupt as error:
        raise strange if _is_no_database(error.__cause__) else damaged from error
    try:
        try:
            require_whole(store)
        except LedgerCorrupt:
            raise damaged from None
        try:
            with store.read() as reading:
                found = revision_of(reading)
        except LedgerCorrupt:
            raise strange from None
        if found is None:
            raise strange
        if is_older(found):
            from catchment.ledger.admin import migrations

            with store.write() as writing:
                migrations.run(writing.connection)
    finally:
        store.close()
    return files


def _is_no_database(error: BaseException | None) -> bool:
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB


def _taken_out(copy: sqlite3.Connection) -> dict[str, bytes]:
    """The files in a backup; a copy that a migration made has none."""
    if copy.execute("SELECT 1 FROM sqlite_master WHERE name = 'backup'").fetchone() is None:
        return {}
    with copy:
        files = dict(copy.execute("SELECT name, data FROM backup"))
        copy.execute("DROP TABLE backup")
    return files


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Let no other process have the ledger, if there is one that can be opened; afterwards it has no log beside it."""
    if not file.exists():
        yield
        return
    with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as database:
        try:
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.execute("BEGIN EXCLUSIVE")
            database.execute("COMMIT")
            database.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise TryAgain("Another process uses the ledger; wait until it has ended, and try again") from error
            # A damaged one has to go in any case.
        yield


def _put_aside(file: Path) -> Path | None:
    """Keep the ledger in a folder beside it, without a moment in which there is none."""
    logs = [log for ending in WITH_LEDGER if (log := file.with_name(file.name + ending)).exists()]
    if not logs and not file.exists():
        return None
    # One for each try: a restore may be killed and done again within a second.
    aside = file.with_name(f"replaced-{datetime.now(UTC):%Y%m%dT%H%M%S-%f}")
    aside.mkdir(mode=0o700)
    for log in logs:
        # What one ledger has yet to do or to undo must never be found beside another, which it would be done to.
        log.rename(aside / log.name)
    if file.exists():
        kept = aside / file.name
        try:
            kept.hardlink_to(file)
        except OSError:
            shutil.copy2(file, kept)
            atomic_files.flush(kept)
    atomic_files.flush(aside)
    return aside
