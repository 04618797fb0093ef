"""Storage of rate limits shared by all processes: buckets, host slots and circuit breakers for `catchment.pacing`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import bindparam, delete, insert, select, update

from catchment.ledger.db.database import AnyRow, Reading, Store, Writing, from_micros
from catchment.ledger.db.monotonic_clock import MonotonicClock
from catchment.ledger.db.schema import buckets, sources
from catchment.ledger.limits import breakers, host_slots, throttles
from catchment.ledger.limits.breakers import BreakerRow
from catchment.pacing.adaptive import EVERY, Adaptive
from catchment.pacing.bucket import HOUR, TOKEN, Bucket, Budget
from catchment.pacing.limits import HostLimits
from catchment.pacing.metered import Answer, Ask, Charge, Report
from catchment.pacing.waits import Wait, WaitKind
from catchment.runtime import process
from catchment.telemetry.catalogue import LIMITED

_PER_SECOND = 1_000
"""A bucket with seconds between two requests is stored with them, in thousandths and negative, in place of its rate."""
# Built once: each request executes them, and building them takes longer.
_STORED = select(buckets).where(buckets.c.key == bindparam("its"))
_CHANGED = update(buckets).where(buckets.c.key == bindparam("its"))


@dataclass(frozen=True, slots=True)
class BucketRow:
    """State of a host's bucket. `left` of `allowed` requests remain until `until`. Times are aware UTC.

    `is_one_of_many`: only sources with many hosts send requests to it, so that its pause stops none of them.
    """

    key: str
    rate: float
    burst: int
    tokens: float
    multiplier: float
    not_before: datetime | None
    allowed: int | None
    left: int | None
    until: datetime | None
    is_one_of_many: bool = False


class Pacing:
    """Implements `catchment.pacing.metered.Meter`. `alive` returns whether a process is still running."""

    def __init__(self, store: Store, monotonic: MonotonicClock, alive: Callable[[str], bool] = process.alive) -> None:
        self._store = store
        self._monotonic = monotonic
        self._alive = alive

    # Requests

    def take(self, ask: Ask, report: Report, fill: Callable[[], float] | None) -> Answer:
        """Apply the report, then grant the requests if tokens are available. One transaction."""
        with self._store.write() as writing:
            now = self._monotonic.now(writing)
            rule = throttles.rule_of(writing, ask.source)
            if (until := throttles.blocked_until(rule, writing.now)) is not None:
                self._apply(writing, ask.limits, report, now)
                _count(writing, ask.source, "rule")
                return Answer(None, (until - writing.now) / TOKEN, "rule")
            limits = rule.on(ask.limits)
            bucket, adaptive = self._apply(writing, limits, report, now)
            if now - adaptive.since >= EVERY:
                adaptive = adaptive.judged(now, fill() if fill else None)
            keys = _breakers_of(ask.source if ask.is_only_host else None, limits)
            wait, failing = breakers.ask(writing, now, keys, ask.owner, self._alive)
            if wait is not None:
                _save(writing, limits, bucket, adaptive)
                _count(writing, ask.source, "breaker")
                return Answer(None, wait / TOKEN, "breaker")
            price = adaptive.price(intake=ask.intake)
            bucket, grant = bucket.take(ask.cost, price, _rate(limits, adaptive), limits.burst)
            _save(writing, limits, bucket, adaptive)
            if grant.number:
                return Answer(Charge(grant.number, price, grant.until), failing=failing)
            why = "rate" if grant.of_rate else "host"
            _count(writing, ask.source, why)
            return Answer(None, ((grant.until or now) - now) / TOKEN, why, failing)

    def report(self, limits: HostLimits, report: Report) -> None:
        """Apply the report."""
        with self._store.write() as writing:
            _save(writing, limits, *self._apply(writing, limits, report, self._monotonic.now(writing)))

    def _apply(self, writing: Writing, limits: HostLimits, report: Report, now: int) -> tuple[Bucket, Adaptive]:
        bucket, adaptive = _load(writing, limits, now)
        bucket = bucket.settled(now, _rate(limits, adaptive), limits.burst)
        for charge in report.refunds:
            bucket = bucket.put_back(charge.number, charge.price, limits.burst, charge.window)
        for rates in report.rates:
            bucket = bucket.reported(rates)
        if report.throttled:
            _count(writing, report.source, "host", report.throttled)
        return bucket, adaptive.noted(report.answers, report.slow, report.throttled)

    def room(self, limits: HostLimits) -> tuple[int | None, datetime | None]:
        """Return the host's remaining requests in this hour (None: unlimited), and the end of the wait if there are none."""
        with self._store.read() as reading:
            bucket, _ = _load(reading, limits, self._monotonic.now(reading))
            wait = self._bucket_wait(reading, limits)
            left = bucket.settled(self._monotonic.now(reading), 0, limits.burst).budget
            return (0, wait.until) if wait else (left.left if left else None, None)

    # Host slots

    def ask(self, limits: HostLimits, source: str, owner: str) -> tuple[int, bool]:
        """Request a slot for this source. Return the ticket and whether the slot was granted."""
        with self._store.write() as writing:
            at_once = throttles.rule_of(writing, source).on(limits).at_once
            return host_slots.ask(writing, limits.host, at_once, owner, self._alive)

    def granted(self, ticket: int) -> bool:
        """Return whether the slot was granted. Writes only if a process died."""
        with self._store.read() as reading:
            held = host_slots.check(reading, ticket, self._alive)
        if held is None:
            with self._store.write() as writing:
                held = host_slots.reclaim_and_check(writing, ticket, self._alive)
        return held

    def wanted(self, host: str) -> bool:
        """Return whether another process is waiting for a slot."""
        with self._store.read() as reading:
            return any(not entry.held for entry in host_slots.entries(reading, host))

    def release(self, ticket: int) -> None:
        """Release a slot or cancel the request. Idempotent."""
        with self._store.write() as writing:
            host_slots.release(writing, ticket)

    # Breakers

    def failed(self, limits: HostLimits, source: str | None, *, login: bool) -> None:
        """Record a failure of the host, and of the source if one is given. A refused login is a failure of the source only."""
        with self._store.write() as writing:
            now = self._monotonic.now(writing)
            if source is not None:
                breakers.failed(writing, now, breakers.of_source(source), login=login)
            if login:
                breakers.succeeded(writing, now, breakers.of_host(limits.host))
            else:
                breakers.failed(writing, now, breakers.of_host(limits.host))

    def succeeded(self, limits: HostLimits, source: str | None) -> None:
        """Record a successful response after failures."""
        with self._store.write() as writing:
            now = self._monotonic.now(writing)
            for key in _breakers_of(source, limits):
                breakers.succeeded(writing, now, key)

    def reset(self, key: str, actor: str, reason: str = "") -> bool:
        """Reset a breaker, given its key ("source:NAME" or "host:HOST"). Return whether it had failures."""
        with self._store.write() as writing:
            return breakers.reset(writing, key, actor, reason)

    def purge(self) -> int:
        """Delete hosts without requests for two days and without a pause, with their breakers. Returns their number.

        A breaker stays open for a day at most, so a breaker that is still probed is kept.
        """
        with self._store.write() as writing:
            now = self._monotonic.now(writing)
            rested = (buckets.c.at < now - 48 * HOUR) & (buckets.c.not_before < now)
            keys = list(writing.execute(delete(buckets).where(rested).returning(buckets.c.key)).scalars())
            breakers.forget(writing, {key.partition("#")[0] for key in keys})
            return len(keys)

    # Status

    def not_before(self, source: str, limits: HostLimits | None, owner: str) -> Wait | None:
        """Return why a sync of this source must wait, and until when; None if it may start.

        If a breaker is half open, `owner` becomes the prober.
        """
        with self._store.read() as reading:
            open_breakers = self._open_breakers(reading, source, limits)
            if not open_breakers and self._bucket_wait(reading, limits) is None:
                return None
        with self._store.write() as writing:
            now = self._monotonic.now(writing)
            wait, _ = breakers.ask(writing, now, _breakers_of(source, limits), owner, self._alive)
            if wait is not None:
                _count(writing, source, "breaker")
                if any(row.locked for row in open_breakers):
                    return WaitKind.LOGIN.of(source)
                of_host = any(row.key == breakers.of_host(limits.host) for row in open_breakers) if limits else False
                kind = WaitKind.HOST_FAILURES if of_host else WaitKind.FAILURES
                return kind.of(source, from_micros(writing.now + wait))
            if (pause := self._bucket_wait(writing, limits)) is not None:
                _count(writing, source, "host")
                return pause.kind.of(source, pause.until)
            return None

    def breakers(self) -> list[BreakerRow]:
        """Return all circuit breakers with failures."""
        with self._store.read() as reading:
            return breakers.every(reading, self._monotonic.now(reading), self._monotonic)

    def places(self) -> list[host_slots.SlotEntry]:
        """Return all transfers that hold or await a slot."""
        with self._store.read() as reading:
            return host_slots.entries(reading)

    def buckets(self) -> list[BucketRow]:
        """Return the buckets of all hosts requested so far."""
        with self._store.read() as reading:
            now = self._monotonic.now(reading)
            return [self._row(reading, row, now) for row in reading.execute(select(buckets).order_by(buckets.c.key))]

    def _open_breakers(self, reading: Reading, source: str, limits: HostLimits | None) -> list[BreakerRow]:
        keys = _breakers_of(source, limits)
        rows = breakers.every(reading, self._monotonic.now(reading), self._monotonic)
        return [row for row in rows if row.key in keys and row.opened]

    def _bucket_wait(self, reading: Reading, limits: HostLimits | None) -> Wait | None:
        if limits is None:
            return None
        now = self._monotonic.now(reading)
        bucket, _ = _load(reading, limits, now)
        bucket = bucket.settled(now, 0, limits.burst)
        _, grant = bucket.take(1, TOKEN, 1, limits.burst)
        if grant.number or grant.of_rate or grant.until is None:
            return None
        kind = WaitKind.HOST_PAUSE if bucket.not_before > now else WaitKind.HOST_QUOTA
        return kind.of(limits.host, self._monotonic.moment(grant.until, reading))

    def _row(self, reading: Reading, row: AnyRow, now: int) -> BucketRow:
        bucket, adaptive = _of_row(row)
        rate = row.rate if row.rate > 0 else -_PER_SECOND / row.rate
        bucket = bucket.settled(now, adaptive.rate(row.rate) if row.rate > 0 else rate, row.burst)
        budget = bucket.budget
        until = budget.until if budget else None
        return BucketRow(
            row.key,
            rate,
            row.burst,
            bucket.tokens / TOKEN,
            adaptive.multiplier,
            self._monotonic.moment(bucket.not_before, reading) if bucket.not_before > now else None,
            budget.limit if budget else None,
            budget.left if budget else None,
            self._monotonic.moment(until, reading),
            row.rate < 0,
        )


def _breakers_of(source: str | None, limits: HostLimits | None) -> list[str]:
    own = [] if source is None else [breakers.of_source(source)]
    return own if limits is None else [*own, breakers.of_host(limits.host)]


def _rate(limits: HostLimits, adaptive: Adaptive) -> float:
    """Return the tokens per second. Good answers are no reason to ask sooner than the seconds that a host wants."""
    return adaptive.rate(limits.rate) if limits.every is None else limits.rate


def _count(writing: Writing, source: str, limit: str, times: int = 1) -> None:
    source_id = writing.execute(select(sources.c.id).where(sources.c.name == source)).scalar()
    writing.tally.add(LIMITED, times, source_id or 0, limit=limit)


def _load(reading: Reading, limits: HostLimits, now: int) -> tuple[Bucket, Adaptive]:
    """Return the stored state, or a full bucket for an unknown host."""
    row = reading.execute(_STORED, {"its": limits.key}).first()
    if row is None:
        budget = Budget(limits.per_hour) if limits.per_hour else None
        return Bucket(limits.burst * TOKEN, now, budget=budget), Adaptive(since=now)
    bucket, adaptive = _of_row(row)
    if bucket.budget is None and limits.per_hour:
        bucket = Bucket(bucket.tokens, bucket.at, bucket.not_before, Budget(limits.per_hour))
    return bucket, adaptive


def _of_row(row: AnyRow) -> tuple[Bucket, Adaptive]:
    budget = None if row.allowed is None else Budget(row.allowed, row.used, row.until, row.sure)
    adaptive = Adaptive(row.multiplier, row.since, row.answers, row.slow, row.throttled)
    return Bucket(row.tokens, row.at, row.not_before, budget), adaptive


def _save(writing: Writing, limits: HostLimits, bucket: Bucket, adaptive: Adaptive) -> None:
    budget = bucket.budget or Budget(0)
    values = {
        "tokens": bucket.tokens,
        "at": bucket.at,
        "not_before": bucket.not_before,
        "allowed": budget.limit if bucket.budget else None,
        "used": budget.used,
        "until": budget.until,
        "sure": budget.sure,
        "multiplier": adaptive.multiplier,
        "since": adaptive.since,
        "answers": adaptive.answers,
        "slow": adaptive.slow,
        "throttled": adaptive.throttled,
        "rate": limits.rate if limits.every is None else -max(1, round(limits.every * _PER_SECOND)),
        "burst": limits.burst,
    }
    if not writing.execute(_CHANGED, values | {"its": limits.key}).rowcount:
        writing.execute(insert(buckets).values(key=limits.key, **values))
