"""ETA of a source: remaining jobs at the measured pace, within the hourly budget of its host."""

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
"""Maximum weight of earlier syncs, in jobs. After its first hundred jobs, the current sync dominates the average."""


@dataclass(frozen=True, slots=True)
class MeasuredPace:
    """Mean seconds and requests per job, and the number of jobs measured."""

    seconds: float
    requests: float
    jobs: int = 1

    @classmethod
    def of(cls, jobs: int, seconds: float, requests: int) -> MeasuredPace | None:
        """Return the mean, or None without any job."""
        return cls(seconds / jobs, requests / jobs, jobs) if jobs else None

    def after(self, earlier: MeasuredPace | None) -> MeasuredPace:
        """Return the mean of this pace and an earlier one, weighted by jobs, to smooth the start of a sync."""
        if earlier is None:
            return self
        weight = min(earlier.jobs, _STEADIED_BY)
        jobs = self.jobs + weight
        seconds = (self.seconds * self.jobs + earlier.seconds * weight) / jobs
        return MeasuredPace(seconds, (self.requests * self.jobs + earlier.requests * weight) / jobs, jobs)


def mean_pace(ledger: Ledger, source: Source) -> MeasuredPace | None:
    """Return the mean pace of a source's recent syncs, or None if they processed no jobs."""
    jobs, seconds, requests = 0, 0.0, 0
    for sync in ledger.syncs.recent(source.id, _LEARNED_FROM):
        processed = sum(sync.summary.get(name, 0) for name in _DONE)
        if sync.ended is not None and processed:
            jobs += processed
            seconds += (sync.ended - sync.began).total_seconds()
            requests += sync.summary.get("requests", 0)
    return MeasuredPace.of(jobs, seconds, requests)


def budget_of(ledger: Ledger, limits: HostLimits | None) -> BucketRow | None:
    """Return the budget reported by the host, or None without a host or a report."""
    return next((row for row in ledger.pacing.buckets() if limits and row.key == limits.key), None)


def completion_time(now: datetime, jobs: int, pace: MeasuredPace, budget: BucketRow | None) -> datetime:
    """Return the completion time of `jobs` jobs at this pace, within the host's hourly budget."""
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


def estimate(
    ledger: Ledger,
    source: Source,
    limits: HostLimits | None,
    now: datetime,
    so_far: MeasuredPace | None = None,
    at_work: int = 0,
) -> datetime | None:
    """Return the ETA of a source, or None if no job is ready or no pace is known.

    Args:
        limits: The host's limits, or None if the connector uses no host.
        so_far: Pace of the current sync.
        at_work: Number of jobs it is processing.
    """
    jobs = ledger.queue.waiting(source.id).ready + at_work
    earlier = mean_pace(ledger, source)
    pace = so_far.after(earlier) if so_far else earlier
    if pace is None or not jobs:
        return None
    return completion_time(now, jobs, pace, budget_of(ledger, limits))
