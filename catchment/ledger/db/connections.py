"""Connections to a database: its URL, how SQLite and PostgreSQL are opened, and time limits of statements."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Dialect, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.util import LRUCache

from catchment.errors import BadInput, TookTooLong
from catchment.ledger.db.checkpoints import LONG_PAGES, SHORT_BYTES, log_of
from catchment.ledger.db.driver_errors import TOO_LONG
from catchment.ledger.db.folding import fold
from catchment.runtime import addresses, atomic_files

LOCK_WAIT_SECONDS = 30
_ASK_AGAIN_SECONDS = 0.5
_STEPS = 50_000
"""Steps of SQLite's virtual machine between two checks of a time limit: about a millisecond."""
_LIKEWISE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
_NOTICE_LOSS = "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3"
"""The server of PostgreSQL frees the locks of a machine that lost its power or network after 25 s, not two hours."""
_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)
"""The monotonic time at which the statements of this context are stopped."""
_ADDRESSES = "sqlite:////full/path/to/ledger.db or postgresql://…"


class _Statements(LRUCache[Any, Any]):
    """Cache of compiled statements of one database, shared by all ledgers of a process and its forked children.

    Compiling a statement takes 1 ms.
    """

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(_said(key), default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(_said(key), value)


def _said(key: Any) -> Any:
    """Return the key without the dialect. Each engine has its own, but all are equivalent."""
    return key[1:]


_on_sqlite, _on_postgres = _Statements(500), _Statements(500)


def sqlite_file(url: str | URL) -> Path | None:
    """Return the SQLite file of a database URL, or None for PostgreSQL. Raises BadInput for an invalid URL."""
    parsed = parse(url)
    return Path(str(parsed.database)) if parsed.get_backend_name() == "sqlite" else None


def without_password(url: str) -> str:
    """Return a database URL for display. Raises BadInput for an invalid URL."""
    parsed = _address(url).difference_update_query(addresses.SECRETS)
    return parsed.render_as_string().replace(":***@", ":…@")


def _address(url: str | URL) -> URL:
    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        # An invalid port raises ValueError. The message is not repeated, because it may contain part of the password.
        raise BadInput(f"CATCHMENT_DATABASE_URL: not a database URL; use {_ADDRESSES}") from None


def parse(url: str | URL) -> URL:
    """Return a database URL with the name of its driver. Raises BadInput for an invalid URL."""
    if isinstance(url, str) and addresses.is_postgresql(url):
        return _of_postgresql(url)
    parsed = _address(url)
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise BadInput(f"CATCHMENT_DATABASE_URL: {parsed.get_backend_name()} is not supported; use {_ADDRESSES}")
    if parsed.get_backend_name() == "sqlite" and not Path(parsed.database or "").is_absolute():
        # Processes have different working directories, so a relative path would lead to several ledgers.
        raise BadInput("CATCHMENT_DATABASE_URL: not a full path; write sqlite:/// and a path that starts with /")
    return parsed


def _of_postgresql(url: str) -> URL:
    """Return the URL with the parameters that libpq reads in it, where SQLAlchemy could read others."""
    try:
        parameters = addresses.postgresql(url)
    except BadInput as error:
        raise BadInput(f"CATCHMENT_DATABASE_URL: {error}") from None
    user, password, database = (parameters.pop(name, None) for name in ("user", "password", "dbname"))
    return URL.create("postgresql+psycopg", user, password, database=database, query=parameters)


def make_engine(url: URL, alone: bool, fixed: bool, patience: float) -> Engine:
    """Return the engine of a database, for the options of `Store`. Raises BadInput if the driver is not installed."""
    if url.get_backend_name() != "sqlite":
        try:
            engine = create_engine(url, pool_pre_ping=True, execution_options={"compiled_cache": _on_postgres})
            event.listen(engine, "do_connect", partial(_connect, patience))
            return engine
        except ImportError as error:
            raise BadInput(
                "psycopg: not installed, but needed for PostgreSQL; run: pip install 'catchment[postgres]'"
            ) from error
    file = Path(str(url.database))
    lock_wait = 0 if alone else LOCK_WAIT_SECONDS
    immutable = (fixed or _is_read_only(file.parent)) and _is_whole(file)
    # SQLite keeps the log's index in a file, for which there may be no space. With exclusive use, it is kept in memory.
    alone |= fixed and not immutable
    only = {"pool_size": 1, "max_overflow": 0} if alone else {}
    if immutable:
        url = url.set(database=file.absolute().as_uri(), query={"immutable": "1", "uri": "true"})
    engine = create_engine(
        url,
        connect_args={"timeout": lock_wait},
        execution_options={"compiled_cache": _on_sqlite},
        **only,
    )

    @event.listens_for(engine, "do_connect")
    def _open(dialect: Dialect, _record: object, arguments: Any, options: Any) -> Any:
        with atomic_files.opening(file):
            connection = dialect.connect(*arguments, **options)
            try:
                _prepare(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    def _prepare(connection: Any) -> None:
        connection.isolation_level = None
        connection.create_function("fold", 1, fold, deterministic=True)
        for pragma in (
            # Must precede the first read; afterwards, only the log would be locked.
            *(["locking_mode = EXCLUSIVE"] if alone else []),
            *(["page_size = 8192", "journal_mode = WAL"] if not immutable else []),
            "synchronous = FULL",
            "foreign_keys = ON",
            "cache_size = -16000",
            "temp_store = MEMORY",
            f"wal_autocheckpoint = {LONG_PAGES}",
            f"journal_size_limit = {SHORT_BYTES}",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _connect(patience: float, dialect: Dialect, _record: object, arguments: Any, options: Any) -> Any:
    """Connect to PostgreSQL. Waits until the server answers."""
    end = time.monotonic() + patience
    while True:
        try:
            connection: Any = dialect.connect(*arguments, **_LIKEWISE | addresses.pinned(options))
            connection.execute(_NOTICE_LOSS)
            connection.commit()
            return connection
        except dialect.loaded_dbapi.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(_ASK_AGAIN_SECONDS)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Limit the time of all transactions of the block together. The databases stop its statements after so many seconds.

    The block raises TookTooLong then. Within another block, the earlier end counts. Covers this thread only.
    """
    before = _deadline.set(min(_deadline.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _deadline.reset(before)


def time_left() -> float:
    """Return the seconds until the end of the innermost `time_limit`, possibly negative; infinity outside of one."""
    return _deadline.get() - time.monotonic()


def limit_time(engine: Engine, seconds: float) -> None:
    """Have the database stop a statement that is running when its transaction exceeds this time, or at the deadline.

    No transaction begins after the deadline. SQLite cannot be stopped while it prepares a statement.
    """
    is_sqlite = engine.dialect.name == "sqlite"

    @event.listens_for(engine, "begin")
    def _set(connection: Connection) -> None:
        left = min(seconds, time_left())
        if left <= 0:
            raise TookTooLong(TOO_LONG)
        if is_sqlite:
            end = time.monotonic() + left
            # Without a limit there is no handler: it would wait for the lock of the interpreter every millisecond.
            stop = None if left == math.inf else lambda: time.monotonic() > end
            driver: Any = connection.connection.driver_connection
            driver.set_progress_handler(stop, _STEPS)
        elif left < math.inf:
            connection.exec_driver_sql(f"SET LOCAL statement_timeout = {max(1, left * 1_000):.0f}")


def _is_read_only(folder: Path) -> bool:
    """Return whether the disk is mounted read-only. There, SQLite can only read `immutable` files: others need a log index."""
    try:
        return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _is_whole(file: Path) -> bool:
    log = log_of(file)
    return file.exists() and not (log.exists() and log.stat().st_size)
