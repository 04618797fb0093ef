"""`python -m benchmarks.rollups [DAYS]`: the size of a year of figures of ten sources, and how long it takes to use them.

Ten sources sync every 15 minutes, with failures and retries, and the gauges are stored every minute. Rows of hours and days are
the same however fine the spans of their figures were, so only the last two days have spans of five minutes, and
the last three hours minute by minute.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from benchmarks.system import empty
from catchment.ledger import Ledger
from catchment.model import Priority
from catchment.telemetry import catalogue
from catchment.telemetry.catalogue import CATALOGUE, QUEUE, SYNC_DURATION, Kind
from catchment.telemetry.objectives import OBJECTIVES
from catchment.telemetry.tally import Tally
from catchment.views.telemetry import anomalies, trends
from catchment.views.telemetry.objectives import objectives
from catchment.views.telemetry.trends import TrendRange

_START = 1_767_571_200
_DAY, _HOUR, _MINUTE = 86_400, 3_600, 60
_SOURCES = 10
_USUAL = {
    catalogue.JOBS.name: ("succeeded", "retrying"),
    catalogue.SYNC_DURATION.name: ("completed",),
    catalogue.FAILURES.name: ("timeout",),
    catalogue.RETRY_DELAY.name: ("timeout",),
    catalogue.RECOVERED.name: ("timeout",),
    catalogue.LIMITED.name: ("rate",),
}
"""The values of the first label that occur; of the other metrics, all."""


def main(days: int = 365) -> None:
    """Fill a ledger, and print the figures."""
    with empty("rollups") as place:
        now = float(_START)
        ledger = Ledger.open(f"sqlite:///{place / 'ledger.db'}", clock=lambda: now)
        sources = [ledger.sources.put(f"source-{n}", "imap", Priority.NORMAL).id for n in range(_SOURCES)]
        ledger.measures.roll()
        before = (place / "ledger.db").stat().st_size
        end, longest = _START + days * _DAY, 0.0
        while now < end:
            step = _HOUR if now < end - 2 * _DAY else 5 * _MINUTE if now < end - 3 * _HOUR else _MINUTE
            for source in sources:
                _count(ledger.measures.tally, source, samples=step // _MINUTE, is_syncing=not now % (15 * _MINUTE))
            now += step
            ledger.measures.flush()
            if not now % (_DAY if step == _HOUR else 5 * _MINUTE):
                longest = max(longest, _seconds(ledger.measures.roll))
        ledger.close()
        with sqlite3.connect(place / "ledger.db") as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            for level, rows in database.execute("SELECT level, count(*) FROM measures GROUP BY level ORDER BY level"):
                print(f"{rows:9,} rows of {timedelta(seconds=level)}")
        size = (place / "ledger.db").stat().st_size - before
        print(f"{size / 1e6:9.1f} MB in {days} days")
        ledger = Ledger.open(f"sqlite:///{place / 'ledger.db'}", clock=lambda: now)
        _print_times(ledger, datetime.fromtimestamp(now, UTC), longest)
        ledger.close()


def _print_times(ledger: Ledger, now: datetime, longest: float) -> None:
    measures = ledger.measures
    print(f"{1_000 * longest:9.0f} ms  longest roll of a day")
    timed: dict[str, Callable[[], object]] = {
        "first roll of a process": measures.roll,
        "roll without anything to do": measures.roll,
        "totals": measures.totals,
        "points of a day in spans of 5 minutes": lambda: measures.points(
            SYNC_DURATION, now - timedelta(days=1), timedelta(minutes=5)
        ),
        "points of the queues in 30 days, by source": lambda: measures.points(
            QUEUE, now - timedelta(days=30), timedelta(hours=1), apart=True, whole=True
        ),
        "objectives": lambda: objectives(ledger, OBJECTIVES, now),
        "anomalies, once an hour": lambda: anomalies.anomalies(ledger, now),
        "anomalies otherwise": lambda: anomalies.anomalies(ledger, now),
        "trends of 24 hours": lambda: trends.trends(ledger, TrendRange.DAY, None, now),
    }
    for name, function in timed.items():
        print(f"{1_000 * _seconds(function):9.1f} ms  {name}")


def _count(tally: Tally, source: int, *, samples: int, is_syncing: bool) -> None:
    for metric in CATALOGUE:
        if not metric.of_source or not (metric.sampled if metric.kind is Kind.GAUGE else is_syncing):
            continue
        first, *others = metric.labels or {"": ()}
        for value in _USUAL.get(metric.name, metric.labels.get(first, ("",))):
            labels = {first: value} if metric.labels else {}
            labels |= {name: metric.labels[name][0] for name in others}
            tally.add(metric, 3.0, source, times=samples if metric.kind is Kind.GAUGE else 1, **labels)


def _seconds(function: Callable[[], object]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 365)
