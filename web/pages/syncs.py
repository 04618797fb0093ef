"""Syncs: a timeline, a list of all, latest first, and a page for each with its stages and the names of its changed items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from catchment.errors import BadInput
from catchment.ledger import ChangeKind, ListPage, SyncRow
from catchment.views.telemetry.timeline import Timeline, timeline
from catchment.views.work import syncs
from catchment.views.work.syncs import SyncAndChanges
from deployments.actions.desk import Desk
from web.site import Data, WebPage
from web.warm_library import WarmLibrary

_CHANGES = 50
_SPAN = "24h"
_SPANS = {
    "1h": (timedelta(hours=1), timedelta(minutes=15), "%H:%M", "%H:%M:%S"),
    "24h": (timedelta(hours=24), timedelta(hours=4), "%H:%M", "%H:%M"),
    "7d": (timedelta(days=7), timedelta(days=1), "%a %d", "%a %H:%M"),
}
"""Spans of the timeline, each with the step and the form of the times on its axis, and the form of those of bars."""


@dataclass(frozen=True, slots=True)
class SyncsAndTimeline:
    """The timeline, and a part of all syncs, newest first."""

    timeline: Timeline
    page: ListPage[SyncRow]


def pages(desk: Desk) -> tuple[WebPage, ...]:
    """Return the pages: all syncs, and one."""
    return (
        WebPage(
            "/syncs",
            "syncs.html",
            _list,
            ("timeline", "runs"),
            shared=SyncsAndTimeline,
            query=("source", "span", "after"),
        ),
        WebPage(
            "/syncs/{number:number}",
            "sync.html",
            partial(_sync, desk),
            ("head", "stages", "changes"),
            shared=SyncAndChanges,
            query=("kind", "after"),
        ),
    )


def _list(library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    source, span_name = parameters.get("source") or None, parameters.get("span") or _SPAN
    if span_name not in _SPANS:
        raise BadInput(f"span: unknown value {span_name!r}; choose {', '.join(_SPANS)}")
    span, step, on_axis, on_bar = _SPANS[span_name]
    view = timeline(library.ledger, library.home, span, source)
    page = syncs.syncs(library.ledger, source, after=parameters.get("after"))
    return {
        "view": SyncsAndTimeline(view, page),
        "timeline": view,
        "at": partial(_place, view),
        "ticks": [(_place(view, tick), tick.astimezone().strftime(on_axis)) for tick in _ticks(view, step)],
        "time_of": lambda moment: moment.astimezone().strftime(on_bar),
        "spans": _SPANS,
        "span": span_name,
        "page": page,
        "runs": page.rows,
        "source": source,
        "query": {"source": source, "span": None if span_name == _SPAN else span_name},
    }


def _place(view: Timeline, moment: datetime | None) -> float:
    """Return where a time is in the timeline, in percent of its width; None: at its end."""
    share = (moment - view.since) / (view.until - view.since) if moment else 1.0
    return round(100 * min(max(share, 0.0), 1.0), 1)


def _ticks(view: Timeline, step: timedelta) -> Iterator[datetime]:
    """Yield the times of the axis: multiples of `step` since the local midnight, with room for their words."""
    tick = view.since.astimezone().replace(hour=0, minute=0, second=0, microsecond=0).astimezone(UTC)
    room = (view.until - view.since) / 30
    while (tick := tick + step) < view.until - room:
        if tick > view.since + room and abs(tick - view.now) > room:
            yield tick


def _sync(desk: Desk, library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    ledger, number = library.ledger, int(parameters["number"])
    kind_name = parameters.get("kind", "")
    kind = ChangeKind(kind_name) if kind_name in list(ChangeKind) else None
    answer = syncs.sync_and_changes(ledger, number, kind, after=parameters.get("after"), limit=_CHANGES)
    view, kind = answer.sync, next(iter(answer.changes), None)
    kinds = [kind for kind in ChangeKind if getattr(view.changes, kind)]
    return {
        "view": answer,
        "sync": view,
        "run": view.sync,
        "kinds": kinds,
        "kind": kind,
        "page": answer.changes.get(kind) if kind else None,
        "address": desk.run_address(view.sync.run) if view.sync.run else None,
        "query": {"kind": kind},
    }
