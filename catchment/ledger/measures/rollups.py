"""The rollups of the metrics: figures by minute, merged by and by into longer spans, so that their size is bounded.

Each figure is in exactly one row, so sums over any rows are right, also after they were merged again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from sqlalchemy import Integer, cast, func, select, text

from catchment.ledger.db.database import ADD_UP, MINUTE, Store, from_micros, to_micros
from catchment.ledger.db.schema import BUCKETS, measures, sources
from catchment.telemetry.catalogue import Metric
from catchment.telemetry.tally import Figure, Tally

_EVER = 0
"""Level of the rows that hold all that is older than any span. Totals need them."""
_LEVELS = ((MINUTE, 3 * 3_600), (300, 2 * 86_400), (3_600, 30 * 86_400), (86_400, 400 * 86_400), (_EVER, 0))
"""Length of the spans in seconds, and the age in seconds at which they are merged into the next."""
_SUMS = ", ".join(f"sum({name})" for name in ("n", "total", *BUCKETS))


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

    @property
    def tally(self) -> Tally:
        """Counts what happens outside of transactions. The next transaction of this process stores it."""
        return self._store.tally

    def flush(self) -> None:
        """Store what was counted. Other transactions do so too."""
        with self._store.write():
            pass

    def totals(self) -> dict[tuple[str, tuple[str, ...], str, str], Figure]:
        """Return the sum of all figures by (metric name, label values, kind of source, priority); "" without a source."""
        kind, priority = func.coalesce(sources.c.kind, ""), func.coalesce(sources.c.priority, "")
        statement = (
            select(measures.c.metric, measures.c.labels, kind, priority, *_summed())
            .outerjoin(sources, sources.c.id == measures.c.source_id)
            .group_by(measures.c.metric, measures.c.labels, kind, priority)
        )
        with self._store.read() as reading:
            rows = reading.execute(statement).all()
        return {
            (metric, _values(labels), its_kind, its_priority): _figure(figures)
            for metric, labels, its_kind, its_priority, *figures in rows
        }

    def points(
        self, metric: Metric, since: datetime, width: timedelta, source_id: int | None = None, *, apart: bool = False
    ) -> list[Point]:
        """Return the figures of a metric from `since` on in spans of `width`, ordered by time, series by series.

        Spans without a figure are missing. Figures that were merged into longer spans are at the start of these.
        `source_id`: of this source alone. `apart`: each source for itself; else they are added up (source ID 0).
        """
        seconds = int(width.total_seconds())
        at = cast(measures.c.at / seconds, Integer) * seconds
        source = measures.c.source_id if apart else cast(0, Integer)
        statement = (
            select(at.label("span"), measures.c.labels, source.label("source"), *_summed())
            .where(
                measures.c.metric == metric.name, measures.c.at >= to_micros(since) // 1_000_000 // seconds * seconds
            )
            .group_by(text("span"), measures.c.labels, text("source"))
            .order_by(text("span"), measures.c.labels, text("source"))
        )
        if source_id is not None:
            statement = statement.where(measures.c.source_id == source_id)
        with self._store.read() as reading:
            rows = reading.execute(statement).all()
        return [
            Point(from_micros(span * 1_000_000), _values(labels), source, _figure(figures))
            for span, labels, source, *figures in rows
        ]

    def roll(self) -> None:
        """Merge the rows that are old enough into longer spans. Idempotent; the sums do not change."""
        with self._store.write() as writing:
            for (level, kept), (longer, _) in pairwise(_LEVELS):
                until = (writing.now // 1_000_000 - kept) // (longer or level) * (longer or level)
                at = f"at / {longer} * {longer}" if longer else "0"
                old = f"FROM measures WHERE level = {level} AND at < {until}"
                writing.connection.exec_driver_sql(
                    f"INSERT INTO measures SELECT metric, labels, source_id, {at} AS span, {longer}, {_SUMS} {old}"
                    f" GROUP BY metric, labels, source_id, span {ADD_UP}"
                )
                writing.connection.exec_driver_sql(f"DELETE {old}")


def _summed() -> list[object]:
    return [func.sum(measures.c[name]) for name in ("n", "total", *BUCKETS)]


def _figure(figures: Sequence[float]) -> Figure:
    n, total, *buckets = figures
    return Figure(int(n), float(total), [int(number) for number in buckets])


def _values(labels: str) -> tuple[str, ...]:
    return tuple(part.partition("=")[2] for part in labels.split(",")) if labels else ()
