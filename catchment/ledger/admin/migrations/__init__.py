"""The revision of a ledger, and forward migrations with alembic: exclusive access, a backup, then one transaction.

There are no downgrades.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, inspect, select

from catchment.errors import LedgerCorrupt, LedgerUnavailable
from catchment.ledger.admin.copies import atomic_copy
from catchment.ledger.db import schema
from catchment.ledger.db.connections import LOCK_WAIT_SECONDS
from catchment.ledger.db.database import Reading, Store
from catchment.ledger.db.driver_errors import DAMAGED, translated
from catchment.runtime import heartbeat

_HERE = Path(__file__).parent
_AGAIN_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Migrated:
    """A completed migration: the old and new revisions, and the backup file (SQLite only)."""

    before: str
    now: str
    kept: Path | None


def revision_of(reading: Reading) -> str | None:
    """Return the revision of the tables, or None if there is no ledger.

    Raises LedgerCorrupt if a SQLite file has other tables, so that an unrelated database is never turned into a ledger, and
    for a ledger whose revision is missing.
    """
    tables = inspect(reading.connection).get_table_names()
    if "revision" not in tables:
        if tables and reading.sqlite:
            raise LedgerCorrupt(DAMAGED)
        return None
    return str(reading.execute(select(schema.revision.c.version_num)).scalar_one())


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
        copy = _keep(alone, before)
        with alone.write() as writing:
            if revision_of(writing) == schema.REVISION:
                return None
            run(writing.connection)
    return Migrated(before, schema.REVISION, copy)


def run(connection: Connection) -> None:
    """Run all pending migrations in the caller's transaction."""
    # Rarely needed, and slow to import.
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(_HERE).replace("%", "%%"))
    scripts = ScriptDirectory.from_config(config)

    def steps(current: Any, _context: Any) -> Any:
        revisions = scripts._upgrade_revs("head", current)
        for number, step in enumerate(revisions):
            heartbeat.report("migrating", number, len(revisions))
            yield step
        heartbeat.report("migrating", len(revisions), len(revisions))

    with EnvironmentContext(config, scripts, fn=steps, destination_rev="head") as environment:
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
    copy = alone.file.with_name(f"{alone.file.stem}-{before}.backup{alone.file.suffix}")
    with translated(), atomic_copy(copy) as unfinished, closing(alone.engine.raw_connection()) as connection:
        connection.cursor().execute("VACUUM INTO ?", (str(unfinished),))
    return copy
