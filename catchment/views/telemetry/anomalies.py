"""Anomalies: sources whose figures of the last hours are unusual, compared with the same hours of the weeks before."""

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

HOUR = timedelta(hours=1)
_HOUR_SECONDS = 3_600
_SAMPLES = 45
"""Samples of the queue, of 60, in an hour in which Catchment ran. Other hours have no values: the machine slept."""
_FAILING = 0.1
"""Share of attempts that fail from which failures count. A large import has more failures, too."""

_COUNTED = {"succeeded": "throughput", "retrying": "failures", "quarantined": "failures"}
"""The series to which the outcomes of jobs belong."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A series that is unusual.

    Attributes:
        metric: "throughput" (items an hour, of two hours), "duration" (mean seconds of a sync), "backlog" (jobs) or "failures"
            (failed attempts).
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

    def __str__(self) -> str:
        subject = f"{self.source}: " if self.source else ""
        return f"{subject}{self.metric} is {self.direction}: {self.value:,.3g}, usually {self.baseline:,.3g}"


def anomalies(ledger: Ledger, now: datetime) -> tuple[Anomaly, ...]:
    """Return what was unusual in the last two hours or more, by source. A sum of sources comes first.

    Only whole hours are judged, so the result is computed once an hour. A paused source is not judged.
    """
    return _in_hour(ledger, hour_of(now) - 1)


@lru_cache(maxsize=4)
def _in_hour(ledger: Ledger, hour: int) -> tuple[Anomaly, ...]:
    names = {0: "", **{source.id: source.name for source in ledger.sources.all() if source.state == "active"}}
    return judged(hourly(ledger, time_of(hour + 1), apart=True), names, hour)


def judged(
    series: Mapping[int, Mapping[str, HourlySeries]], names: Mapping[int, str], hour: int
) -> tuple[Anomaly, ...]:
    """Return which series are unusual in an hour. `names`: of the sources to judge, by ID; 0 is the sum of all."""
    return tuple(
        anomaly
        for source_id in sorted(names)
        for one in series.get(source_id, {}).values()
        if (anomaly := _anomaly(one, names[source_id], hour))
    )


def _anomaly(series: HourlySeries, source: str, hour: int) -> Anomaly | None:
    since = series.since(hour)
    if since is None:
        return None
    direction = "high" if series.rule.sign > 0 else "low"
    return Anomaly(series.rule.name, source, direction, time_of(since), series.values[hour], series.usual(hour))


def hourly(
    ledger: Ledger, now: datetime, source_id: int | None = None, *, apart: bool = False
) -> Mapping[int, Mapping[str, HourlySeries]]:
    """Return the series of the last 30 days by source ID and rule; with 0 for all sources, or for the given one.

    `apart`: also each source for itself.
    """
    since = now - timedelta(days=HISTORY_DAYS)
    found: dict[int, dict[str, dict[int, float]]] = defaultdict(lambda: {name: {} for name in RULES})
    for point in ledger.measures.points(QUEUE, since, HOUR, source_id, apart=apart, whole=True):
        if point.figure.n >= _SAMPLES:
            hour = hour_of(point.at)
            for key in {0, point.source_id}:
                values = found[key]
                values["backlog"][hour] = values["backlog"].get(hour, 0.0) + point.figure.total / point.figure.n
                values["throughput"][hour] = values["failures"][hour] = 0.0
    for point in ledger.measures.points(JOBS, since, HOUR, source_id, apart=apart):
        name, hour = _COUNTED.get(point.labels[0], ""), hour_of(point.at)
        for key in {0, point.source_id}:
            if hour in found[key].get(name, ()):
                found[key][name][hour] += point.figure.total
    times: dict[tuple[int, int], Figure] = defaultdict(Figure)
    for point in ledger.measures.points(SYNC_DURATION, since, HOUR, source_id, apart=apart):
        for key in {0, point.source_id} if point.labels[0] == "completed" else ():
            times[key, hour_of(point.at)].add(Figure(point.figure.n, point.figure.total))
    for (key, hour), figure in times.items():
        # The buckets are too wide for a median of four syncs.
        found[key]["duration"][hour] = figure.total / figure.n
    return {
        key: {
            name: HourlySeries(RULES[name], of_rule)
            for name, of_rule in _settled(values, is_sum=not key and source_id is None).items()
        }
        for key, values in found.items()
    }


def _settled(values: dict[str, dict[int, float]], *, is_sum: bool) -> dict[str, dict[int, float]]:
    """Return the values as they are judged."""
    items, failures = values["throughput"], values["failures"]
    for hour, failed in failures.items():
        if failed < _FAILING * (failed + items[hour]):
            failures[hour] = 0.0
    # Two hours, because the changes of a person come in heaps. All sources are idle whenever the person is.
    smooth = {hour: (items[hour] + items[hour - 1]) / 2 for hour in items if hour - 1 in items}
    return {**values, "throughput": {} if is_sum else smooth}


def hour_of(moment: datetime) -> int:
    """Return the hours since 1970."""
    return int(moment.timestamp()) // _HOUR_SECONDS


def time_of(hour: int) -> datetime:
    """Return the time at which an hour begins."""
    return datetime.fromtimestamp(hour * _HOUR_SECONDS, UTC)
