"""What a sync passes before it begins: the state of its source, the rules of the operator, breakers, and what its host said."""

from __future__ import annotations

from catchment import process
from catchment.errors import NotNow
from catchment.ledger import Ledger, Source
from catchment.pacing import Limits


def gate(ledger: Ledger, source: Source, limits: Limits | None) -> NotNow | None:
    """Why a sync of this source may not begin now, with the moment when it may where that is known; None when it may.

    `limits` are the connector's, None where it asks no host. May be asked again. Of a breaker that lets one process try,
    this process becomes the one.
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
