"""When a source will be up to date: what is left, at the pace that was measured, within what its host allows in an hour."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from catchment.ledger import BucketRow, Ledger, Source, SyncRow
from catchment.pacing import Limits

_DONE = ("succeeded", "unchanged", "skipped", "retrying", "quarantined")
_HOUR = timedelta(hours=1)
_LEARNED_FROM = 10


@dataclass(frozen=True, slots=True)
class Pace:
    """What was measured: the seconds and the requests that one job took, all in all."""

    seconds: float
    requests: float

    @classmethod
    def of(cls, jobs: int, seconds: float, requests: int) -> Pace | None:
        """The mean; None where nothing was done yet."""
        return cls(seconds / jobs, requests / jobs) if jobs else None


def learned(syncs: Iterable[SyncRow]) -> Pace | None:
    """The pace of earlier syncs, by all that they did together; None when none of them did anything."""
    jobs, seconds, requests = 0, 0.0, 0
    for one in syncs:
        done = sum(one.summary.get(what, 0) for what in _DONE)
        if one.ended is not None and done:
            jobs += done
            seconds += (one.ended - one.began).total_seconds()
            requests += one.summary.get("requests", 0)
    return Pace.of(jobs, seconds, requests)


def done_at(now: datetime, jobs: int, pace: Pace, budget: BucketRow | None) -> datetime:
    """The moment when so many jobs are done: as fast as before, and not before the host's hours allow the requests."""
    moment = now + timedelta(seconds=jobs * pace.seconds)
    if budget is None:
        return moment
    if budget.not_before is not None:
        moment += max(timedelta(), budget.not_before - now)
    needed = math.ceil(jobs * pace.requests)
    if budget.allowed is None or budget.left is None or needed <= budget.left:
        return moment
    an_hour = max(1, budget.allowed * 90 // 100)
    more_hours, in_the_last = divmod(needed - budget.left - 1, an_hour)
    begins = (budget.until or now + _HOUR) + more_hours * _HOUR
    return max(moment, begins + timedelta(seconds=(in_the_last + 1) / max(pace.requests, 1e-9) * pace.seconds))


def forecast(
    ledger: Ledger, source: Source, limits: Limits | None, now: datetime, so_far: Pace | None = None
) -> datetime | None:
    """When what waits at a source will be done; None when nothing waits, or nothing is known of its pace yet.

    `limits` are its connector's, None where it asks no host; `so_far` is the pace of the sync that runs.
    """
    waiting = ledger.queue.waiting(source.id)
    pace = so_far or learned(ledger.syncs.recent(source.id, _LEARNED_FROM))
    if pace is None or not waiting.ready + waiting.later:
        return None
    budget = next((row for row in ledger.pacing.buckets() if limits and row.key == limits.key), None)
    return done_at(now, waiting.ready + waiting.later, pace, budget)
