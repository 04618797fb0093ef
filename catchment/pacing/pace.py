"""What a connector holds: its pace. This one is of nobody's concern and lets everything pass; the engine sets a metered one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from catchment.pacing.limits import RateReport


class Transfer:
    """One exchange with a host, while it goes on. What is said of it is heeded when it ends."""

    def __init__(self, cost: int) -> None:
        self.cost = cost
        self.said: list[RateReport] = []
        self.refunded = False

    def told(self, said: RateReport) -> None:
        """Note what the answer said of the rate; `read_headers` reads it from headers."""
        self.said.append(said)

    def refund(self) -> None:
        """Take nothing for this transfer: the host answered that nothing has changed (HTTP 304)."""
        self.refunded = True


class Pace:
    """How fast a connector may go. Safe for threads; a copy in another process is free, for nothing is fetched there."""

    requests: int = 0
    """How many were made so far, where they are counted."""

    @contextmanager
    def transfer(self, cost: int = 1) -> Iterator[Transfer]:
        """Do one exchange with the host within this block, `cost` requests at once; parse what came after it.

        Waits for its time and for a place. Raises RateLimited when that would take longer than a run should wait, and
        SourceUnavailable when the host has failed too often just now. What leaves the block is noticed: RateLimited as
        "stay away so long", SourceUnavailable as a failure of the host, LoginFailed as the end of trying.
        """
        yield Transfer(cost)

    def intake(self) -> AbstractContextManager[None]:
        """Within this block this thread's transfers find new work, and are slowed when there is enough; others only drain.

        For the engine.
        """
        return nullcontext()

    def close(self) -> None:
        """Give back what is held; may be called again. For the engine."""

    def __reduce__(self) -> tuple[type[Pace], tuple[()]]:
        return Pace, ()
