"""Progress of a sync and the failures of its items."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from catchment.ledger import FailureInfo
from catchment.model import SYNC_FIGURES

NOTHING_TO_DO = "nothing to do"


@dataclass
class Progress:
    """Counters of a sync; they only increase."""

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
    """Items that differ from the plan and were left to the next sync."""
    away: int = 0
    """Hosts that did not answer, of a source with several."""
    masked: int = 0
    """New documents with masked secrets."""
    caches_thrown_away: int = 0
    """Damaged cache files that were replaced. Their content is read again."""
    requests: int = 0
    """Requests to the source's host, if it has one."""

    def summary(self) -> dict[str, int]:
        """Return the figures by name."""
        return dict(vars(self))

    def ended_jobs(self) -> int:
        """Return the number of jobs that ended or were left to a later sync."""
        return self.succeeded + self.unchanged + self.skipped + self.retrying + self.quarantined

    def share(self) -> float:
        """Return the completed fraction of the jobs found so far, 0 to 1."""
        return min(1.0, self.ended_jobs() / self.jobs) if self.jobs else 0.0

    def sentence(self) -> str:
        """Describe the result in a short phrase for display."""
        figures = ((getattr(self, name, 0), words) for name, words in SYNC_FIGURES.items())
        return ", ".join(f"{n} {label}" for n, label in figures if n) or NOTHING_TO_DO


@dataclass(frozen=True, slots=True)
class Trouble:
    """A failed item, removed from its batch. `retry_at` is None if it is quarantined."""

    job_id: int
    attempt: int
    failure: FailureInfo
    retry_at: datetime | None
