"""A circuit breaker without clock or storage: opens after five consecutive failures, then admits one probe.

It stays open for a minute, and twice as long after each failed probe, at most a day.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from catchment.pacing.bucket import TOKEN

FAILURES = 5
REST = 60 * TOKEN
"""Time that a breaker stays open at first, in microseconds."""
_LONGEST = 86_400 * TOKEN


class Position(StrEnum):
    """Closed: requests pass. Open: none pass. Half open: one process may probe."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half open"


@dataclass(frozen=True, slots=True)
class Breaker:
    """State of a circuit breaker.

    Attributes:
        failures: Number of consecutive failures.
        opened: Time of the failure that last opened it; None while closed.
        locked: Stays open until reset, because the login was refused.
        prober: Identity of the process that probes.
    """

    failures: int = 0
    opened: int | None = None
    locked: bool = False
    prober: str | None = None

    @property
    def until(self) -> int | None:
        """When it permits a probe; None if it is closed or must be reset."""
        if self.opened is None or self.locked:
            return None
        return self.opened + min(REST << min(max(0, self.failures - FAILURES), 11), _LONGEST)

    def position(self, now: int) -> Position:
        """Return the position at the given time."""
        if self.opened is None:
            return Position.CLOSED
        return Position.OPEN if self.until is None or now < self.until else Position.HALF_OPEN

    def ask(self, now: int, who: str, alive: Callable[[str], bool]) -> tuple[Breaker, int | None]:
        """Return the new state, and None if `who` may pass, else the time for the next attempt. Idempotent."""
        match self.position(now):
            case Position.CLOSED:
                return self, None
            case Position.OPEN:
                return self, self.until or now + REST
            case Position.HALF_OPEN:
                if self.prober is None or self.prober == who or not alive(self.prober):
                    return replace(self, prober=who), None
                return self, now + REST

    def failed(self, now: int, *, login: bool = False) -> Breaker:
        """Return the state after a failure. A refused login opens and locks the breaker immediately."""
        failures = self.failures + 1
        if self.opened is not None and self.position(now) is Position.OPEN and not login:
            # The request was admitted before the breaker opened, so it adds no information.
            return self
        opens = login or failures >= FAILURES or self.opened is not None
        return Breaker(failures, now if opens else None, self.locked or login)

    def succeeded(self, now: int) -> Breaker:
        """Return the state after a success. Ignored while open: the request was admitted earlier."""
        return self if self.position(now) is Position.OPEN else Breaker()
