"""Forward migrations with alembic: exclusive access, a backup, then one transaction. There are no downgrades."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from catchment.errors import LedgerUnavailable
from catchment.ledger.admin.opening import revision_of
from catchment.ledger.db import schema
from catchment.ledger.db.copies import atomic_copy
from catchment.ledger.db.database import LOCK_WAIT_SECONDS, Store

_HERE = Path(__file__).parent
_AGAIN_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Migrated:
    """A completed migration: the old and new revisions, and the backup file (SQLite only)."""

    before: str
    now: str
    kept: Path | None


def forward(store: Store) -> Migrated | None:
    """Migrate an older ledger to the program's revision. Return None if another process has already done so.

    A kill leaves the ledger unchanged, and the next call repeats the migration. On SQLite, other processes are locked out and a
    backup is written beside the ledger. Raises LedgerUnavailable if another process uses it or the disk is full.
    """
    with _alone(store) as alone:
        with alone.read() as reading:
            before = revision_of(reading)
        if before is None or before == schema.REVISION:
            return None
        kept = _keep(alone, before)
        with alone.write() as writing:
            if revision_of(writing) == schema.REVISION:
                return None
            run(writing.connection)
    return Migrated(before, schema.REVISION, kept)


def run(connection: Connection) -> None:
    """Run all pending migrations in the caller's transaction."""
    scripts = ScriptDirectory.from_config(_config())

    def steps(current: Any, _context: Any) -> Any:
        return scripts._upgrade_revs("head", current)

    with EnvironmentContext(_config(), scripts, fn=steps, destination_rev="head") as environment:
        environment.configure(connection=connection, version_table="revision", transactional_ddl=False)
        environment.run_migrations()


@contextmanager
def _alone(store: Store) -> Iterator[Store]:
    """Yield the database with, on SQLite, exclusive access: an old program must not write to new tables."""
    # Close the file before waiting: two processes that hold it would block each other.
    store.engine.dispose()
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    while True:
        with closing(store.alone()) as alone:
            if store.file is None or time.monotonic() > deadline or _has(alone):
                yield alone
                return
        time.sleep(_AGAIN_SECONDS)


def _has(alone: Store) -> bool:
    try:
        with alone.read():
            return True
    except LedgerUnavailable:
        return False


def _keep(alone: Store, before: str) -> Path | None:
    """Write a backup beside the ledger and return its path. On PostgreSQL, backups are the operator's task.

    There is one file per revision, so that repeated attempts do not fill the disk.
    """
    if alone.file is None:
        return None
    kept = alone.file.with_name(f"{alone.file.stem}-{before}.backup{alone.file.suffix}")
    with alone.translated(), atomic_copy(kept) as unfinished, closing(alone.engine.raw_connection()) as connection:
        connection.cursor().execute("VACUUM INTO ?", (str(unfinished),))
    return kept


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_HERE).replace("%", "%%"))
    return config
