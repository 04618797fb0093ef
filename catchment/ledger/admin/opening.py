"""Opening a ledger: create a new one, migrate an older one after a backup, and refuse a damaged one."""

from __future__ import annotations

import re
from functools import cache

from sqlalchemy import Connection, NullPool, create_engine, insert

from catchment.errors import LedgerCorrupt, NotFound, SchemaMismatch
from catchment.ledger.admin.damage import require_undamaged
from catchment.ledger.admin.migrations import Migrated, forward, revision_of
from catchment.ledger.db import schema
from catchment.ledger.db.database import Reading, Store, make_file
from catchment.ledger.db.driver_errors import DAMAGED
from catchment.ledger.db.schema import COUNTED, chain, counters, metadata, revision, search_model
from catchment.ledger.jobs import history
from catchment.ledger.library import word_index
from catchment.ledger.library.embeddings import DEFAULT_MODEL

_CHECKED_WHOLE = 16 * 1024 * 1024
"""Maximum size in bytes of a SQLite file that is checked completely on opening."""


def prepare(store: Store) -> Migrated | None:
    """Create a missing ledger or migrate an older one to this program's revision.

    Raises SchemaMismatch if the ledger is newer.
    """
    if store.file is not None and not store.file.exists():
        make_file(store.file)
    require_whole(store)
    with store.read() as reading:
        revision = revision_of(reading)
    if revision is None:
        with store.write(as_owner=False) as writing:
            if revision_of(writing) is None:
                make(writing.connection)
        # Otherwise, damage to the log would leave a file that never contained a ledger.
        store.settle()
    elif is_older(revision):
        return forward(store)
    return None


def require_current(store: Store) -> None:
    """Raise NotFound if there is no ledger, SchemaMismatch if it has another revision."""
    revision = None
    if store.file is None or (store.file.exists() and store.file.stat().st_size):
        require_undamaged(store)
        with store.read() as reading:
            revision = revision_of(reading)
    if revision is None:
        raise NotFound("ledger: none yet; add a source with `catchment add` first")
    if is_older(revision):
        raise SchemaMismatch(
            f"ledger: revision {revision} is older than revision {schema.REVISION} of the program; "
            "migrate it with `catchment down && catchment up --detach`"
        )


def is_older(revision: str) -> bool:
    """Return whether a ledger of this revision needs a migration. Raises SchemaMismatch if it is newer than the program."""
    if revision > schema.REVISION:
        raise SchemaMismatch(
            f"ledger: unknown revision {revision}; install a newer version of Catchment, "
            "or restore an older copy with `catchment restore FILE`"
        )
    return revision < schema.REVISION


def make(connection: Connection) -> None:
    """Create all tables, indexes and triggers in an empty database."""
    metadata.create_all(connection)
    word_index.create(connection)
    history.create(connection)
    connection.execute(insert(counters), [{"name": name, "value": 0} for name in COUNTED])
    connection.execute(insert(chain), {"id": 1, "length": 0, "hash": b""})
    connection.execute(insert(search_model), {"id": 1, "setting": DEFAULT_MODEL})
    connection.execute(insert(revision), {"version_num": schema.REVISION})


def is_as_made(reading: Reading) -> bool:
    """Return whether a SQLite file of the current revision has all tables, indexes, views and triggers as created."""
    return revision_of(reading) != schema.REVISION or _new_structure() <= _structure(reading.connection)


@cache
def _new_structure() -> set[tuple[str, ...]]:
    # NullPool, so that the database is closed with the connection instead of by the garbage collector.
    with create_engine("sqlite://", poolclass=NullPool).connect() as connection:
        make(connection)
        return _structure(connection)


def _structure(connection: Connection) -> set[tuple[str, ...]]:
    # Ignore the order of constraints: a migration appends them.
    rows = connection.exec_driver_sql("SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {(*what, *sorted(re.findall(r'[^\s,"]+', sql))) for *what, sql in rows}


def require_whole(store: Store) -> None:
    """Raise LedgerCorrupt if the SQLite file is damaged. Large files are only sampled; `check` reads them completely."""
    if store.file is None:
        return
    size = store.file.stat().st_size
    require_undamaged(store)
    with store.read() as reading:
        if size <= _CHECKED_WHOLE and reading.connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one() != "ok":
            raise LedgerCorrupt(DAMAGED)
