"""Retries: number of failed attempts, delay of the next attempt, and result, by kind of source and reason."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta

from catchment.errors import Reason
from catchment.ledger import Ledger
from catchment.telemetry.catalogue import FAILURES, RECOVERED, RETRY_DELAY, Metric
from catchment.telemetry.tally import Figure

_SPAN = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class RetryRow:
    """The retries of a kind of source for a reason, in the last 30 days.

    Attributes:
        failed: Failed attempts.
        delay: Mean seconds until the next attempt; None without one.
        recovered: Items that succeeded after a failed attempt.
        quarantined: Failed attempts that were the last.
        share: Of recovered among recovered and quarantined; None without either.
    """

    kind: str
    reason: Reason
    failed: int
    delay: float | None
    recovered: int
    quarantined: int
    share: float | None


def retries(ledger: Ledger, now: datetime) -> tuple[RetryRow, ...]:
    """Return the kinds and reasons with failed attempts, most first."""
    kinds = {source.id: source.kind for source in ledger.sources.all()}

    def summed(metric: Metric) -> dict[tuple[str, Reason], Figure]:
        figures: dict[tuple[str, Reason], Figure] = defaultdict(Figure)
        for point in ledger.measures.points(metric, now - _SPAN, _SPAN, apart=True):
            # Figures of removed sources remain.
            if point.source_id in kinds:
                figures[kinds[point.source_id], Reason(point.labels[0])].add(Figure(point.figure.n, point.figure.total))
        return figures

    failures, delays, recovered = summed(FAILURES), summed(RETRY_DELAY), summed(RECOVERED)
    rows = []
    for kind, reason in {**failures, **recovered}:
        failed, saved = int(failures[kind, reason].total), int(recovered[kind, reason].total)
        waited = delays[kind, reason].n
        lost = max(0, failed - waited)
        share = saved / (saved + lost) if saved + lost else None
        delay = delays[kind, reason].total / waited if waited else None
        rows.append(RetryRow(kind, reason, failed, delay, saved, lost, share))
    return tuple(sorted(rows, key=lambda row: (-row.failed, row.kind, row.reason)))
