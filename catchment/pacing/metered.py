"""The pace of one source in one process: each request takes its tokens from the shared bucket, and a place at its host.

All that is shared is behind `Meter`. What a killed process had taken is lost, never doubled; its places are taken back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from catchment.errors import LedgerUnavailable, LoginFailed, RateLimited, SourceUnavailable
from catchment.pacing.host_slots import HostPlaces, Slots
from catchment.pacing.limits import HostLimits, RateReport
from catchment.pacing.pace import Pace, Transfer

PATIENCE = 5.0
"""When the host or a rule says "later", a transfer waits so many seconds; more is left to a later sync."""
RATE_PATIENCE = 120.0
"""For the bucket it waits longer, because that fills all the time and others may be quicker to take from it."""


@dataclass
class Report:
    """What happened since the last time the meter was asked."""

    answers: int = 0
    slow: int = 0
    throttled: int = 0
    said: list[RateReport] = field(default_factory=list)
    refunds: list[Charge] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.answers or self.throttled or self.said or self.refunds)


@dataclass(frozen=True, slots=True)
class Charge:
    """The tokens taken for one transfer: `number` requests at `price` each, in a `window` of the budget."""

    number: int
    price: int = 0
    window: int | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """What a source wants of its host: `cost` requests, to find new work (`intake`) or to drain."""

    limits: HostLimits
    source: str
    owner: str
    cost: int
    intake: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """The charge made, or the seconds to wait and why: `rate`, `host` (it said so, or its budget is used up) or `breaker`.

    (`rule`: the operator wants it.) `failing` is whether a breaker has failures in it, so that a success is worth telling.
    """

    charge: Charge | None
    wait: float = 0.0
    why: str = ""
    failing: bool = False


class Meter(Slots, Protocol):
    """What all processes share."""

    def take(self, ask: Ask, report: Report, fill: Callable[[], float] | None) -> Answer:
        """Apply the report and grant the requests, if there are tokens."""
        ...

    def report(self, limits: HostLimits, report: Report) -> None:
        """Heed the report."""
        ...

    def failed(self, limits: HostLimits, source: str, *, login: bool) -> None:
        """The host failed, or refused the login."""
        ...

    def succeeded(self, limits: HostLimits, source: str) -> None:
        """The host answers again."""
        ...


class Metered(Pace):
    """The pace of one source under its limits. `fill` says how full the queue is; it is asked every few seconds.

    `clock` gives seconds that never go back, `sleep` waits for some.
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
        self._places = HostPlaces(meter, limits, source, owner, clock)
        self._lock = threading.RLock()
        self._report = Report()
        self._thread = threading.local()
        self._failing = False

    @contextmanager
    def transfer(self, cost: int = 1) -> Iterator[Transfer]:
        """See `Pace.transfer`."""
        charge = self._admit(cost)
        transfer = Transfer(cost)
        with self._places.taken():
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
                # The connector's own trouble with an item, or an end from outside: nothing is known of the host.
                self._answered(transfer, charge, None)
                raise
            self._answered(transfer, charge, self._clock() - began)

    @contextmanager
    def intake(self) -> Iterator[None]:
        """See `Pace.intake`."""
        self._thread.intake = True
        try:
            yield
        finally:
            self._thread.intake = False

    def close(self) -> None:
        """Give back what is held; may be called again."""
        self._places.close()
        # Refunds that cannot be written now are lost; the host is asked less often than it allows.
        with suppress(LedgerUnavailable):
            self._flush()

    # Admission

    def _admit(self, cost: int) -> Charge:
        asked = self._clock()
        while isinstance(taken := self._ask(cost, self._clock() - asked), float):
            self._sleep(taken)
        return taken

    def _ask(self, cost: int, waited: float) -> Charge | float:
        """Take the tokens from the meter, or return the seconds to wait."""
        with self._lock:
            answer = self._take(cost)
            self._failing = answer.failing
            if answer.charge is None:
                patience = RATE_PATIENCE if answer.why == "rate" else PATIENCE
                if answer.why == "breaker" or waited + answer.wait > patience:
                    raise self._not_now(answer)
                return float(answer.wait)
            self.requests += cost
            return answer.charge

    def _finds(self) -> bool:
        """Whether this thread is looking for new work."""
        return getattr(self._thread, "intake", False)

    def _take(self, cost: int) -> Answer:
        report, self._report = self._report, Report()
        ask = Ask(self._limits, self._source, self._owner, cost, self._finds())
        return self._meter.take(ask, report, self._fill)

    def _not_now(self, answer: Answer) -> Exception:
        host = self._limits.host
        if answer.why == "breaker":
            return SourceUnavailable(f"{host}: backed off after repeated failures; see `catchment throttle show`")
        return RateLimited("a throttle" if answer.why == "rule" else host, answer.wait)

    # What became of it

    def _answered(self, transfer: Transfer, charge: Charge, seconds: float | None) -> None:
        with self._lock:
            self._heed(transfer, charge)
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
        transfer.told(RateReport(retry_after=after))
        with self._lock:
            self._report.throttled += 1
            self._heed(transfer, charge)

    def _failed(self, *, login: bool) -> None:
        self._meter.failed(self._limits, self._source, login=login)

    def _heed(self, transfer: Transfer, charge: Charge) -> None:
        if transfer.refunded:
            self._report.refunds.append(charge)
            self.requests -= transfer.cost
        if not transfer.said:
            return
        self._report.said = [*self._report.said[-1:], *transfer.said]
        if any(said.retry_after is not None or _scarce(said) for said in transfer.said):
            # Nobody, in no process, should ask before this is known.
            self._flush()

    def _flush(self) -> None:
        with self._lock:
            report, self._report = self._report, Report()
        if report:
            self._meter.report(self._limits, report)


def _scarce(said: RateReport) -> bool:
    return said.limit is not None and said.remaining is not None and said.remaining * 8 < said.limit
