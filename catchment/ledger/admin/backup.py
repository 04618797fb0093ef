"""Backup and restore. A backup is a single SQLite file: a copy of the ledger plus small files of the home folder.

The files are in a separate table. A restored ledger keeps the table until the files are in their places, so that a restore
that was killed in between is finished later. The backup of a ledger on PostgreSQL is such a file too: both databases restore
the backups of each other.

A backup ends with a seal, the digest of all bytes before it. SQLite ignores the bytes after the last page. An entry of the
table records that the file has a seal, so that a missing seal is noticed. Backups of older versions have neither.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import file_digest, sha256
from pathlib import Path
from stat import S_ISREG
from tempfile import TemporaryDirectory
from urllib.parse import quote

from sqlalchemy import text
from sqlalchemy.engine import URL

from catchment.errors import BadInput, LedgerCorrupt, NotFound, TryAgain
from catchment.ledger.admin import transfer
from catchment.ledger.admin.check import check
from catchment.ledger.admin.copies import SIDE_FILES, atomic_copy, copy_into, remove, temporary_copy
from catchment.ledger.admin.migrations import revision_of
from catchment.ledger.admin.opening import is_older, require_whole
from catchment.ledger.db.connections import sqlite_file
from catchment.ledger.db.database import Reading, Store
from catchment.ledger.db.driver_errors import DAMAGED, translated
from catchment.ledger.db.ownership import forget_owner
from catchment.ledger.library.embeddings import Embeddings
from catchment.ledger.sinks import outbox
from catchment.runtime import atomic_files, heartbeat

_PAGES_AT_ONCE = 2_000
_FILES = "CREATE TABLE backup (name TEXT PRIMARY KEY, data BLOB NOT NULL)"
_READ_FILES = "SELECT name, data FROM backup"
_MADE, _RESTORING = "made", "restoring"
"""The entry of a sealed backup, its time; and the entry of a ledger with an unfinished restore."""
_SEAL = "\nSHA-256 of the bytes before this line: {}\n"
_PART = 1 << 20
_READ_SMALL = f"{_READ_FILES} WHERE replace(name, '/', '') = name"
"""The files without a folder."""
_NAMES, _READ_ONE = text("SELECT name FROM backup"), text("SELECT data FROM backup WHERE name = :name")
_HAS_FILES = "SELECT 1 FROM sqlite_master WHERE name = 'backup'"


@dataclass(frozen=True, slots=True)
class SavedFiles:
    """The small files of a backup by name, and the time of the backup (aware; None if an older version made it)."""

    files: Mapping[str, bytes]
    made: datetime | None


@dataclass(frozen=True, slots=True)
class Restored:
    """Result of a restore: the model that the backup chose, and violated invariants.

    `aside`: the folder with the replaced files, or the schema with the replaced tables.
    """

    aside: Path | None
    model: str
    broken: list[str]


def back_up(
    store: Store,
    target: Path,
    files: Mapping[str, bytes],
    signed: Callable[[int], Mapping[str, bytes]] | None = None,
    folders: Iterable[Path] = (),
) -> list[str]:
    """Write a consistent copy of the ledger, check it, and return the violated invariants.

    `signed` returns further files for the number of rows of the history in the copy. `folders`: copied with all their files.

    Does not block other processes. The target appears only when complete. Raises BadInput if the target exists, LedgerCorrupt
    if the ledger cannot be copied, and HomeUnavailable or LedgerUnavailable on disk errors.
    """
    _require_free(target)
    unfinished_restore = is_unfinished(store)
    made = None
    try:
        with atomic_copy(target) as unfinished:
            made = unfinished.stat()
            if store.file is None:
                with closing(_at(unfinished)) as fresh, store.read() as reading, fresh.write() as writing:
                    transfer.copy(reading, writing)
            else:
                copy_into(store.file, unfinished)
            with translated(), closing(sqlite3.connect(unfinished)) as copy, copy:
                # The files of an unfinished restore belong to this ledger.
                if not unfinished_restore:
                    copy.execute("DROP TABLE IF EXISTS backup")
                    copy.execute(_FILES)
                    copy.executemany("INSERT INTO backup VALUES (?, ?)", files.items())
                    copy.executemany("INSERT INTO backup VALUES (?, ?)", _below(folders))
                copy.execute("DELETE FROM backup WHERE name = ?", (_RESTORING,))
                length = copy.execute("SELECT length FROM chain").fetchone()
                if length is None:
                    raise LedgerCorrupt(DAMAGED)
                more = {
                    _MADE: datetime.now(UTC).isoformat(timespec="seconds").encode(),
                    **(signed(*length) if signed else {}),
                }
                copy.executemany("INSERT OR REPLACE INTO backup VALUES (?, ?)", more.items())
            broken = _proved(unfinished)
            with translated(), closing(sqlite3.connect(unfinished)) as copy:
                # A single file that is readable on a read-only disk too.
                copy.execute("PRAGMA journal_mode = DELETE")
            seal(unfinished)
            # Another backup may have created the target since.
            _require_free(target)
    except BaseException:
        # The file may already have been renamed, but not flushed.
        if made and target.exists() and os.path.samestat(made, target.stat()):
            target.unlink()
        raise
    return broken


def _below(folders: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    """Yield the files of folders by name, one in memory at a time. Files that are removed or written meanwhile are omitted."""
    for folder in folders:
        for place, _, names in os.walk(folder):
            for file in (Path(place, name) for name in names):
                # A link or a pipe was put there by hand.
                with suppress(FileNotFoundError):
                    if not S_ISREG(file.lstat().st_mode) or file.match(atomic_files.TEMPORARY):
                        continue
                    yield file.relative_to(folder.parent).as_posix(), file.read_bytes()


def _require_free(target: Path) -> None:
    if target.exists():
        raise BadInput(f"{target.name}: file exists; name another file, or a folder")


def seal(file: Path) -> None:
    """Add the digest of a file to its end. Raises OSError."""
    with file.open("rb+") as content:
        digest = file_digest(content, "sha256").hexdigest()
        content.seek(0, os.SEEK_END)
        content.write(_SEAL.format(digest).encode())


def _is_sealed(file: Path) -> bool:
    """Return whether a file ends with a seal. Raises LedgerCorrupt if it is that of other bytes."""
    heartbeat.report("verifying")
    empty = _SEAL.format("0" * 64).encode()
    size = file.stat().st_size - len(empty)
    if size < 0:
        return False
    digest = sha256()
    with file.open("rb") as content:
        content.seek(size)
        first = content.read()
        if re.sub(rb"[0-9a-f]{64}", b"0" * 64, first) != empty:
            return False
        content.seek(0)
        while content.tell() < size:
            digest.update(content.read(min(_PART, size - content.tell())))
    if first != _SEAL.format(digest.hexdigest()).encode():
        raise _damaged(file)
    return True


def _damaged(backup: Path) -> LedgerCorrupt:
    return LedgerCorrupt(f"{backup.name}: damaged backup, nothing was changed; use an older one")


def restore(
    target: str,
    backup: Path,
    outdated: Iterable[Path] = (),
    places: Iterable[Path] = (),
    prepare: Callable[[Store, SavedFiles], None] | None = None,
) -> Restored:
    """Replace the ledger at a URL, which may be damaged or missing, with a backup. The replaced ledger is kept.

    `outdated` are databases that are invalid with another ledger; they are deleted. `places` are the paths of the small files
    that are restored. `prepare` is called with the verified copy that then replaces the ledger.
    Makes no change unless the backup is intact. After a kill, repeat it, or call `finish`.

    Raises NotFound, BadInput if the file is not a backup, SchemaMismatch if it is newer than the program, LedgerCorrupt if it
    is damaged, TryAgain if another process uses the ledger, and HomeUnavailable or LedgerUnavailable on disk errors.
    """
    if not backup.is_file():
        raise NotFound(f"{backup.name}: no such file; name a file written by `catchment backup`")
    file = sqlite_file(target)
    with atomic_files.explained(), _beside(file) as fresh, closing(Store(target, lambda: 0.0)) as store:
        _copy(backup, fresh, is_ledger=file is not None and file.exists() and backup.samefile(file))
        broken = _proved(fresh)
        with _alone(file):
            if prepare:
                with closing(Store(URL.create("sqlite", database=str(fresh)))) as copy:
                    prepare(copy, _saved(copy))
            for old in outdated:
                remove(old)
            if file is None:
                aside = _replace_tables(store, fresh)
            else:
                aside = _put_aside(file)
                atomic_files.put(fresh, file)
        finish(store, places, aside if file else None)
        return Restored(aside, Embeddings(store).setting, broken)


@contextmanager
def _beside(file: Path | None) -> Iterator[Path]:
    """Yield an empty private file, beside the ledger if that is a file, and remove it unless it was renamed."""
    if file is not None:
        with temporary_copy(file) as fresh:
            yield fresh
        return
    with TemporaryDirectory(prefix="catchment-") as folder, temporary_copy(Path(folder) / "ledger.db") as fresh:
        yield fresh


def _replace_tables(store: Store, fresh: Path) -> Path | None:
    """Replace the tables on PostgreSQL with those of a file, in one transaction. Return the schema with the old ones."""
    with closing(_at(fresh)) as source, source.read() as reading, store.write(as_owner=False) as writing:
        aside = None
        if revision_of(writing) is not None:
            aside = Path(_replaced())
            transfer.set_aside(writing.connection, aside.name)
        transfer.copy(reading, writing)
        if _has_files(reading):
            writing.connection.exec_driver_sql(_FILES.replace("BLOB", "BYTEA"))
            for row in reading.connection.exec_driver_sql(_READ_FILES):
                writing.connection.exec_driver_sql("INSERT INTO backup VALUES (%s, %s)", tuple(row))
    return aside


def is_unfinished(store: Store) -> bool:
    """Return whether a restore was killed after it replaced the ledger and before it replaced the other files.

    A backup that was put in place of the ledger by hand has the files, too, and replaces none.
    """
    return _RESTORING in _files(store)


def finish(store: Store, places: Iterable[Path], aside: Path | None = None) -> list[Path] | None:
    """Put the files of a restored backup into their places. Return the files that they replaced; None if it was done already.

    A replaced file is kept in the folder `aside`, or beside the new one. Of a folder, the missing files are put back, because
    the present ones may be newer. Raises HomeUnavailable.
    """
    places = list(places)
    files = _files(store)
    if _RESTORING not in files:
        return None
    with atomic_files.explained():
        copies = [_put_back(place, files[place.name], aside) for place in places if place.name in files]
        for folder in places:
            _put_missing(store, folder)
    with store.write() as writing:
        writing.connection.exec_driver_sql("DROP TABLE IF EXISTS backup")
    return [file for file in copies if file]


def _put_missing(store: Store, folder: Path) -> None:
    with store.read() as reading:
        for name in reading.connection.execute(_NAMES).scalars().all():
            file = folder.parent / name
            if name.startswith(f"{folder.name}/") and ".." not in file.parts and not file.exists():
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                atomic_files.write(file, reading.connection.execute(_READ_ONE, {"name": name}).scalar_one())


def _files(store: Store) -> dict[str, bytes]:
    with store.read() as reading:
        rows = reading.connection.exec_driver_sql(_READ_SMALL).all() if _has_files(reading) else []
    # SQLite stores any type in any column.
    return {row.name: row.data if isinstance(row.data, bytes) else bytes(str(row.data), "utf-8") for row in rows}


def _saved(store: Store) -> SavedFiles:
    files = _files(store)
    files.pop(_RESTORING, None)
    made = files.pop(_MADE, None)
    try:
        return SavedFiles(files, datetime.fromisoformat(made.decode()) if made else None)
    except ValueError:
        raise LedgerCorrupt(DAMAGED) from None


def _put_back(place: Path, data: bytes, aside: Path | None) -> Path | None:
    """Replace a file, and return its copy, if there was another."""
    copy = None
    if place.exists():
        if place.read_bytes() == data:
            return None
        copy = aside / place.name if aside else place.with_name(f"{place.name}.{_replaced()}")
        shutil.copy2(place, copy)
    # `resolve`, because the user may have put a symbolic link there.
    atomic_files.write(place.resolve(), data)
    return copy


def _proved(file: Path) -> list[str]:
    """Return the invariants that a copy violates. Raises LedgerCorrupt if its pages are damaged."""
    heartbeat.report("verifying")
    store = _at(file)
    try:
        with translated(), store.read() as reading:
            if reading.connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar_one() != "ok":
                raise LedgerCorrupt("backup: the copy is damaged and was deleted; check the disk")
        return check(store, deep=True)
    finally:
        store.close()
        heartbeat.report("verifying", 1)


def _report_copied(_status: int, remaining: int, total: int) -> None:
    heartbeat.report("copying", total - remaining, total)


def _copy(backup: Path, fresh: Path, *, is_ledger: bool) -> None:
    """Copy a backup to `fresh`, and migrate it to this program's revision.

    `is_ledger`: it is the ledger itself. If a backup was copied there, its seal is that of former bytes.
    """
    strange = BadInput(f"{backup.name}: not a backup of Catchment; name a file written by `catchment backup`")
    damaged = _damaged(backup)
    is_sealed = is_ledger or _is_sealed(backup)
    store = _at(fresh)
    try:
        with (
            translated(),
            closing(sqlite3.connect(f"file:{quote(str(backup))}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(fresh)) as copy,
        ):
            source.backup(copy, pages=_PAGES_AT_ONCE, progress=_report_copied)
            # A copy made before a migration has no files.
            if copy.execute(_HAS_FILES).fetchone() is not None:
                deque(copy.execute(_READ_FILES), maxlen=0)  # fails here if they are damaged
    except LedgerCorrupt as error:
        raise strange if _is_no_database(error.__cause__) else damaged from error
    try:
        if not is_sealed and _MADE in _files(store):
            raise damaged
        try:
            require_whole(store)
        except LedgerCorrupt:
            raise damaged from None
        try:
            with store.read() as reading:
                revision = revision_of(reading)
        except LedgerCorrupt:
            raise strange from None
        if revision is None:
            raise strange
        if is_older(revision):
            from catchment.ledger.admin import migrations

            with store.write() as writing:
                migrations.run(writing.connection)
        with store.write() as writing:
            forget_owner(writing.connection)
            outbox.compare_all(writing)
            if _has_files(writing):
                writing.connection.exec_driver_sql("INSERT OR REPLACE INTO backup VALUES (?, x'')", (_RESTORING,))
    finally:
        store.close()


def _is_no_database(error: BaseException | None) -> bool:
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB


@contextmanager
def _alone(file: Path | None) -> Iterator[None]:
    """Lock out other processes from the file of the ledger, also those about to open it, and remove its log."""
    with ExitStack() as held:
        if file is not None:
            held.enter_context(atomic_files.opening(file, alone=True))
            if file.exists():
                _lock_out_users(held.enter_context(closing(sqlite3.connect(file, timeout=0, isolation_level=None))))
        yield


def _lock_out_users(database: sqlite3.Connection) -> None:
    try:
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("BEGIN EXCLUSIVE")
        database.execute("COMMIT")
        database.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise TryAgain("ledger: in use by another process; wait for it to exit, then try again") from error
        # A damaged ledger is replaced in any case.


def _at(file: Path) -> Store:
    """Return a ledger in a file with the clock at 0: no lease has expired, because a backup has the leases of running jobs."""
    return Store(URL.create("sqlite", database=str(file)), lambda: 0.0)


def _has_files(reading: Reading) -> bool:
    has = _HAS_FILES if reading.sqlite else "SELECT 1 WHERE to_regclass('backup') IS NOT NULL"
    return reading.connection.exec_driver_sql(has).first() is not None


def _replaced() -> str:
    # Unique per attempt: a killed restore may be repeated within a second.
    return f"replaced-{datetime.now(UTC):%Y%m%dT%H%M%S-%f}"


def _put_aside(file: Path) -> Path | None:
    """Keep the ledger in a folder beside it. The original stays in place until it is replaced."""
    logs = [log for ending in SIDE_FILES if (log := file.with_name(file.name + ending)).exists()]
    if not logs and not file.exists():
        return None
    aside = file.with_name(_replaced())
    aside.mkdir(mode=0o700)
    for log in logs:
        # SQLite would apply the log of one ledger to another.
        log.rename(aside / log.name)
    if file.exists():
        copy = aside / file.name
        try:
            copy.hardlink_to(file)
        except OSError:
            shutil.copy2(file, copy)
            atomic_files.flush(copy)
    atomic_files.flush(aside)
    return aside
