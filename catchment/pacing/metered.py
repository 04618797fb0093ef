"""The metered pace of one source: each request takes tokens from the shared bucket of its host, and a slot there.

All shared state is behind `Meter`. Tokens taken by a killed process are lost, never granted twice; its slots are reclaimed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Protocol

from catchment.errors import LedgerUnavailable, LoginFailed, RateLimited, SourceUnavailable
from catchment.pacing.host_slots import HostSlots, Slots
from catchment.pacing.limits import HostLimits, RateReport
from catchment.pacing.pace import Pace, Transfer

PATIENCE = 5.0
"""Maximum seconds to wait for the host or a rule. Longer waits are left to a later sync."""
RATE_PATIENCE = 120.0
"""Maximum seconds to wait for tokens: longer, because the bucket refills continuously and others may take tokens first.

Not for a host with seconds between two requests: a source with several hosts sends requests to another one meanwhile.
"""


@dataclass
class Report:
    """Events at one host since the last call to the meter. `source`: the name of the source that sent the requests.

    True if it must not be lost.
    """

    source: str = ""
    answers: int = 0
    slow: int = 0
    throttled: int = 0
    rates: list[RateReport] = field(default_factory=list)
    refunds: list[Charge] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.throttled or self.rates or self.refunds)


@dataclass(frozen=True, slots=True)
class Charge:
    """Tokens taken for one transfer: `number` requests at `price` each, in budget window `window`."""

    number: int
    price: int = 0
    window: int | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for `cost` requests, to discover new work (`intake`) or to process queued work.

    `is_only_host`: the source has no other host, so that its own circuit breaker counts, too.
    """

    limits: HostLimits
    source: str
    owner: str
    cost: int
    intake: bool
    is_only_host: bool = True


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

    def failed(self, limits: HostLimits, source: str | None, *, login: bool) -> None:
        """Record a failure of the host, and of the source if it has no other host, or a refused login."""
        ...

    def succeeded(self, limits: HostLimits, source: str | None) -> None:
        """Record a successful response after failures."""
        ...


class _Host:
    """A host that the source sends requests to, and the events in its responses since the last call to the meter."""

    def __init__(self, limits: HostLimits, source: str, slots: HostSlots | None, *, is_only: bool) -> None:
        self.limits = limits
        self.slots = slots
        self.is_only = is_only
        self.report = Report(source)

    def take_report(self) -> Report:
        report, self.report = self.report, Report(self.report.source)
        return report


class Metered(Pace):
    """The pace of one source, for each of its hosts.

    Args:
        limits: Of the only host of the source; None if each transfer names its host.
        fill: Returns the fill level of the queue; called every few seconds.
        clock: Returns monotonic seconds.
        sleep: Waits for the given number of seconds.
    """

    def __init__(
        self,
        meter: Meter,
        limits: HostLimits | None,
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
        self._hosts: dict[HostLimits, _Host] = {}
        self._lock = threading.Lock()
        self._thread = threading.local()

    @contextmanager
    def transfer(self, cost: int = 1, at: HostLimits | None = None) -> Iterator[Transfer]:
        host = self._host(at)
        answer = self._admit(host, cost)
        transfer = Transfer(cost)
        with host.slots.taken() if host.slots else nullcontext():
            began = self._clock()
            try:
                yield transfer
            except RateLimited as error:
                self._throttled(host, transfer, answer, error)
                raise
            except (SourceUnavailable, LoginFailed) as error:
                self._record(host, transfer, answer)
                self._meter.failed(host.limits, self._breaks(host), login=isinstance(error, LoginFailed))
                raise
            except BaseException:
                # A problem with the item, or a cancellation, and not of the host.
                self._record(host, transfer, answer)
                raise
            self._answered(host, transfer, answer, self._clock() - began)

    @contextmanager
    def intake(self) -> Iterator[None]:
        self._thread.intake = True
        try:
            yield
        finally:
            self._thread.intake = False

    def close(self) -> None:
        """Release all slots and write pending refunds. Idempotent."""
        for host in list(self._hosts.values()):
            if host.slots:
                host.slots.close()
            # Refunds that cannot be written are lost. The host then receives fewer requests than permitted.
            with suppress(LedgerUnavailable):
                self._flush(host)

    def _host(self, at: HostLimits | None) -> _Host:
        limits = at or self._limits
        if limits is None:
            raise TypeError("a transfer of a connector without limits names its host")
        with self._lock:
            if limits not in self._hosts:
                slots = None
                if limits.every is None:
                    slots = HostSlots(self._meter, limits, self._source, self._owner, self._clock)
                self._hosts[limits] = _Host(limits, self._source, slots, is_only=at is None)
            return self._hosts[limits]

    def _breaks(self, host: _Host) -> str | None:
        """Return the source if its own breaker counts the failures of the host."""
        return self._source if host.is_only else None

    # Admission

    def _admit(self, host: _Host, cost: int) -> Answer:
        started = self._clock()
        while isinstance(granted := self._request(host, cost, self._clock() - started), float):
            self._sleep(granted)
        return granted

    def _request(self, host: _Host, cost: int, waited: float) -> Answer | float:
        """Take the tokens from the meter, or return the seconds to wait."""
        with self._lock:
            report = host.take_report()
        ask = Ask(host.limits, self._source, self._owner, cost, self._is_intake(host), host.is_only)
        answer = self._meter.take(ask, report, self._fill)
        if answer.charge is None:
            is_patient = answer.why == "rate" and host.limits.every is None
            if answer.why == "breaker" or waited + answer.wait > (RATE_PATIENCE if is_patient else PATIENCE):
                raise _refusal(host.limits.host, answer)
            return float(answer.wait)
        with self._lock:
            self.requests += cost
        return answer

    def _is_intake(self, host: _Host) -> bool:
        """Return whether this is discovery of new work. A connector with several hosts uses its own threads."""
        return not host.is_only or getattr(self._thread, "intake", False)

    # Outcomes

    def _answered(self, host: _Host, transfer: Transfer, granted: Answer, seconds: float) -> None:
        self._record(host, transfer, granted)
        with self._lock:
            host.report.answers += 1
            host.report.slow += seconds > host.limits.slow
        if granted.failing:
            self._meter.succeeded(host.limits, self._breaks(host))

    def _throttled(self, host: _Host, transfer: Transfer, granted: Answer, error: RateLimited) -> None:
        after = host.limits.wait if error.retry_after is None else error.retry_after
        transfer.report(RateReport(retry_after=after))
        with self._lock:
            host.report.throttled += 1
        self._record(host, transfer, granted)

    def _record(self, host: _Host, transfer: Transfer, granted: Answer) -> None:
        with self._lock:
            if transfer.refunded and granted.charge:
                host.report.refunds.append(granted.charge)
                self.requests -= transfer.cost
            if not transfer.reports:
                return
            host.report.rates = [*host.report.rates[-1:], *transfer.reports]
        if any(rates.retry_after is not None or _scarce(rates) for rates in transfer.reports):
            # Share this before any process sends another request.
            self._flush(host)

    def _flush(self, host: _Host) -> None:
        with self._lock:
            report = host.take_report()
        if report:
            self._meter.report(host.limits, report)


def _refusal(host: str, answer: Answer) -> Exception:
    if answer.why == "breaker":
        problem = f"{host}: backed off after repeated failures; see `catchment throttle show`"
        return SourceUnavailable(problem, answer.wait)
    return RateLimited("a throttle" if answer.why == "rule" else host, answer.wait)


def _scarce(rates: RateReport) -> bool:
    return rates.limit is not None and rates.remaining is not None and rates.remaining * 8 < rates.limit
