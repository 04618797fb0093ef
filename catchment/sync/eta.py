"""When a source will be up to date: what is left, at the pace that was measured, within what its host allows in an hour."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from catchment.ledger import BucketRow, Ledger, Source
from catchment.pacing import HostLimits

_DONE = ("succeeded", "unchanged", "skipped", "retrying", "quarantined")
_HOUR = timedelta(hours=1)
_LEARNED_FROM = 10
_STEADIED_BY = 100
"""What earlier syncs did counts as so many jobs of the one that runs: its first hundred say less, the rest says more."""


@dataclass(frozen=True, slots=True)
class MeasuredPace:
    """What was measured: the seconds and the requests that one job took, all in all, and over how many jobs."""

    seconds: float
    requests: float
    jobs: int = 1

    @classmethod
    def of(cls, jobs: int, seconds: float, requests: int) -> MeasuredPace | None:
        """The mean; None where nothing was done yet."""
        return cls(seconds / jobs, requests / jobs, jobs) if jobs else None

    def after(self, earlier: MeasuredPace | None) -> MeasuredPace:
        """This pace, where a sync has just begun steadied by what earlier ones have taught."""
        if earlier is None:
            return self
        weight = min(earlier.jobs, _STEADIED_BY)
        jobs = self.jobs + weight
        seconds = (self.seconds * self.jobs + earlier.seconds * weight) / jobs
        return MeasuredPace(seconds, (self.requests * self.jobs + earlier.requests * weight) / jobs, jobs)


def learned(ledger: Ledger, source: Source) -> MeasuredPace | None:
    """The pace of the last syncs of a source, by all that they did together; None when none of them did anything."""
    jobs, seconds, requests = 0, 0.0, 0
    for one in ledger.syncs.recent(source.id, _LEARNED_FROM):
        done = sum(one.summary.get(what, 0) for what in _DONE)
        if one.ended is not None and done:
            jobs += done
            seconds += (one.ended - one.began).total_seconds()
            requests += one.summary.get("requests", 0)
    return MeasuredPace.of(jobs, seconds, requests)


def budget_of(ledger: Ledger, limits: HostLimits | None) -> BucketRow | None:
    """What a host says that it allows; None where no host is asked, or it has not been asked yet."""
    return next((row for row in ledger.pacing.buckets() if limits and row.key == limits.key), None)


def done_at(now: datetime, jobs: int, pace: MeasuredPace, budget: BucketRow | None) -> datetime:
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
    ledger: Ledger,
    source: Source,
    limits: HostLimits | None,
    now: datetime,
    so_far: MeasuredPace | None = None,
    at_work: int = 0,
) -> datetime | None:
    """When what is ready at a source will be done; None when nothing is, or nothing is known of its pace yet.

    `limits` are its connector's, None where it asks no host; `so_far` is the pace of the sync that runs, and `at_work` the
    jobs that it is at.
    """
    jobs = ledger.queue.waiting(source.id).ready + at_work
    earlier = learned(ledger, source)
    pace = so_far.after(earlier) if so_far else earlier
    if pace is None or not jobs:
        return None
    return done_at(now, jobs, pace, budget_of(ledger, limits))
