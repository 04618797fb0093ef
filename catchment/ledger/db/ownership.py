"""The home that may change a ledger: the first writer, until another home adopts the ledger; or hosts that share it.

The processes of a home know which of its syncs live. Processes of another home would take them for dead, and release their
jobs. Hosts send heartbeats instead (`catchment.ledger.db.joined_hosts`).
"""

from __future__ import annotations

from functools import cached_property

from sqlalchemy import Connection, delete, insert, select

from catchment.errors import Refused
from catchment.ledger.db.schema import counters, hosts
from catchment.runtime.home import Home

_NAME = "home"
"""The row of `counters` with the identity of the owner. Without it, or with 0, the ledger has no owner yet."""
_SHARED = -1
"""The owner of a ledger that belongs to the homes in `hosts`."""

_owner = select(counters.c.value).where(counters.c.name == _NAME)


class Ownership:
    """The right of a home to change a ledger. A SQLite file directly in the home (`is_inside`) always belongs to it."""

    def __init__(self, home: Home, *, is_inside: bool) -> None:
        self._home = home
        self._is_inside = is_inside
        self.is_shared: bool | None = None
        """Whether hosts shared the ledger when it was last looked at; None before."""

    @cached_property
    def identity(self) -> int:
        """The identity of the home."""
        return self._home.identity()

    def look(self, connection: Connection) -> int | None:
        """Return the identity of the owner; note whether hosts share the ledger."""
        owner: int | None = connection.execute(_owner).scalar()
        self.is_shared = owner == _SHARED
        return owner

    def holds(self, connection: Connection) -> bool:
        """Return whether this home may write; False if there is no owner. Raises Refused if another home is the owner."""
        owner = self.look(connection)
        if not owner:
            return False
        if self.is_shared:
            if connection.execute(select(hosts.c.id).where(hosts.c.id == self.identity)).first() is None:
                raise Refused("ledger: shared by hosts, and this home is not one of them; run `catchment join` here")
            return True
        if owner != self.identity and not self._is_inside:
            raise Refused(
                "ledger: belongs to another home, and only one may change it; use that home, or another "
                "CATCHMENT_DATABASE_URL; if that home is no longer used: catchment ledger adopt"
            )
        return owner == self.identity

    def require(self, connection: Connection) -> None:
        """Raise Refused if the ledger belongs to another home. Without an owner, this home becomes the owner.

        Every write transaction calls this, because another home may adopt the ledger at any time.
        """
        if not self.holds(connection):
            self.adopt(connection)

    def adopt(self, connection: Connection) -> None:
        """Make this home the owner."""
        self._set(connection, self.identity)

    def adopt_unshared(self, connection: Connection) -> None:
        """Make this home the owner in place of another one. Raises Refused if hosts share the ledger."""
        self.look(connection)
        if self.is_shared:
            raise Refused("ledger: shared by hosts; to be one of them, run `catchment join`")
        self.adopt(connection)

    def share(self, connection: Connection) -> None:
        """Let hosts share the ledger. Raises Refused if it belongs to another home."""
        if self.look(connection) not in (None, 0, _SHARED, self.identity):
            raise Refused(
                "ledger: belongs to another home; run `catchment join` there first, "
                "or if that home is no longer used: catchment ledger adopt"
            )
        self._set(connection, _SHARED)

    def _set(self, connection: Connection, owner: int) -> None:
        forget_owner(connection)
        connection.execute(insert(counters), {"name": _NAME, "value": owner})
        self.is_shared = owner == _SHARED


def forget_owner(connection: Connection) -> None:
    """Leave the ledger without an owner: the next home that writes to it becomes the owner."""
    connection.execute(delete(counters).where(counters.c.name == _NAME))
