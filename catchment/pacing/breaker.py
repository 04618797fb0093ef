"""The circuit breaker, as arithmetic: who failed five times in a row is left alone for a minute, and then tried by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from catchment.pacing.bucket import TOKEN

FAILURES = 5
REST = 60 * TOKEN
"""How long an open breaker lets nobody through, in microseconds."""


class Position(StrEnum):
    """Closed: everybody may pass. Open: nobody may. Half open: one process may try."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half open"


@dataclass(frozen=True, slots=True)
class Breaker:
    """`failures` in a row; `opened` is when the last of them opened it, None while it is closed.

    A `locked` one stays open until it is reset: the login was refused. `prober` is the process that tries.
    """

    failures: int = 0
    opened: int | None = None
    locked: bool = False
    prober: str | None = None

    def position(self, now: int) -> Position:
        """How it stands."""
        if self.opened is None:
            return Position.CLOSED
        return Position.OPEN if self.locked or now < self.opened + REST else Position.HALF_OPEN

    def ask(self, now: int, who: str, alive: Callable[[str], bool]) -> tuple[Breaker, int | None]:
        """Whether `who` may pass: None when it may, else the moment to ask again. May be asked again."""
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
        """The same after a failure; a refused login opens it at once and locks it."""
        failures = self.failures + 1
        if self.opened is not None and self.position(now) is Position.OPEN and not login:
            # It was let through before the breaker opened, and says nothing new.
            return replace(self, failures=failures)
        opens = login or failures >= FAILURES or self.opened is not None
        return Breaker(failures, now if opens else None, self.locked or login)

    def succeeded(self, now: int) -> Breaker:
        """The same after a success. Of one that is open it says nothing: it was let through before."""
        return self if self.position(now) is Position.OPEN else Breaker()
