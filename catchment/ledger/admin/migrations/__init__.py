"""Leading an older ledger forward, by alembic: alone with it, after a copy was kept, in one transaction. Never backward."""

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
from catchment.ledger.db.copies import until_whole
from catchment.ledger.db.database import LOCK_WAIT_SECONDS, Store

_HERE = Path(__file__).parent
_AGAIN_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class LedForward:
    """That a ledger was led forward: its revision before and now, and the file with what it was (SQLite only)."""

    before: str
    now: str
    kept: Path | None


def forward(store: Store) -> LedForward | None:
    """Bring an older ledger to the program's revision; None where another process has done so meanwhile.

    After a kill at any moment it is what it was, and the next one does it. On SQLite nobody else has the ledger meanwhile,
    and what it was is kept in a file beside it. Raises LedgerUnavailable where another process uses it, or the disk is full.
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
    return LedForward(before, schema.REVISION, kept)


def run(connection: Connection) -> None:
    """Run every migration that this database has not had, in the caller's transaction."""
    scripts = ScriptDirectory.from_config(_config())

    def steps(current: Any, _context: Any) -> Any:
        return scripts._upgrade_revs("head", current)

    with EnvironmentContext(_config(), scripts, fn=steps, destination_rev="head") as environment:
        environment.configure(connection=connection, version_table="revision", transactional_ddl=False)
        environment.run_migrations()


@contextmanager
def _alone(store: Store) -> Iterator[Store]:
    """The same database, which on SQLite no other process can have meanwhile: an old program must not write to new tables."""
    # Whoever waits has to let go of the file: two that want it at once would keep one another from it.
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
    """Keep a ledger as it is in a file beside it, which is there when it is whole; on PostgreSQL that is the operator's.

    One for each revision: a disk is not to be filled by trying again and again.
    """
    if alone.file is None:
        return None
    kept = alone.file.with_name(f"{alone.file.stem}-{before}.backup{alone.file.suffix}")
    with alone.translated(), until_whole(kept) as unfinished, closing(alone.engine.raw_connection()) as connection:
        connection.cursor().execute("VACUUM INTO ?", (str(unfinished),))
    return kept


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_HERE).replace("%", "%%"))
    return config
