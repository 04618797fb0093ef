"""Trends: the work of the last hour, day or month, in equal steps of time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from catchment.ledger import Ledger, Point
from catchment.telemetry.baselines import quantile
from catchment.telemetry.catalogue import JOBS, QUEUE, SAVE_TO_FOUND, SYNC_DURATION, Metric
from catchment.views.telemetry.anomalies import time_of, unusual_hours

Values = tuple[float | None, ...]


class TrendRange(StrEnum):
    """How far back a trend goes."""

    HOUR = "1h"
    DAY = "24h"
    MONTH = "30d"


_STEPS = {
    TrendRange.HOUR: (timedelta(minutes=1), 60),
    TrendRange.DAY: (timedelta(hours=1), 24),
    TrendRange.MONTH: (timedelta(days=1), 30),
}
"""Length and number of the steps. The last one is not over yet."""


@dataclass(frozen=True, slots=True)
class Trend:
    """A trend.

    Attributes:
        name: "throughput", "duration", "latency", "backlog", "failures" or "retries".
        unit: "items", "s", "jobs" or "attempts".
        values: One for each step; None without a figure. Of times, the 95th percentile.
        half: Of times, the median; empty for others.
        unusual: The steps with an anomaly, by index.
    """

    name: str
    unit: str
    values: Values
    half: Values = ()
    unusual: tuple[int, ...] = ()

    @property
    def known(self) -> list[float]:
        """The values that are known."""
        return [value for value in self.values if value is not None]


@dataclass(frozen=True, slots=True)
class Trends:
    """The trends of a source, or of all (None). `steps`: when each step begins, UTC."""

    range: TrendRange
    source: str | None
    steps: tuple[datetime, ...]
    trends: tuple[Trend, ...]


def trends(ledger: Ledger, chosen: TrendRange, source: str | None, now: datetime) -> Trends:
    """Return the trends of a source or of all. Raises NotFound."""
    source_id = ledger.sources.get(source).id if source else None
    width, number = _STEPS[chosen]
    seconds = int(width.total_seconds())
    last = datetime.fromtimestamp(int(now.timestamp()) // seconds * seconds, UTC)
    steps = tuple(last - width * (number - 1 - index) for index in range(number))
    unusual = _unusual(ledger, source_id or 0, now, steps, width) if chosen is not TrendRange.HOUR else {}

    def points(metric: Metric) -> list[Point]:
        return ledger.measures.points(metric, steps[0], width, source_id, whole=metric is QUEUE)

    def counts(*outcomes: str) -> Values:
        numbers: dict[datetime, float] = defaultdict(float)
        for point in jobs:
            if point.labels[0] in outcomes:
                numbers[point.at] += point.figure.total
        return tuple(numbers[step] for step in steps)

    def times(metric: Metric, name: str, is_counted: Callable[[Point], bool] = lambda _: True) -> Trend:
        buckets = {point.at: point.figure.buckets for point in points(metric) if is_counted(point)}
        most, half = (tuple(quantile(buckets.get(step, ()), share) for step in steps) for share in (0.95, 0.5))
        return Trend(name, "s", most, half, unusual.get(name, ()))

    jobs = points(JOBS)
    queue = {point.at: point.figure.total / point.figure.n for point in points(QUEUE)}
    return Trends(
        chosen,
        source,
        steps,
        (
            Trend("throughput", "items", counts("succeeded"), (), unusual.get("throughput", ())),
            times(SYNC_DURATION, "duration", lambda point: point.labels[0] == "completed"),
            times(SAVE_TO_FOUND, "latency"),
            Trend("backlog", "jobs", tuple(queue.get(step) for step in steps), (), unusual.get("backlog", ())),
            Trend("failures", "attempts", counts("retrying", "quarantined"), (), unusual.get("failures", ())),
            Trend("retries", "attempts", counts("retrying")),
        ),
    )


def _unusual(
    ledger: Ledger, source_id: int, now: datetime, steps: tuple[datetime, ...], width: timedelta
) -> dict[str, tuple[int, ...]]:
    """Return the steps with an unusual hour, by name of the trend."""
    hours_by_name = unusual_hours(ledger, source_id, now, steps[0])
    places = {name: {(time_of(hour) - steps[0]) // width for hour in hours} for name, hours in hours_by_name.items()}
    return {name: tuple(sorted(each for each in indexes if each >= 0)) for name, indexes in places.items()}
