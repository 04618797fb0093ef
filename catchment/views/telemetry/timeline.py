"""The timeline of the syncs: for each source its syncs, its waits and its planned runs, within a span of time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import groupby

from catchment.ledger import FAILED_OUTCOMES, Ledger, Source, SourceState, SyncRow
from catchment.pacing.waits import Wait
from catchment.runtime.home import Home
from catchment.runtime.server_report import PlannedRun, ServerReport
from catchment.views import waits

_MOST_SYNCS = 2_000
_MOST_BARS = 200
_AHEAD = 5
"""The plans are shown for this fraction of the span."""
_FINEST, _COARSEST = 1_024, 8
"""Cells of a lane: those of a pixel, and as few as there may be. Syncs of one kind within a cell are one bar."""
_CHANGES = ("succeeded", "moved", "deleted", "held", "quarantined")


class BarKind(StrEnum):
    """Kind of a bar."""

    CHANGED = "changed"
    NOTHING = "nothing"
    """Syncs without changes."""
    FAILED = "failed"
    RUNNING = "running"
    WAITING = "waiting"
    PLANNED = "planned"


@dataclass(frozen=True, slots=True)
class TimelineBar:
    """A stretch of time in a lane.

    Attributes:
        ended: None if its end is not known.
        sync: The latest of its syncs; None for a wait and for a planned run.
        count: Number of its syncs, which are of one kind.
        changes: Number of items that they added, changed, moved, deleted, held or quarantined.
        why: The reason of a wait or of a planned run.
    """

    kind: BarKind
    began: datetime
    ended: datetime | None
    sync: SyncRow | None = None
    count: int = 0
    changes: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Lane:
    """A source with its bars. `syncs`, `failed`: number of all its syncs in the span, and of those that failed."""

    source: str
    state: SourceState
    syncs: int
    failed: int
    bars: tuple[TimelineBar, ...]
    next_run: PlannedRun | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """The lanes of the sources by name. `since` is later than requested if there were more than 2,000 syncs."""

    since: datetime
    now: datetime
    until: datetime
    lanes: tuple[Lane, ...]


def timeline(ledger: Ledger, home: Home, span: timedelta, source: str | None = None) -> Timeline:
    """Return the timeline of the last `span` of time and a little ahead, of one source or of all. Raises NotFound.

    It has at most about 200 bars for syncs: if there are more, those of one kind that are near each other become one.
    """
    now = ledger.now()
    since, until = now - span, now + span / _AHEAD
    sources = [ledger.sources.get(source)] if source else ledger.sources.all()
    rows = ledger.syncs.recent(sources[0].id if source else None, _MOST_SYNCS, since=since)
    if len(rows) == _MOST_SYNCS:
        since = rows[-1].began
    by_source: dict[int, list[SyncRow]] = {}
    for row in reversed(rows):
        by_source.setdefault(row.source_id, []).append(row)
    drawn = _bars(by_source, since, now)
    report, limits = ServerReport.read(home), waits.of_limits(ledger)
    lanes = []
    for shown_source in sources:
        own = by_source.get(shown_source.id, [])
        state, wait = waits.state_of(shown_source.name, shown_source, report)
        runs = report.coming(shown_source.name, now) if report and state == "active" else []
        planned = [TimelineBar(BarKind.PLANNED, run.at, None, why=run.why) for run in runs if now <= run.at < until]
        waiting = [*_limited(own, now), *_stopped(ledger, shown_source, wait, limits[shown_source.name], now)]
        failed = sum(row.outcome in FAILED_OUTCOMES for row in own)
        bars = (*waiting, *drawn.get(shown_source.id, ()), *planned)
        lanes.append(Lane(shown_source.name, state, len(own), failed, bars, next(iter(runs), None)))
    return Timeline(since, now, until, tuple(lanes))


def _bars(by_source: dict[int, list[SyncRow]], since: datetime, now: datetime) -> dict[int, list[TimelineBar]]:
    """Return the bars of the syncs by source, with cells that are as fine as the number of bars permits."""
    cells = _FINEST
    while True:
        width = (now - since) / cells
        bars = {source: list(_merged(rows, since, width)) for source, rows in by_source.items()}
        if cells == _COARSEST or sum(map(len, bars.values())) <= _MOST_BARS:
            return bars
        cells //= 2


def _merged(rows: Sequence[SyncRow], since: datetime, width: timedelta) -> Iterator[TimelineBar]:
    """Yield a bar for the syncs of each kind in each cell; rows in order of their start."""

    def place(row: SyncRow) -> tuple[BarKind, int]:
        return _kind(row), (row.began - since) // width

    for (kind, _), group in groupby(sorted(rows, key=place), key=place):
        same = list(group)
        ended = None if kind is BarKind.RUNNING else max(row.ended or row.began for row in same)
        changes = sum(row.summary.get(name, 0) for row in same for name in _CHANGES)
        yield TimelineBar(kind, same[0].began, ended, same[-1], len(same), changes)


def _kind(row: SyncRow) -> BarKind:
    if row.outcome is None:
        return BarKind.RUNNING
    if row.outcome in FAILED_OUTCOMES:
        return BarKind.FAILED
    return BarKind.CHANGED if row.is_undo or any(map(row.summary.get, _CHANGES)) else BarKind.NOTHING


def _limited(rows: Iterable[SyncRow], now: datetime) -> Iterator[TimelineBar]:
    """Yield the waits after syncs that stopped at a limit, until the next sync for the same backfill, or for none."""
    stopped: dict[int | None, datetime] = {}
    for row in rows:
        if row.is_undo:
            continue
        if since := stopped.pop(row.backfill, None):
            yield TimelineBar(BarKind.WAITING, since, row.began, why="rate limit of the host")
        if row.outcome == "yielded" and row.ended:
            stopped[row.backfill] = row.ended
    for since in stopped.values():
        yield TimelineBar(BarKind.WAITING, since, now, why="rate limit of the host")


def _stopped(
    ledger: Ledger, source: Source, wait: Wait | None, limits: Sequence[Wait], now: datetime
) -> Iterator[TimelineBar]:
    """Yield the wait of a source that is held or paused (`wait`), or that a limit stops now."""
    if wait:
        decision = next(iter(ledger.history.decisions([wait.kind], 1, source.id)), None)
        began = decision.at if decision and source.wait else now
        yield TimelineBar(BarKind.WAITING, began, None, why=wait.sentence())
    elif limits:
        yield TimelineBar(BarKind.WAITING, now, limits[0].until, why=limits[0].why)
