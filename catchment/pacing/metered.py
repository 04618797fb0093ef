"""The pace of one source in one process: requests are taken from the shared bucket in small lots, places from the host's few.

All that is shared is behind `Meter`. What a killed process had taken is lost, never doubled; its places are taken back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from catchment.errors import LedgerUnavailable, LoginFailed, RateLimited, SourceUnavailable
from catchment.pacing.host_slots import HostPlaces, Slots
from catchment.pacing.limits import Limits, Told
from catchment.pacing.pace import Pace, Transfer

PATIENCE = 5.0
"""When the host or a rule says "later", a transfer waits so many seconds; more is left to a later sync."""
RATE_PATIENCE = 120.0
"""For the bucket it waits longer, because that fills all the time and others may be quicker to take from it."""
_LOTS_PER_SECOND = 4
_LOT_SECONDS = 1.0
"""What was taken and not used for so long is given back."""
_WATCH_SECONDS = 0.05


@dataclass
class Report:
    """What happened since the last time the meter was asked."""

    answers: int = 0
    slow: int = 0
    throttled: int = 0
    said: list[Told] = field(default_factory=list)
    back: list[Lot] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.answers or self.throttled or self.said or self.back)


@dataclass(frozen=True, slots=True)
class Lot:
    """Requests that were granted at a price, for a window of the budget."""

    number: int
    price: int = 0
    window: int | None = None

    def with_more(self, number: int) -> Lot:
        """The same with so many more, or fewer."""
        return replace(self, number=self.number + number)


@dataclass(frozen=True, slots=True)
class Ask:
    """What a source wants of its host: from `cost` to `most` requests, to find new work (`intake`) or to drain."""

    limits: Limits
    source: str
    owner: str
    cost: int
    most: int
    intake: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """A lot, or the seconds to wait and why: `rate`, `host` (it said so, or its budget is used up) or `breaker`.

    (`rule`: the operator wants it.) `failing` is whether a breaker has failures in it, so that a success is worth telling.
    """

    lot: Lot | None
    wait: float = 0.0
    why: str = ""
    failing: bool = False


class Meter(Slots, Protocol):
    """What all processes share."""

    def take(self, ask: Ask, report: Report, fill: Callable[[], float] | None) -> Answer:
        """Heed the report and grant a lot, if there is one to have."""
        ...

    def report(self, limits: Limits, report: Report) -> None:
        """Heed the report."""
        ...

    def failed(self, limits: Limits, source: str, *, login: bool) -> None:
        """The host failed, or refused the login."""
        ...

    def succeeded(self, limits: Limits, source: str) -> None:
        """The host answers again."""
        ...


class Metered(Pace):
    """The pace of one source under its limits. `fill` says how full the queue is; it is asked every few seconds.

    `clock` gives seconds that never go back, `sleep` waits for some.
    """

    def __init__(
        self,
        meter: Meter,
        limits: Limits,
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
        self._lots = {True: Lot(0), False: Lot(0)}
        """What was taken to find new work, which may cost more, and what to drain the queue."""
        self._until = {True: 0.0, False: 0.0}
        self._report = Report()
        self._thread = threading.local()
        self._failing = False
        self._closed = threading.Event()
        self._watcher: threading.Thread | None = None

    @contextmanager
    def transfer(self, cost: int = 1) -> Iterator[Transfer]:
        """See `Pace.transfer`."""
        self._admit(cost)
        self._watch()
        transfer = Transfer(cost)
        with self._places.taken():
            began = self._clock()
            try:
                yield transfer
            except RateLimited as error:
                self._throttled(transfer, error)
                raise
            except (SourceUnavailable, LoginFailed) as error:
                self._failed(login=isinstance(error, LoginFailed))
                raise
            except BaseException:
                # The connector's own trouble with an item, or an end from outside: nothing is known of the host.
                self._answered(transfer, None)
                raise
            self._answered(transfer, self._clock() - began)

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
        self._closed.set()
        if self._watcher is not None:
            self._watcher.join()
            self._watcher = None
        self._places.close()
        # What cannot be given back now is lost, which is nobody's loss but ours.
        with suppress(LedgerUnavailable):
            self._flush()

    # Admission

    def _admit(self, cost: int) -> None:
        asked = self._clock()
        while (wait := self._ask(cost, self._clock() - asked)) is not None:
            self._sleep(wait)

    def _ask(self, cost: int, waited: float) -> float | None:
        """Take from the lot, or from the meter what it lacks; the seconds to wait, None when it was taken."""
        with self._lock:
            intake = self._finds()
            if self._lots[intake].number < cost or self._clock() > self._until[intake]:
                self._put_aside(intake)
                answer = self._take(cost, intake)
                self._failing = answer.failing
                if answer.lot is None:
                    patience = RATE_PATIENCE if answer.why == "rate" else PATIENCE
                    if answer.why == "breaker" or waited + answer.wait > patience:
                        raise self._not_now(answer)
                    return answer.wait
                self._lots[intake], self._until[intake] = answer.lot, self._clock() + _LOT_SECONDS
            self._lots[intake] = self._lots[intake].with_more(-cost)
            self.requests += cost
            return None

    def _finds(self) -> bool:
        """Whether this thread is looking for new work."""
        return getattr(self._thread, "intake", False)

    def _take(self, cost: int, intake: bool) -> Answer:
        report, self._report = self._report, Report()
        most = max(cost, self._limits.profile.rate // _LOTS_PER_SECOND)
        ask = Ask(self._limits, self._source, self._owner, cost, most, intake)
        return self._meter.take(ask, report, self._fill)

    def _not_now(self, answer: Answer) -> Exception:
        host = self._limits.host
        if answer.why == "breaker":
            return SourceUnavailable(
                f"{host} failed several times in a row and is left alone for a while; see `throttle show`"
            )
        return RateLimited("a throttle" if answer.why == "rule" else host, answer.wait)

    # What became of it

    def _answered(self, transfer: Transfer, seconds: float | None) -> None:
        with self._lock:
            self._heed(transfer)
            if seconds is None:
                return
            self._report.answers += 1
            self._report.slow += seconds > self._limits.slow
            if not self._failing:
                return
            self._failing = False
        self._meter.succeeded(self._limits, self._source)

    def _throttled(self, transfer: Transfer, error: RateLimited) -> None:
        after = self._limits.wait if error.retry_after is None else error.retry_after
        transfer.told(Told(retry_after=after))
        with self._lock:
            self._report.throttled += 1
            self._heed(transfer)

    def _failed(self, *, login: bool) -> None:
        with self._lock:
            # The next transfer asks whether it may still try.
            self._put_aside(*self._lots)
        self._meter.failed(self._limits, self._source, login=login)

    def _heed(self, transfer: Transfer) -> None:
        if transfer.refunded:
            intake = self._finds()
            self._lots[intake] = self._lots[intake].with_more(transfer.cost)
            self.requests -= transfer.cost
        if not transfer.said:
            return
        self._report.said = [*self._report.said[-1:], *transfer.said]
        if any(said.retry_after is not None or _scarce(said) for said in transfer.said):
            # Nobody, in no process, should ask before this is known.
            self._flush()

    def _put_aside(self, *kinds: bool) -> None:
        for intake in kinds:
            lot = self._lots[intake]
            if lot.number > 0:
                self._report.back.append(lot)
                self._lots[intake] = lot.with_more(-lot.number)

    def _flush(self) -> None:
        with self._lock:
            self._put_aside(*self._lots)
            report, self._report = self._report, Report()
        if report:
            self._meter.report(self._limits, report)

    def _watch(self) -> None:
        with self._lock:
            if self._watcher is None and not self._closed.is_set():
                self._watcher = threading.Thread(target=self._give_back_in_time, name="pace", daemon=True)
                self._watcher.start()

    def _give_back_in_time(self) -> None:
        while not self._closed.wait(_WATCH_SECONDS):
            self._places.give_back_unused()
            with self._lock:
                over = any(self._lots[kind].number > 0 and self._clock() > self._until[kind] for kind in self._lots)
            if over:
                # Lost, then; the places have to be looked after still.
                with suppress(LedgerUnavailable):
                    self._flush()


def _scarce(said: Told) -> bool:
    return said.limit is not None and said.remaining is not None and said.remaining * 8 < said.limit
