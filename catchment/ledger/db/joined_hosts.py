"""The hosts that share a ledger on PostgreSQL: their heartbeats, and the work that only one of them may do at a time."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, insert, select, text, update

from catchment.errors import NotFound, Refused
from catchment.ledger.db.database import AnyRow, Store
from catchment.ledger.db.driver_errors import translated
from catchment.ledger.db.ownership import Ownership
from catchment.ledger.db.row_records import record
from catchment.ledger.db.schema import host_purges, hosts
from catchment.runtime import process

UNCONFIRMED = "purge unconfirmed"
"""Event: a host left before it deleted its data of a source. The reason is its name."""
_BEAT = timedelta(seconds=40)
"""How long a host counts as alive after a beat. Its worker beats every 10 s."""
_COMMAND = timedelta(minutes=10)
"""The same for a command on a host without a worker, which does not beat while it works."""
_KNOWN_SECONDS = 3.0
_MICROSECOND = timedelta(microseconds=1)
_ALONE = 7_221_837
"""First half of the advisory locks of `alone`; an arbitrary number, equal in all processes."""


@dataclass(frozen=True, slots=True)
class JoinedHost:
    """A host as of now.

    Attributes:
        boot: The boot and the PID namespace of its processes, as in their identities.
        beat_until: Until when it counts as alive; the year 1970 if it has stopped in order, or not started yet.
        silent_for: Time since the last beat of a host that stopped without notice; None for others.
    """

    id: int
    name: str
    is_me: bool
    boot: str
    beat_until: datetime
    is_alive: bool
    silent_for: timedelta | None
    version: str
    takes_any: bool
    joined_at: datetime

    @property
    def last_beat(self) -> datetime | None:
        """When it last beat; None if it has stopped in order, or not started yet."""
        return self.beat_until - _BEAT if self.is_alive or self.silent_for is not None else None


class JoinedHosts:
    """The hosts of a ledger. There are none on SQLite, and none while one home has the ledger to itself."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._answering: frozenset[str] = frozenset()
        self._asked = -math.inf

    @property
    def is_shared(self) -> bool:
        """Whether hosts share the ledger. Reads the database once; afterwards, every write transaction renews the value."""
        ownership = self._store.ownership
        if ownership is None or self._store.file is not None:
            return False
        if ownership.is_shared is None:
            with self._store.read() as reading:
                ownership.look(reading.connection)
        return bool(ownership.is_shared)

    def is_owned(self) -> bool:
        """Return whether this home has the ledger to itself."""
        ownership = self._mine()
        with self._store.read() as reading:
            return ownership.look(reading.connection) == ownership.identity

    def join(self, name: str, actor: str, reason: str = "", *, takes_any: bool, version: str) -> None:
        """Share the ledger as a host of this name. Idempotent; a second call changes the name and `takes_any`.

        Raises Refused on SQLite, for the name of another host, or if another home has the ledger to itself.
        """
        ownership = self._mine()
        if self._store.file is not None:
            raise Refused("ledger: SQLite has one home; first move it with `catchment ledger move postgresql://…`")
        with self._store.write(as_owner=False) as writing:
            ownership.share(writing.connection)
            others = select(hosts.c.id).where(hosts.c.name == name, hosts.c.id != ownership.identity)
            if writing.execute(others).first() is not None:
                raise Refused(f"{name}: another host has this name; choose one with --name")
            facts = {"name": name, "takes_any": takes_any, "version": version}
            own = hosts.c.id == ownership.identity
            if not writing.execute(update(hosts).where(own).values(facts)).rowcount:
                new = {"id": ownership.identity, "boot": "", "beat_until": 0, "joined_at": writing.now}
                writing.execute(insert(hosts).values(new | facts))
                writing.record("host joined", actor=actor, fact=name, reason=reason)

    def leave(self, actor: str, reason: str = "", *, name: str | None = None) -> None:
        """Remove this host, or another host that no longer answers. The last host then has the ledger to itself.

        Raises NotFound, or Refused for another host that answers.
        """
        ownership = self._mine()
        with self._store.write() as writing:
            which = hosts.c.id == ownership.identity if name is None else hosts.c.name == name
            row = writing.execute(select(hosts).where(which)).first()
            if row is None:
                raise NotFound(f"{name or 'this home'}: not a host of the ledger; see `catchment hosts`")
            if row.id != ownership.identity and row.beat_until > writing.now:
                raise Refused(f"{row.name}: still at work; run `catchment leave` there")
            purges = delete(host_purges).where(host_purges.c.host_id == row.id).returning(host_purges.c.source_id)
            for source_id in writing.execute(purges).scalars().all():
                writing.record(UNCONFIRMED, actor=actor, source_id=source_id, reason=row.name)
            writing.execute(delete(hosts).where(hosts.c.id == row.id))
            writing.record("host left", actor=actor, fact=row.name, reason=reason)
            if writing.execute(select(hosts.c.id).limit(1)).first() is None:
                ownership.adopt(writing.connection)

    def all(self) -> list[JoinedHost]:
        """Return the hosts by name."""
        if not self.is_shared:
            return []
        with self._store.read() as reading:
            rows = reading.execute(select(hosts).order_by(hosts.c.name)).all()
            return [self._host(row, reading.now) for row in rows]

    def mine(self) -> JoinedHost | None:
        """Return this host, or None if it has not joined."""
        return next((host for host in self.all() if host.is_me), None)

    def beat(self) -> None:
        """Record that this host counts as alive for the next 40 s. Waits for no other writer."""
        self._until(_BEAT)

    def end_beat(self) -> None:
        """Record that this host stops now."""
        self._until(None)

    def beat_for_command(self) -> None:
        """Let the syncs of a command count as alive for ten minutes, if no process of this host sends heartbeats."""
        me = self.mine()
        if me is not None and not (me.is_alive and me.boot == process.place_of(process.identity())):
            self._until(_COMMAND)

    def alive(self, owner: str) -> bool:
        """Return whether the process with this identity is running, or its host if it is another one.

        The result for another host is cached for 3 s.
        """
        if process.alive(owner):
            return True
        if process.is_local(owner) or not self.is_shared:
            return False
        if time.monotonic() - self._asked > _KNOWN_SECONDS:
            with self._store.read() as reading:
                boots = reading.execute(select(hosts.c.boot).where(hosts.c.beat_until > reading.now)).scalars()
                self._answering, self._asked = frozenset(boots), time.monotonic()
        return process.place_of(owner) in self._answering

    @contextmanager
    def alone(self, purpose: str) -> Iterator[bool]:
        """Yield whether no other process of any host is in a block of this purpose. A process that dies leaves it.

        Always true on SQLite.
        """
        if self._store.file is not None:
            yield True
            return
        key = zlib.crc32(purpose.encode()) - 2**31
        with translated():
            connection = self._store.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            with translated():
                locked = connection.execute(text(f"SELECT pg_try_advisory_lock({_ALONE}, {key})")).scalar_one()
            yield bool(locked)
        finally:
            # The lock ends with the connection, which may be lost already.
            connection.invalidate()
            connection.close()

    def _mine(self) -> Ownership:
        if self._store.ownership is None:
            raise Refused("ledger: opened without a home; set CATCHMENT_HOME")
        return self._store.ownership

    def _until(self, ahead: timedelta | None) -> None:
        with translated(), self._store.engine.begin() as connection:
            until = 0 if ahead is None else self._store.ask_time(connection) + ahead // _MICROSECOND
            values = {"beat_until": until, "boot": process.place_of(process.identity())}
            connection.execute(update(hosts).where(hosts.c.id == self._mine().identity).values(values))

    def _host(self, row: AnyRow, now: int) -> JoinedHost:
        is_alive = row.beat_until > now
        silent_for = None if is_alive or not row.beat_until else (now - row.beat_until) * _MICROSECOND + _BEAT
        is_me = row.id == self._mine().identity
        return record(JoinedHost, row, is_me=is_me, is_alive=is_alive, silent_for=silent_for)
