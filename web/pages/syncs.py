"""Syncs: all runs, latest first, and one with its stages and what it changed, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from catchment.actions.desk import Desk
from catchment.ledger import ChangeKind, ListPage, PathChange, SyncRow
from catchment.views import syncs
from catchment.views.syncs import SyncView
from web.site import Data, WebPage
from web.warm_library import WarmLibrary

_CHANGES = 50


@dataclass(frozen=True, slots=True)
class SyncAndChanges:
    """A sync, and a part of the paths that it changed in one way; None if it changed nothing."""

    sync: SyncView
    kind: ChangeKind | None
    changes: ListPage[PathChange] | None


def pages(desk: Desk[Any]) -> tuple[WebPage, ...]:
    """Return the pages: all syncs, and one."""
    return (
        WebPage("/syncs", "syncs.html", _list, ("runs",), shared=ListPage[SyncRow], query=("source", "after")),
        WebPage(
            "/syncs/{number:int}",
            "sync.html",
            partial(_one, desk),
            ("stages",),
            shared=SyncAndChanges,
            query=("kind", "after"),
        ),
    )


def _list(library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    source = parameters.get("source") or None
    page = syncs.syncs(library.ledger, source, after=parameters.get("after"))
    return {"view": page, "page": page, "runs": page.rows, "source": source, "query": {"source": source}}


def _one(desk: Desk[Any], library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    ledger, number = library.ledger, min(int(parameters["number"]), 2**62)
    view = syncs.sync(ledger, number)
    kinds = [kind for kind in ChangeKind if getattr(view.changes, kind)]
    chosen = parameters.get("kind", "")
    kind = ChangeKind(chosen) if chosen in list(ChangeKind) else next(iter(kinds), None)
    page = syncs.changes(ledger, number, kind, after=parameters.get("after"), limit=_CHANGES) if kind else None
    return {
        "view": SyncAndChanges(view, kind, page),
        "sync": view,
        "run": view.sync,
        "kinds": kinds,
        "kind": kind,
        "page": page,
        "address": desk.run_address(view.sync.run) if view.sync.run else None,
        "query": {"kind": kind},
    }
