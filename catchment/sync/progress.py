"""What a sync has done so far, and what went wrong with its items."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from catchment.ledger import FailureInfo


@dataclass
class Progress:
    """What a sync has done so far; every figure only grows."""

    listed: int = 0
    moved: int = 0
    deleted: int = 0
    held: int = 0
    jobs: int = 0
    read: int = 0
    parsed: int = 0
    reused: int = 0
    succeeded: int = 0
    unchanged: int = 0
    skipped: int = 0
    retrying: int = 0
    quarantined: int = 0
    left: int = 0
    """Items that are not as they were planned, and were left to the next sync."""
    masked: int = 0
    """New documents in which secrets were masked."""
    caches_thrown_away: int = 0
    """Damaged files of the cache that were replaced by an empty one; what was in them is read again."""
    requests: int = 0
    """Those that a host was asked, for sources that ask one."""

    def summary(self) -> dict[str, int]:
        """The figures by name."""
        return dict(vars(self))

    def done(self) -> int:
        """Jobs that came to an end, good or bad, or are left to a later sync."""
        return self.succeeded + self.unchanged + self.skipped + self.retrying + self.quarantined

    def share(self) -> float:
        """How much of the jobs found so far is done, from 0 to 1."""
        return min(1.0, self.done() / self.jobs) if self.jobs else 0.0

    def sentence(self) -> str:
        """What the sync did, in a few words for a person."""
        figures = {
            "added or updated": self.succeeded,
            "moved": self.moved,
            "deleted": self.deleted,
            "deletions held": self.held,
            "unchanged": self.unchanged,
            "skipped": self.skipped,
            "with secrets masked": self.masked,
            "waiting for a retry": self.retrying,
            "quarantined": self.quarantined,
            "changed since the plan, left for the next sync": self.left,
            "damaged caches replaced": self.caches_thrown_away,
        }
        return ", ".join(f"{n} {what}" for what, n in figures.items() if n) or "nothing to do"


@dataclass(frozen=True, slots=True)
class Trouble:
    """An item that left its batch: why, and when it may be tried again (None: it is in quarantine)."""

    job_id: int
    attempt: int
    failure: FailureInfo
    retry_at: datetime | None

    def waits(self, at_most: float) -> float | None:
        """Seconds until it may be tried again, if that is no more than `at_most`; None when it is longer, or never."""
        if self.retry_at is None:
            return None
        seconds = max(0.0, (self.retry_at - datetime.now(UTC)).total_seconds())
        return seconds if seconds <= at_most else None
