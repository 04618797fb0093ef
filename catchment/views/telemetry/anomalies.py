"""Anomalies: sources with unusual figures in the last hours, compared with the same hours of the weeks before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from catchment.ledger import Ledger
from catchment.telemetry.baselines import HISTORY_DAYS, RULES, HourlySeries
from catchment.telemetry.catalogue import JOBS, QUEUE, SYNC_DURATION
from catchment.telemetry.tally import Figure

Hourly = Mapping[int, Mapping[str, HourlySeries]]
"""Series by source ID (0: all sources) and metric."""
HOUR = timedelta(hours=1)
_HOUR_SECONDS = 3_600
_SAMPLES = 45
"""Samples of the queue, of 60, in an hour in which Catchment ran. Other hours have no values: the machine slept."""
_FAILING = 0.1
"""Share of attempts that fail from which failures count. A large import has more failures, too."""

_BUSY = 0.75
"""The person is not away if the other sources store at least this share of their usual number of items."""
_COUNTED = {"succeeded": "throughput", "retrying": "failures", "quarantined": "failures"}
"""The series to which the outcomes of jobs belong."""

_WORDS = {
    "throughput": "the number of stored items",
    "duration": "the time of a sync",
    "backlog": "the backlog",
    "failures": "the number of failures",
}


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A series that is unusual.

    Attributes:
        metric: "throughput" (items an hour, in three hours), "duration" (mean seconds of a sync), "backlog" (jobs) or
            "failures" (failed attempts).
        source: Its name; "" for all sources together.
        direction: "high" or "low".
        since: When it became so.
        value, baseline: The last hour, and the median of the hours with which it is compared.
    """

    metric: str
    source: str
    direction: str
    since: datetime
    value: float
    baseline: float

    @property
    def text(self) -> str:
        """The anomaly in words that do not change while it lasts."""
        return f"{_WORDS[self.metric]} is unusually {self.direction}"


def anomalies(ledger: Ledger, now: datetime) -> tuple[Anomaly, ...]:
    """Return the series that have been unusual for two hours or more, the sum of all sources first.

    Whole hours are judged, so only the first call in an hour reads figures. A paused source is not judged.
    """
    names = {0: "", **{source.id: source.name for source in ledger.sources.all() if source.state == "active"}}
    hour = hour_of(now)
    return judged(_hourly(ledger, hour), names, hour - 1)


def unusual_hours(ledger: Ledger, source_id: int, now: datetime, since: datetime) -> Mapping[str, set[int]]:
    """Return the unusual hours of a source, or of all (0), by metric. As hours since 1970."""
    by_source, until = _hourly(ledger, hour_of(now)), hour_of(now)
    return {
        name: {
            each
            for hour in range(hour_of(since), until)
            if (first := _since(by_source, source_id, name, hour)) is not None
            for each in range(first, hour + 1)
        }
        for name in by_source.get(source_id, ())
    }


def judged(by_source: Hourly, names: Mapping[int, str], hour: int) -> tuple[Anomaly, ...]:
    """Return which series are unusual in an hour. `names`: of the sources to judge, by ID; 0 is the sum of all."""
    return tuple(
        Anomaly(
            name,
            names[source_id],
            "high" if series.rule.sign > 0 else "low",
            time_of(since),
            series.values[hour],
            series.usual(hour),
        )
        for source_id in sorted(names)
        for name, series in by_source.get(source_id, {}).items()
        if (since := _since(by_source, source_id, name, hour)) is not None
    )


def _since(by_source: Hourly, source_id: int, name: str, hour: int) -> int | None:
    """Return the hour since which a series is unusual; None if it is usual, or if a person is away and all sources are idle."""
    series = by_source[source_id][name]
    since = series.since(hour)
    if since is None or series.rule.sign > 0:
        return since
    every = by_source[0][name]
    others, usual = every.values[hour] - series.values[hour], every.usual(hour) - series.usual(hour)
    is_idle = not source_id or (usual > 0 and others < _BUSY * usual)
    return None if is_idle else since


@lru_cache(maxsize=2)
def _hourly(ledger: Ledger, hour: int) -> Hourly:
    return hourly(ledger, time_of(hour))


def hourly(ledger: Ledger, now: datetime) -> Hourly:
    """Return the series of the last 30 days. Takes 0.2 s with ten sources."""
    since = now - timedelta(days=HISTORY_DAYS)
    by_source: dict[int, dict[str, dict[int, float]]] = defaultdict(lambda: {name: {} for name in RULES})
    for point in ledger.measures.points(QUEUE, since, HOUR, apart=True, whole=True):
        if point.figure.n >= _SAMPLES:
            hour = hour_of(point.at)
            for key in {0, point.source_id}:
                values = by_source[key]
                values["backlog"][hour] = values["backlog"].get(hour, 0.0) + point.figure.total / point.figure.n
                values["throughput"][hour] = values["failures"][hour] = 0.0
    for point in ledger.measures.points(JOBS, since, HOUR, apart=True):
        name, hour = _COUNTED.get(point.labels[0], ""), hour_of(point.at)
        for key in {0, point.source_id}:
            if hour in by_source[key].get(name, ()):
                by_source[key][name][hour] += point.figure.total
    times: dict[tuple[int, int], Figure] = defaultdict(Figure)
    for point in ledger.measures.points(SYNC_DURATION, since, HOUR, apart=True):
        for key in {0, point.source_id} if point.labels[0] == "completed" else ():
            times[key, hour_of(point.at)].add(Figure(point.figure.n, point.figure.total))
    for (key, hour), figure in times.items():
        # The buckets are too wide for a median of four syncs.
        by_source[key]["duration"][hour] = figure.total / figure.n
    return {
        key: {name: HourlySeries(RULES[name], of_rule) for name, of_rule in _settled(values).items()}
        for key, values in by_source.items()
    }


def _settled(values: dict[str, dict[int, float]]) -> dict[str, dict[int, float]]:
    """Return the values as they are judged."""
    items, failures = values["throughput"], values["failures"]
    for hour, failed in failures.items():
        if failed < _FAILING * (failed + items[hour]):
            failures[hour] = 0.0
    # Three hours, because people make their changes in bursts.
    smooth = {
        hour: (items[hour] + items[hour - 1] + items[hour - 2]) / 3
        for hour in items
        if hour - 1 in items and hour - 2 in items
    }
    return {**values, "throughput": smooth}


def hour_of(moment: datetime) -> int:
    """Return the hours since 1970."""
    return int(moment.timestamp()) // _HOUR_SECONDS


def time_of(hour: int) -> datetime:
    """Return the time at which an hour begins."""
    return datetime.fromtimestamp(hour * _HOUR_SECONDS, UTC)
