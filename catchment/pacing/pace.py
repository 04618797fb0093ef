"""The pace of a connector: `Pace` is unlimited; the engine replaces it with `metered.Metered` for a sync."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from catchment.pacing.limits import HostLimits, RateReport


class Transfer:
    """One exchange with a host. Rate reports recorded here take effect when it ends."""

    def __init__(self, cost: int) -> None:
        self.cost = cost
        self.reports: list[RateReport] = []
        self.refunded = False

    def report(self, report: RateReport) -> None:
        """Record the rate limits in a response; `read_headers` extracts them from HTTP headers."""
        self.reports.append(report)

    def refund(self) -> None:
        """Refund this transfer, because the host reported no change (HTTP 304)."""
        self.refunded = True


class Pace:
    """An unlimited pace. Thread-safe. Unpickling yields an unlimited pace, because other processes do not fetch."""

    requests: int = 0
    """Requests made so far, if counted."""

    @contextmanager
    def transfer(self, cost: int = 1, at: HostLimits | None = None) -> Iterator[Transfer]:
        """Perform one exchange of `cost` requests inside the block. Parse the response after leaving it.

        `at`: the host and its limits, if the connector declares none. Failures there concern this host alone.

        Waits for tokens and a host slot. Exceptions that leave the block are recorded: RateLimited as a requested pause,
        SourceUnavailable as a failure of the host, LoginFailed as permanent.

        Raises RateLimited if the wait would exceed the limit for a run, SourceUnavailable if the circuit breaker is open; both
        with `retry_after`.
        """
        del at
        yield Transfer(cost)

    def intake(self) -> AbstractContextManager[None]:
        """Mark this thread's transfers as discovery of new work, which slows down when the queue is full. For the engine.

        Transfers that name their host always count as discovery.
        """
        return nullcontext()

    def close(self) -> None:
        """Release resources. Idempotent. For the engine."""

    def __reduce__(self) -> tuple[type[Pace], tuple[()]]:
        return Pace, ()
