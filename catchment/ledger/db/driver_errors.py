"""Translation of driver errors into errors with a remedy."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, NoResultFound, SQLAlchemyError

from catchment.errors import CatchmentError, LedgerCorrupt, LedgerError, LedgerUnavailable, TookTooLong

_SQLITE_BUSY = (5, 6)
_SQLITE_DAMAGED = (11, 26)
_SQLITE_FULL = 13
_SQLITE_UNWRITABLE = (8, 10, 14)
_SQLITE_INTERRUPTED = 9
_POSTGRES_CANCELED = "57014"
TOO_LONG = "ledger: the query took too long and was stopped; use fewer words or add a filter"
DAMAGED = "ledger: the file is damaged; restore a backup with `catchment restore FILE`"


@contextmanager
def translated() -> Iterator[None]:
    """Translate driver errors into errors with a remedy."""
    try:
        yield
    except DBAPIError as error:
        raise _meaning(error) from error
    except sqlite3.Error as error:
        raise _sqlite_meaning(error) from error
    except NoResultFound as error:
        # A ledger has the rows of which exactly one is read from its beginning.
        raise LedgerCorrupt(DAMAGED) from error
    except SQLAlchemyError as error:
        raise LedgerError(f"ledger: operation failed ({type(error).__name__}); see the traceback") from error
    except Exception as error:
        # COPY is not called through SQLAlchemy, and importing psycopg here would load it for SQLite too.
        if not hasattr(error, "sqlstate"):
            raise
        raise _postgres_meaning(error) from error


def _meaning(error: DBAPIError) -> CatchmentError:
    return _sqlite_meaning(error.orig) if isinstance(error.orig, sqlite3.Error) else _postgres_meaning(error.orig)


def _sqlite_meaning(error: sqlite3.Error) -> CatchmentError:
    # Errors raised by the sqlite3 module itself have no code, such as a closed connection or undecodable text.
    unread = _SQLITE_DAMAGED[0] if isinstance(error, sqlite3.OperationalError) else 1
    kind = getattr(error, "sqlite_errorcode", unread) & 0xFF
    if kind in _SQLITE_BUSY:
        return LedgerUnavailable("ledger: locked by another process; try again, or stop that process")
    if kind == _SQLITE_INTERRUPTED:
        return TookTooLong(TOO_LONG)
    if kind == _SQLITE_FULL:
        return LedgerUnavailable("ledger: the disk is full; make room and try again")
    if kind in _SQLITE_UNWRITABLE:
        return LedgerUnavailable("ledger: file cannot be read or written; check its disk and owner")
    if kind in _SQLITE_DAMAGED:
        return LedgerCorrupt(DAMAGED)
    return LedgerError(f"ledger: operation failed ({getattr(error, 'sqlite_errorname', 'unknown')}); see the traceback")


def _postgres_meaning(error: BaseException | None) -> CatchmentError:
    state = getattr(error, "sqlstate", None) or ""
    if state == _POSTGRES_CANCELED:
        return TookTooLong(TOO_LONG)
    if state.startswith("53"):
        return LedgerUnavailable("database server: out of space or connections; free some and try again")
    if not state or state.startswith(("08", "57")):
        return LedgerUnavailable(
            "database server: no connection; start it, or correct the address, password or certificate"
        )
    return LedgerError(f"ledger: operation failed (SQLSTATE {state}); see the traceback")
