"""The rollups of the metrics: figures by minute, merged by and by into longer spans, so that their size is bounded.

Each figure is in exactly one row, so sums over any rows are right, also after they were merged again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from sqlalchemy import Label, func, literal_column, select, text

from catchment.ledger.db.database import ADD_UP, MINUTE, Store, from_micros, to_micros
from catchment.ledger.db.schema import FIGURES, measures, sources
from catchment.telemetry.catalogue import CATALOGUE, Kind, Metric
from catchment.telemetry.tally import Figure, Tally, label_values

_EVER = 0
"""Level of the rows that hold all that is older than any span. Totals need them."""
_HOUR, _DAY = 3_600, 86_400
_LEVELS = ((MINUTE, 3 * _HOUR), (300, 2 * _DAY), (_HOUR, 30 * _DAY), (_DAY, 400 * _DAY), (_EVER, 0))
"""Length of the spans in seconds, and the age in seconds at which they are merged into the next."""
_SAMPLED = tuple(metric.name for metric in CATALOGUE if metric.sampled)
_SUMS = ", ".join(f"sum({name})" for name in FIGURES)
_SUMMED = [func.sum(measures.c[name]) for name in FIGURES]
_DAMAGED = " OR ".join(f"typeof({name}) NOT IN ('integer', 'real') OR {name} < 0" for name in ("at", "level", *FIGURES))
"""SQLite stores any type in any column."""


@dataclass(frozen=True, slots=True)
class Point:
    """The figure of a series in a span of time that begins at `at` (aware)."""

    at: datetime
    labels: tuple[str, ...]
    source_id: int
    figure: Figure


class Measures:
    """The rollups of all metrics."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rolled: dict[int, int] = {}
        """Up to when this process has merged the rows of each level. Saves scans of the table that find no rows."""

    @property
    def tally(self) -> Tally:
        """Counts events outside of transactions. The next transaction of this process stores the counts."""
        return self._store.tally

    def flush(self) -> None:
        """Store the counts. Other transactions do so too."""
        with self._store.write():
            pass

    def totals(self) -> dict[tuple[str, tuple[str, ...], str, str], Figure]:
        """Return the sum of all figures of the counters and histograms, by (metric name, label values, kind, priority).

        Kind and priority are those of the source; "" without one.
        """
        kind, priority = func.coalesce(sources.c.kind, ""), func.coalesce(sources.c.priority, "")
        statement = (
            select(measures.c.metric, measures.c.labels, kind, priority, *_SUMMED)
            .outerjoin(sources, sources.c.id == measures.c.source_id)
            .where(measures.c.metric.not_in(_SAMPLED))
            .group_by(measures.c.metric, measures.c.labels, kind, priority)
        )
        rows = self._store.execute(statement).all()
        return {
            (metric, label_values(labels), its_kind, its_priority): _figure(figures)
            for metric, labels, its_kind, its_priority, *figures in rows
        }

    def points(
        self,
        metric: Metric,
        since: datetime,
        width: timedelta,
        source_id: int | None = None,
        *,
        apart: bool = False,
        whole: bool = False,
    ) -> list[Point]:
        """Return the figures of a metric from `since` on in spans of `width`, ordered by time, series by series.

        Spans without a figure are missing. Figures that were merged into longer spans are at the start of these. For a gauge,
        total / n is the sum of the means of the series that are added up, and n the number of samples.

        `source_id`: of this source alone. `apart`: each source for itself; else they are added up (source ID 0). `whole`: the
        series of all labels are added up (no labels).
        """
        seconds = int(width.total_seconds())
        span: Label[int] = literal_column(f"at / {seconds} * {seconds}").label("span")
        labels = (literal_column("''") if whole else measures.c.labels).label("series")
        source = (measures.c.source_id if apart else literal_column("0")).label("source")
        selected = (measures.c.metric == metric.name) & (
            measures.c.at >= to_micros(since) // 1_000_000 // seconds * seconds
        )
        if source_id is not None:
            selected &= measures.c.source_id == source_id
        keys = text("span"), text("series"), text("source")
        if metric.kind is Kind.GAUGE:
            n = func.sum(measures.c.n)
            means = (
                select(
                    span, labels, source, n.label("n"), (func.sum(measures.c.total) / func.nullif(n, 0)).label("mean")
                )
                .where(selected)
                .group_by(text("span"), measures.c.labels, measures.c.source_id)
                .subquery()
            )
            samples = func.max(means.c.n)
            statement = select(means.c.span, means.c.series, means.c.source, samples, samples * func.sum(means.c.mean))
        else:
            summed = _SUMMED if metric.kind is Kind.HISTOGRAM else _SUMMED[:2]
            statement = select(span, labels, source, *summed).where(selected)
        rows = self._store.execute(statement.group_by(*keys).order_by(*keys)).all()
        return [
            Point(from_micros(at * 1_000_000), label_values(series), source_id, _figure(figures))
            for at, series, source_id, *figures in rows
            if figures[0] > 0
        ]

    def roll(self) -> None:
        """Merge the rows that are old enough into longer spans. Idempotent; the sums do not change.

        At first and once a day, damaged rows are dropped, with a line in the history.
        """
        with self._store.write() as writing:
            now = writing.now // 1_000_000
            until = {
                level: (now - age) // (longer or _DAY) * (longer or _DAY)
                for (level, age), (longer, _) in pairwise(_LEVELS)
            }
            if writing.sqlite and self._rolled.get(_HOUR) != until[_HOUR]:
                dropped = writing.connection.exec_driver_sql(f"DELETE FROM measures WHERE {_DAMAGED}").rowcount
                if dropped:
                    writing.record("measures dropped", actor="ledger", reason=f"{dropped} damaged rows")
            for (level, _), (longer, _) in pairwise(_LEVELS):
                if self._rolled.get(level) == until[level]:
                    continue
                at = f"at / {longer} * {longer}" if longer else "0"
                old = f"FROM measures WHERE level = {level} AND at < {until[level]}"
                writing.connection.exec_driver_sql(
                    f"INSERT INTO measures SELECT metric, labels, source_id, {at} AS span, {longer}, {_SUMS} {old}"
                    f" GROUP BY metric, labels, source_id, span {ADD_UP}"
                )
                writing.connection.exec_driver_sql(f"DELETE {old}")
        self._rolled = until


def _figure(figures: Sequence[float]) -> Figure:
    n, total, *buckets = figures
    return Figure(int(n), float(total), [int(number) for number in buckets])
