"""A circuit breaker without clock or storage: opens for a minute after five consecutive failures, then admits one probe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from catchment.pacing.bucket import TOKEN

FAILURES = 5
REST = 60 * TOKEN
"""Time that a breaker stays open, in microseconds."""


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

    def position(self, now: int) -> Position:
        """Return the position at the given time."""
        if self.opened is None:
            return Position.CLOSED
        return Position.OPEN if self.locked or now < self.opened + REST else Position.HALF_OPEN

    def ask(self, now: int, who: str, alive: Callable[[str], bool]) -> tuple[Breaker, int | None]:
        """Return the new state, and None if `who` may pass, else the time for the next attempt. Idempotent."""
        match self.position(now):
            case Position.CLOSED:
                return self, None
            case Position.OPEN:
                return self, (self.opened or now) + REST if not self.locked else now + REST
            case Position.HALF_OPEN:
                if self.prober is None or self.prober == who or not alive(self.prober):
                    return replace(self, prober=who), None
                return self, now + REST

    def failed(self, now: int, *, login: bool = False) -> Breaker:
        """Return the state after a failure. A refused login opens and locks the breaker immediately."""
        failures = self.failures + 1
        if self.opened is not None and self.position(now) is Position.OPEN and not login:
            # The request was admitted before the breaker opened, so it adds no information.
            return replace(self, failures=failures)
        opens = login or failures >= FAILURES or self.opened is not None
        return Breaker(failures, now if opens else None, self.locked or login)

    def succeeded(self, now: int) -> Breaker:
        """Return the state after a success. Ignored while open: the request was admitted earlier."""
        return self if self.position(now) is Position.OPEN else Breaker()
