"""The home that may change a ledger: the first one that wrote to it, until another one adopts it.

The processes of a home know which of its syncs live. Those of another home would take them for dead, and release their jobs.
"""

from __future__ import annotations

from functools import cached_property

from sqlalchemy import Connection, delete, insert, select

from catchment.errors import Refused
from catchment.ledger.db.schema import counters
from catchment.runtime.home import Home

_NAME = "home"
"""The row of `counters` with the identity of the owner. Without it, or with 0, the ledger has no owner yet."""

_owner = select(counters.c.value).where(counters.c.name == _NAME)


class Ownership:
    """The right of a home to change a ledger. A SQLite file directly in the home (`is_inside`) always belongs to it."""

    def __init__(self, home: Home, *, is_inside: bool) -> None:
        self._home = home
        self._is_inside = is_inside

    @cached_property
    def _identity(self) -> int:
        return self._home.identity()

    def holds(self, connection: Connection) -> bool:
        """Return whether this home is the owner; False if there is none. Raises Refused if another home is."""
        owner = connection.execute(_owner).scalar()
        if not owner:
            return False
        if owner != self._identity and not self._is_inside:
            raise Refused(
                "ledger: belongs to another home, and only one may change it; use that home, or another "
                "CATCHMENT_DATABASE_URL; if that home is no longer used: catchment ledger adopt"
            )
        return bool(owner == self._identity)

    def require(self, connection: Connection) -> None:
        """Raise Refused if the ledger belongs to another home. Without an owner, this home becomes the owner.

        Every write transaction calls this, because another home may adopt the ledger at any time.
        """
        if not self.holds(connection):
            self.adopt(connection)

    def adopt(self, connection: Connection) -> None:
        """Make this home the owner."""
        forget_owner(connection)
        connection.execute(insert(counters), {"name": _NAME, "value": self._identity})


def forget_owner(connection: Connection) -> None:
    """Leave the ledger without an owner: the next home that writes to it becomes the owner."""
    connection.execute(delete(counters).where(counters.c.name == _NAME))
