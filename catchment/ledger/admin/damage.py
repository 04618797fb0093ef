"""Detection of a truncated database file: SQLite reads the missing part of the last page as zeros, without an error."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from catchment.errors import LedgerCorrupt, LedgerError, LedgerUnavailable
from catchment.ledger.db.checkpoints import log_of
from catchment.ledger.db.database import Store
from catchment.ledger.db.driver_errors import DAMAGED, translated


def require_undamaged(store: Store) -> None:
    """Raise LedgerCorrupt if the SQLite file is not a database or is truncated."""
    if store.file is None:
        return
    try:
        with store.read() as reading:
            reading.connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar_one()
        if is_cut(store):
            raise LedgerCorrupt(DAMAGED)
    except LedgerError as error:
        # SQLite reports an unknown file format as a plain error.
        if type(error) is LedgerError:
            raise LedgerCorrupt(DAMAGED) from error
        raise


def is_cut(store: Store) -> bool:
    """Return whether the last page of the file is incomplete. SQLite reads the missing part as zeros."""
    if store.file is None:
        return False
    with store.read() as reading:
        page, pages = (
            int(reading.connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
            for name in ("page_size", "page_count")
        )
    size = store.file.stat().st_size
    if size % page == 0 or size > pages * page:
        return False
    log = log_of(store.file)
    if log.exists() and log.stat().st_size:
        # A full disk also leaves a partial page, which the log still contains; write it now.
        try:
            with translated(), closing(sqlite3.connect(store.file, isolation_level=None)) as database:
                _, in_log, moved = database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except LedgerUnavailable:
            return False  # the disk is still full; the log keeps the page
        if in_log != moved:
            return False
    return store.file.stat().st_size < pages * page
