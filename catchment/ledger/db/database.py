"""Database access: transactions, the clock and IDs.

Write transactions are serialized on both databases (BEGIN IMMEDIATE on SQLite, an advisory lock on PostgreSQL), so a
transaction's reads stay valid until it commits. Readers never wait.
"""

from __future__ import annotations

import hashlib
import math
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Result,
    Row,
    Select,
    Table,
    Text,
    bindparam,
    func,
    select,
    update,
)
from sqlalchemy.engine import URL, CursorResult
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import Executable

from catchment.errors import (
    LedgerCorrupt,
    LedgerUnavailable,
    ReadOnly,
)
from catchment.ledger.db import schema, visible
from catchment.ledger.db.checkpoints import Checkpoints
from catchment.ledger.db.connections import limit_time, make_engine, parse, sqlite_file
from catchment.ledger.db.driver_errors import DAMAGED, translated
from catchment.ledger.db.history_chain import chained
from catchment.ledger.db.ownership import Ownership
from catchment.pacing.boot_clock import ServerClock
from catchment.runtime.home import Home
from catchment.telemetry.tally import Tally

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST = (datetime(1, 1, 2, tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST = (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH) // _MICROSECOND
_OTHERS_ASK_SECONDS = 0.12
"""Slightly longer than SQLite's longest sleep between attempts to lock (`sqliteDefaultBusyCallback`)."""
_AT_WORK_SECONDS = 0.5
_STATISTICS_ROWS = 30_000
_ROWS_AT_ONCE = 5_000
_LIMITED = "catchment_limited"
_POSTGRES_LOCK = 7_221_836
"""Advisory lock for writing; an arbitrary number, equal in all processes."""
_TIME = """(extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint"""
_LOCKED = f"""pg_advisory_xact_lock({_POSTGRES_LOCK}), set_config('idle_in_transaction_session_timeout', '60s', true)"""
"""Other hosts do not wait for ever for a process that was stopped while it held the lock."""
MINUTE = 60
"""Seconds of the finest rollup. `catchment.ledger.measures` merges older ones."""
_NO_BUCKETS = (0,) * len(schema.BUCKETS)


Rows = CursorResult[Any]
AnyRow = Row[Any]


def to_micros(moment: datetime) -> int:
    """Convert an aware time to microseconds since 1970. One of the first or last day becomes the nearest in all zones."""
    return min(max((moment - _EPOCH) // _MICROSECOND, _FIRST), _LAST)


def from_micros(micros: int) -> datetime:
    """Convert microseconds since 1970 to an aware UTC time."""
    return _EPOCH + timedelta(microseconds=micros)


def maybe_micros(moment: datetime | None) -> int | None:
    """Convert an optional time with `to_micros`."""
    return None if moment is None else to_micros(moment)


def maybe_time(micros: int | None) -> datetime | None:
    """Convert an optional time with `from_micros`."""
    return None if micros is None else from_micros(micros)


def to_json(value: Mapping[str, Any] | Sequence[Any]) -> str | None:
    """Return JSON text with sorted keys, or None for an empty value."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode() if value else None


def from_json(value: str | None) -> Any:
    """Parse the output of `to_json`; None yields an empty mapping. Raises LedgerCorrupt."""
    try:
        return orjson.loads(value) if value else {}
    except orjson.JSONDecodeError as error:
        raise LedgerCorrupt(DAMAGED) from error


def as_map(rows: Result[Any]) -> dict[Any, Any]:
    """Return rows of two columns as a mapping."""
    return {row[0]: row[1] for row in rows.all()}


def json_list(values: Collection[Any]) -> str:
    """Encode many values as one SQLite parameter."""
    return orjson.dumps(list(values)).decode()


def among(reading: Reading, column: ColumnElement[Any], values: Collection[Any]) -> ColumnElement[bool]:
    """Return the condition `column IN values`, with one parameter. With `in_`, compilation costs as much as the query."""
    if not reading.sqlite:
        met = column == func.any(bindparam(None, list(values), type_=ARRAY(column.type)))
        if schema.is_long(column):
            digests = [hashlib.md5(value.encode(), usedforsecurity=False).hexdigest() for value in values]
            met &= func.md5(column) == func.any(bindparam(None, digests, type_=ARRAY(column.type)))
        return met
    listed = func.json_each(bindparam(None, json_list(values), type_=Text())).table_valued("value")
    return column.in_(select(listed.c.value))


class Reading:
    """A consistent view of the ledger."""

    def __init__(self, connection: Connection, now: int, started: int = 0) -> None:
        self.connection = connection
        self.now = now
        self.started = started
        """When the server of PostgreSQL started, by its clock; 0 on SQLite."""

    @property
    def sqlite(self) -> bool:
        """True on SQLite. For cases where the two databases need different statements."""
        return self.connection.dialect.name == "sqlite"

    @property
    def is_limited(self) -> bool:
        """True if only some sources are visible."""
        return bool(self.connection.get_execution_options().get(_LIMITED))

    def execute(self, statement: Executable, parameters: Any = None) -> Rows:
        """Execute a statement, once or for each element of a list of parameters."""
        return self.connection.execute(statement, parameters)

    def in_parts(self, statement: Select[Any], key: ColumnElement[int]) -> Iterator[Sequence[tuple[Any, ...]]]:
        """Yield parts of a table of any length, in the order of a unique number, which must be the first column.

        The rows are those of the driver: SQLAlchemy's would double the cost.
        """
        first = statement.order_by(key).limit(_ROWS_AT_ONCE)
        following = first.where(key > bindparam("last"))
        part = self._tuples(first)
        while part:
            yield part
            part = self._tuples(following, {"last": part[-1][0]}) if len(part) == _ROWS_AT_ONCE else []

    def _tuples(self, statement: Executable, parameters: Any = None) -> Sequence[tuple[Any, ...]]:
        with closing(self.execute(statement, parameters)) as rows:
            return rows.cursor.fetchall()


class Writing(Reading):
    """A write transaction. Its changes and their history rows are committed together."""

    def __init__(self, connection: Connection, now: int, started: int = 0) -> None:
        super().__init__(connection, now, started)
        self.tally = Tally()
        """The counts of this transaction."""
        self.inserted = 0
        """Rows that were added on PostgreSQL."""
        self._events: list[tuple[Any, ...]] = []
        self._places: list[tuple[Any, ...]] = []

    def insert(self, table: Table, rows: Sequence[tuple[Any, ...]], names: Sequence[str] = ()) -> None:
        """Insert rows for the named columns, or all columns. Bypasses SQLAlchemy's bookkeeping, which would double the cost."""
        if not rows:
            return
        names = names or table.columns.keys()
        # sqlite3 binds None more slowly than a value, and most nullable columns are None in all rows.
        present = [n for n, value in enumerate(rows[0]) if value is not None or any(row[n] is not None for row in rows)]
        if len(present) < len(names):
            names, rows = [names[n] for n in present], list(map(itemgetter(*present), rows))
        if self.sqlite:
            marks = ", ".join("?" * len(names))
            self.connection.exec_driver_sql(f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({marks})", rows)
        else:
            self.copy(f"{table.name} ({', '.join(names)})", rows)

    def copy(self, into: str, rows: Collection[tuple[Any, ...]]) -> None:
        """Add rows to a table of PostgreSQL, with the names of the columns or all."""
        with self.connection.connection.cursor().copy(f"COPY {into} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        self.inserted += len(rows)

    def insert_named(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows that all have the same keys."""
        if rows:
            names = list(rows[0])
            self.insert(table, list(map(itemgetter(*names), rows)), names)

    def ids(self, name: str, count: int = 1) -> range:
        """Allocate `count` IDs that are never reused."""
        counter = schema.counters.c
        statement = (
            update(schema.counters)
            .where(counter.name == name)
            .values(value=counter.value + count)
            .returning(counter.value)
        )
        last = int(self.execute(statement).scalar_one())
        return range(last - count + 1, last + 1)

    def record(
        self,
        event: str,
        *,
        actor: str,
        source_id: int | None = None,
        item_id: int | None = None,
        job_id: int | None = None,
        sync_id: int | None = None,
        attempt: int | None = None,
        fact: str = "",
        reason: str | None = None,
        was_at: str | None = None,
    ) -> None:
        """Add an event of this transaction to the history.

        `fact`: the subject or the extent of the event; the row has it before the reason. `was_at` is the previous locator of a
        moved item. Locators are not part of the hash chain, because they may have to be deleted.
        """
        if was_at is not None:
            self._places.append((len(self._events), item_id, was_at))
        text = f"{fact}; {reason}" if fact and reason else fact or reason
        self._events.append((actor, event, source_id, item_id, job_id, sync_id, attempt, text))

    def write_history(self) -> None:
        """Append the recorded events to the chain. Called once, before the commit."""
        if not self._events:
            return
        length, previous = self.execute(select(schema.chain.c.length, schema.chain.c.hash)).one()
        rows = chained(self._events, length, previous, self.now)
        self.insert(schema.history, rows)
        self.insert(schema.moves, [(length + 1 + index, *place) for index, *place in self._places])
        self.execute(update(schema.chain).values(length=length + len(rows), hash=rows[-1][-1]))

    def write_measures(self) -> None:
        """Add the tally to the rollups of this minute. Called once, before the commit."""
        at = self.now // (MINUTE * 1_000_000) * MINUTE
        rows = [(*key, at, MINUTE, count.n, count.total, *(count.buckets or _NO_BUCKETS)) for key, count in self.tally]
        if rows:
            names = schema.measures.columns.keys()
            marks = ", ".join(["?" if self.sqlite else "%s"] * len(names))
            statement = f"INSERT INTO measures ({', '.join(names)}) VALUES ({marks}) {ADD_UP}"
            self.connection.exec_driver_sql(statement, rows)


ADD_UP = "ON CONFLICT (metric, labels, source_id, at, level) DO UPDATE SET " + ", ".join(
    f"{name} = measures.{name} + excluded.{name}" for name in schema.FIGURES
)
"""The end of a statement that adds figures to the rollups."""


class Store:
    """A database, shared by the threads of one process. Open it after any fork.

    `clock`: returns seconds since 1970. Without it, time is that of this machine on SQLite, and of the server on PostgreSQL.
    `fixed`: no process can write to the disk. If the log is not empty, no other process may have the database open.
    `seconds`: time limit of each transaction.
    `read_only`: refuse to write.
    `home`: the home that writes. If the database belongs to another one, every write raises Refused.
    `only`: the names of the visible sources; None: all.
    `patience`: seconds to wait for a PostgreSQL server that does not answer.
    """

    def __init__(
        self,
        url: str | URL,
        clock: Callable[[], float] | None = None,
        *,
        alone: bool = False,
        fixed: bool = False,
        seconds: float | None = None,
        read_only: bool = False,
        home: Home | None = None,
        only: Collection[str] | None = None,
        patience: float = 0.0,
    ) -> None:
        self.url = parse(url)
        self.file = sqlite_file(self.url)
        """The SQLite file; None on PostgreSQL."""
        self._home = home
        is_inside = home is not None and self.file is not None and self.file.parent == home.path
        self.ownership = None if home is None else Ownership(home, is_inside=is_inside)
        self._read_only = read_only or only is not None
        self._clock = clock
        self._server, self._server_started = ServerClock(), 0
        self.engine = make_engine(self.url, alone, fixed, patience)
        limit_time(self.engine, math.inf if seconds is None else seconds)
        if only is not None:
            self.engine.update_execution_options(**{_LIMITED: True})
            visible.limit_to(self.engine, only)
        self.tally = Tally()
        """The counts from outside of transactions, for the next transaction."""
        self._alone = threading.Lock()
        """Held by the writing thread. Waiting for it is faster than SQLite's polling."""
        self._rested = 0.0
        self._inserted = self._analyzed = 0
        self._checkpoints = None if self.file is None else Checkpoints(self.file)

    def now(self) -> int:
        """Return the current time in microseconds."""
        if self._clock is not None or self.file is not None:
            return int((self._clock or time.time)() * 1_000_000)
        if not self._server_started:
            with self.read() as reading:
                return reading.now
        return self._server.now()

    def ask_time(self, connection: Connection, first: str = "") -> int:
        """Return the current time of PostgreSQL, read after it has evaluated the expressions `first`."""
        *_, answer, self._server_started = connection.exec_driver_sql(f"SELECT {first}{_TIME}").one()
        self._server.learn(answer)
        return answer if self._clock is None else self.now()

    def close(self) -> None:
        """Close all connections. Idempotent."""
        self.engine.dispose()

    def settle(self) -> None:
        """Checkpoint the SQLite file, so that it is complete without its log."""
        if self._checkpoints:
            with translated():
                self._checkpoints.settle()

    def cut_log(self) -> None:
        """Empty a long log of the SQLite file, unless another process needs it. Never waits."""
        if self._checkpoints:
            self._checkpoints.cut()

    def alone(self) -> Store:
        """Return the same database with a single connection and, on SQLite, an exclusive lock. Never waits."""
        return Store(self.url, self._clock, alone=True, home=self._home)

    @contextmanager
    def read(self) -> Iterator[Reading]:
        """Start a read transaction with a consistent view."""
        with translated(), self.engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection.execution_options(isolation_level="REPEATABLE READ")
                if not self._server.is_current:
                    self.ask_time(connection)
            yield Reading(connection, self.now(), self._server_started)

    def execute(self, statement: Executable) -> Result[Any]:
        """Execute a statement that reads, in a transaction of its own. Its rows are read at once."""
        with self.read() as reading:
            return reading.execute(statement).freeze()()

    @contextmanager
    def write(self, *, as_owner: bool = True) -> Iterator[Writing]:
        """Start a write transaction, committed on success and rolled back on an exception.

        `as_owner`: raise Refused if the database belongs to another home. False for one without tables, and to lock it only.
        """
        if self._read_only:
            raise ReadOnly("ledger: opened for reading only; nothing was changed")
        with self._alone:
            with translated(), self._begun() as connection:
                now = self.now() if self.file is not None else self.ask_time(connection, f"{_LOCKED}, ")
                if as_owner and self.ownership is not None:
                    self.ownership.require(connection)
                writing = Writing(connection, now, self._server_started)
                counted = self.tally.take()
                writing.tally.merge(counted)
                try:
                    yield writing
                    writing.write_history()
                    writing.write_measures()
                    self._analyze(writing)
                except BaseException:
                    self.tally.merge(counted)
                    raise
            if self._checkpoints:
                self._checkpoints.committed()

    def _analyze(self, writing: Writing) -> None:
        """Renew the statistics of PostgreSQL whenever this process has trebled its rows.

        PostgreSQL itself looks once a minute. Until then it takes every key for common, and reads whole tables for each batch.
        """
        self._inserted += writing.inserted
        if self._inserted > 3 * self._analyzed + _STATISTICS_ROWS:
            writing.connection.exec_driver_sql(f"ANALYZE {', '.join(schema.metadata.tables)}")
            self._analyzed = self._inserted

    @contextmanager
    def _begun(self) -> Iterator[Connection]:
        """Yield a connection in a write transaction. Discards connections with an outdated snapshot, which cannot write."""
        while True:
            with self.engine.connect().execution_options(writes=True) as connection:
                try:
                    transaction = connection.begin()
                except DBAPIError as error:
                    if getattr(error.orig, "sqlite_errorcode", None) != sqlite3.SQLITE_BUSY_SNAPSHOT:
                        raise
                    connection.invalidate()
                    continue
                with transaction:
                    yield connection
                return

    def let_others_write(self) -> None:
        """Pause occasionally between the parts of a long operation, so that other processes can write.

        Waiting processes poll a SQLite file every tenth of a second and would rarely find the moment between two commits.
        """
        if self.file is not None and time.monotonic() - self._rested > _AT_WORK_SECONDS:
            time.sleep(_OTHERS_ASK_SECONDS)
            self._rested = time.monotonic()


def make_file(path: Path) -> None:
    """Create an empty database file that only its owner can read."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise LedgerUnavailable(
            f"{path.name}: cannot be created ({error.strerror}); check the owner and free space of its folder"
        ) from error
