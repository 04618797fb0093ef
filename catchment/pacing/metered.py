"""The metered pace of one source: each request takes tokens from a shared bucket and a slot at its host.

All shared state is behind `Meter`. Tokens taken by a killed process are lost, never granted twice; its slots are reclaimed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from catchment.errors import LedgerUnavailable, LoginFailed, RateLimited, SourceUnavailable
from catchment.pacing.host_slots import HostSlots, Slots
from catchment.pacing.limits import HostLimits, RateReport
from catchment.pacing.pace import Pace, Transfer

PATIENCE = 5.0
"""Maximum seconds to wait for the host or a rule. Longer waits are left to a later sync."""
RATE_PATIENCE = 120.0
"""Maximum seconds to wait for tokens: longer, because the bucket refills continuously and others may take tokens first."""


@dataclass
class Report:
    """Events since the last call to the meter. `source`: the name of the source that asked."""

    source: str = ""
    answers: int = 0
    slow: int = 0
    throttled: int = 0
    rates: list[RateReport] = field(default_factory=list)
    refunds: list[Charge] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.answers or self.throttled or self.rates or self.refunds)


@dataclass(frozen=True, slots=True)
class Charge:
    """Tokens taken for one transfer: `number` requests at `price` each, in budget window `window`."""

    number: int
    price: int = 0
    window: int | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for `cost` requests, to discover new work (`intake`) or to process queued work."""

    limits: HostLimits
    source: str
    owner: str
    cost: int
    intake: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """The charge, or the reason and the seconds to wait.

    Attributes:
        why: "rate", "host" (the host requested it, or its budget is exhausted), "breaker" or "rule" (set by the operator).
        failing: True if a circuit breaker has recorded failures, so that the next success must be reported.
    """

    charge: Charge | None
    wait: float = 0.0
    why: str = ""
    failing: bool = False


class Meter(Slots, Protocol):
    """The state shared by all processes."""

    def take(self, ask: Ask, report: Report, fill: Callable[[], float] | None) -> Answer:
        """Apply the report, then grant the requests if tokens are available."""
        ...

    def report(self, limits: HostLimits, report: Report) -> None:
        """Apply the report."""
        ...

    def failed(self, limits: HostLimits, source: str, *, login: bool) -> None:
        """Record a failure of the host or a refused login."""
        ...

    def succeeded(self, limits: HostLimits, source: str) -> None:
        """Record a successful response after failures."""
        ...


class Metered(Pace):
    """The pace of one source under its limits.

    Args:
        fill: Returns the fill level of the queue; called every few seconds.
        clock: Returns monotonic seconds.
        sleep: Waits for the given number of seconds.
    """

    def __init__(
        self,
        meter: Meter,
        limits: HostLimits,
        source: str,
        owner: str,
        *,
        fill: Callable[[], float] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.requests = 0
        self._meter = meter
        self._limits = limits
        self._source = source
        self._owner = owner
        self._fill = fill
        self._clock = clock
        self._sleep = sleep
        self._slots = HostSlots(meter, limits, source, owner, clock)
        self._lock = threading.RLock()
        self._report = Report(source)
        self._thread = threading.local()
        self._failing = False

    @contextmanager
    def transfer(self, cost: int = 1) -> Iterator[Transfer]:
        charge = self._admit(cost)
        transfer = Transfer(cost)
        with self._slots.taken():
            began = self._clock()
            try:
                yield transfer
            except RateLimited as error:
                self._throttled(transfer, charge, error)
                raise
            except (SourceUnavailable, LoginFailed) as error:
                self._failed(login=isinstance(error, LoginFailed))
                raise
            except BaseException:
                # A problem with the item, or a cancellation: this reveals nothing about the host.
                self._answered(transfer, charge, None)
                raise
            self._answered(transfer, charge, self._clock() - began)

    @contextmanager
    def intake(self) -> Iterator[None]:
        self._thread.intake = True
        try:
            yield
        finally:
            self._thread.intake = False

    def close(self) -> None:
        """Release all slots and write pending refunds. Idempotent."""
        self._slots.close()
        # Refunds that cannot be written are lost. The host then receives fewer requests than permitted.
        with suppress(LedgerUnavailable):
            self._flush()

    # Admission

    def _admit(self, cost: int) -> Charge:
        started = self._clock()
        while isinstance(granted := self._request(cost, self._clock() - started), float):
            self._sleep(granted)
        return granted

    def _request(self, cost: int, waited: float) -> Charge | float:
        """Take the tokens from the meter, or return the seconds to wait."""
        with self._lock:
            answer = self._take(cost)
            self._failing = answer.failing
            if answer.charge is None:
                patience = RATE_PATIENCE if answer.why == "rate" else PATIENCE
                if answer.why == "breaker" or waited + answer.wait > patience:
                    raise self._refusal(answer)
                return float(answer.wait)
            self.requests += cost
            return answer.charge

    def _is_intake(self) -> bool:
        """Return whether this thread is discovering new work."""
        return getattr(self._thread, "intake", False)

    def _take(self, cost: int) -> Answer:
        report, self._report = self._report, Report(self._source)
        ask = Ask(self._limits, self._source, self._owner, cost, self._is_intake())
        return self._meter.take(ask, report, self._fill)

    def _refusal(self, answer: Answer) -> Exception:
        host = self._limits.host
        if answer.why == "breaker":
            return SourceUnavailable(f"{host}: backed off after repeated failures; see `catchment throttle show`")
        return RateLimited("a throttle" if answer.why == "rule" else host, answer.wait)

    # Outcomes

    def _answered(self, transfer: Transfer, charge: Charge, seconds: float | None) -> None:
        with self._lock:
            self._record(transfer, charge)
            if seconds is None:
                return
            self._report.answers += 1
            self._report.slow += seconds > self._limits.slow
            if not self._failing:
                return
            self._failing = False
        self._meter.succeeded(self._limits, self._source)

    def _throttled(self, transfer: Transfer, charge: Charge, error: RateLimited) -> None:
        after = self._limits.wait if error.retry_after is None else error.retry_after
        transfer.report(RateReport(retry_after=after))
        with self._lock:
            self._report.throttled += 1
            self._record(transfer, charge)

    def _failed(self, *, login: bool) -> None:
        self._meter.failed(self._limits, self._source, login=login)

    def _record(self, transfer: Transfer, charge: Charge) -> None:
        if transfer.refunded:
            self._report.refunds.append(charge)
            self.requests -= transfer.cost
        if not transfer.reports:
            return
        self._report.rates = [*self._report.rates[-1:], *transfer.reports]
        if any(rates.retry_after is not None or _scarce(rates) for rates in transfer.reports):
            # Share this before any process sends another request.
            self._flush()

    def _flush(self) -> None:
        with self._lock:
            report, self._report = self._report, Report(self._source)
        if report:
            self._meter.report(self._limits, report)


def _scarce(rates: RateReport) -> bool:
    return rates.limit is not None and rates.remaining is not None and rates.remaining * 8 < rates.limit
