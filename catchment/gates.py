"""What a sync passes before it begins (the state of its source, rules, breakers, what its host said), and its pace then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from catchment import process
from catchment.contracts import Connected, Connector, Paced
from catchment.errors import NotNow
from catchment.ledger import Ledger, Source
from catchment.pacing import Limits
from catchment.pacing.breaker import Position
from catchment.pacing.metered import Metered

_FULL_QUEUE = 10_000
"""Jobs that wait at a source, at which more need not be looked for in a hurry: a slice of batches."""


def limits_of(connector: Connector) -> Limits | None:
    """How the connector means to treat its host; None where it asks none."""
    return connector.limits() if isinstance(connector, Paced) else None


def gate(ledger: Ledger, source: Source, limits: Limits | None) -> NotNow | None:
    """Why a sync of this source may not begin now, with the moment when it may where that is known; None when it may.

    May be asked again. Of a breaker that lets one process try, this process becomes the one.
    """
    name = source.name
    if source.state != "active":
        return NotNow(f"{name} is {source.state}; to release it: catchment sources resume {name}")
    if (ruled := ledger.throttles.blocked(name)) is not None:
        until, why = ruled
        remedy = "see `catchment throttle show`"
        return NotNow(f"{name} rests because of {why}{f' until {until:%H:%M} UTC' if until else ''}; {remedy}", until)
    if (found := ledger.pacing.not_before(name, limits, process.identity())) is not None:
        moment, why = found
        return NotNow(f"{name} rests until {moment:%H:%M} UTC, because {why}; see `catchment throttle show`", moment)
    return None


@dataclass(frozen=True, slots=True)
class Rest:
    """Why a source is left alone, and until when: aware UTC, None where that is for a person to say."""

    why: str
    until: datetime | None


def resting(ledger: Ledger) -> dict[str, Rest]:
    """Every source that a rule or its own breaker holds back at the moment, by name; asking changes nothing."""
    opened = {row.key: row for row in ledger.pacing.breakers() if row.position is Position.OPEN}
    found = {}
    for source in ledger.sources.all():
        if (row := opened.get(f"source:{source.name}")) is not None:
            why = "the login was refused" if row.locked else "it failed several times in a row"
            found[source.name] = Rest(why, row.until)
        if (ruled := ledger.throttles.blocked(source.name)) is not None:
            found[source.name] = Rest(ruled[1], ruled[0])
    return found


@contextmanager
def paced(connector: Connector, ledger: Ledger, source: Source) -> Iterator[None]:
    """Give a connector that asks a host its pace, and take back what it holds: of the pace, and of connections."""
    if not isinstance(connector, Paced):
        yield
        return

    def fill() -> float:
        return ledger.queue.waiting(source.id).ready / _FULL_QUEUE

    pace = Metered(ledger.pacing, connector.limits(), source.name, process.identity(), fill=fill)
    connector.pace = pace
    try:
        yield
    finally:
        if isinstance(connector, Connected):
            connector.close()
        pace.close()
