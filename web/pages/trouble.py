"""Trouble: the list of problems for the user, and a page for each with its remedy and decisions; the incidents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import quote

from catchment.errors import LedgerError
from catchment.ledger import Event, ListPage, SyncRow
from catchment.views import trouble
from catchment.views.health import HealthReport
from catchment.views.sources import SourceLine, line
from catchment.views.telemetry import incidents
from catchment.views.telemetry.incidents import IncidentsView, IncidentView
from catchment.views.telemetry.retries import RetryRow, retries
from catchment.views.trouble import ClusterView, DeletionsView, EntryView, TroubleKind, TroubleRow, TroubleView
from deployments.actions.desk import Desk
from web.site import Data, WebPage
from web.warm_library import WarmLibrary

_SYNCS = 8
_DECISIONS = 8
_CHANGES = ("held", "paused", "resumed", "breaker reset", "breaker opened", "hold applied", "hold dropped")
_ENTRIES = 25


@dataclass(frozen=True, slots=True)
class ClusterAndEntry:
    """Quarantined items with the same cause, and one of them. `retries`: those of its reason, by kind of source."""

    cluster: ClusterView
    entry: EntryView
    retries: tuple[RetryRow, ...]


@dataclass(frozen=True, slots=True)
class StoppedSource:
    """A source with the latest decisions about it and its latest syncs, newest first."""

    line: SourceLine
    decisions: list[Event]
    syncs: list[SyncRow]


def count(library: WarmLibrary) -> int:
    """Return the number of open problems."""
    return trouble.number(library.ledger, library.unsaved())


def pages(desk: Desk) -> tuple[WebPage, ...]:
    """Return the pages: the list, and one for each kind of problem."""

    def page(path: str, data: Any, shared: Any, *query: str) -> WebPage:
        return WebPage(path, "trouble.html", data, ("queue",), shared=shared, query=query)

    return (
        page("/trouble", _list, TroubleView),
        page("/trouble/clusters/{name}", partial(_cluster, desk), ClusterAndEntry, "source", "job", "after"),
        page("/trouble/sources/{name}", _source, StoppedSource),
        page("/trouble/deletions/{name}", _deletions, DeletionsView, "folder", "after"),
        page("/incidents", _incidents, IncidentsView, "after"),
        page("/incidents/{number:number}", _incident, IncidentView),
    )


def address(row: TroubleRow) -> str:
    """Return the page of a problem."""
    name = quote(row.subject.removeprefix("source:"), safe="")
    match row.kind:
        case TroubleKind.INCIDENT:
            return f"/incidents/{row.incident}" if row.incident else "/incidents"
        case TroubleKind.CLUSTER:
            return f"/trouble/clusters/{name}"
        case TroubleKind.DELETIONS:
            return f"/trouble/deletions/{name}"
    return "/sources" if row.subject == "all" or row.subject.startswith("kind:") else f"/trouble/sources/{name}"


def _queue(library: WarmLibrary, case: str | None, view: object, own: str, **more: Any) -> Data:
    """Return the values of the template: the list of problems beside one of them."""
    found = trouble.trouble(library.ledger, library.home, library.unsaved())
    rows = [(row, address(row)) for row in found.troubles]
    return {
        "view": found if case is None else view,
        "urgent": [(row, at) for row, at in rows if row.needs_person],
        "intended": [(row, at) for row, at in rows if not row.needs_person],
        "checked": found.checked,
        "case": case,
        "own": own,
        "here": [row for row, at in rows if at == own],
        **more,
    }


def _list(library: WarmLibrary, _parameters: Mapping[str, str]) -> Data:
    report = HealthReport.read(library.home)
    data = _queue(library, None, None, "/trouble", checks=report.findings if report else ())
    view = replace(data["view"], closed=trouble.closed(library.ledger))
    return {**data, "view": view, "closed": view.closed}


def _cluster(desk: Desk, library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    ledger, name, source = library.ledger, parameters["name"], parameters.get("source")
    found = trouble.cluster(ledger, name, source, after=parameters.get("after"), limit=_ENTRIES)
    rows = found.entries.rows
    chosen = parameters.get("job", "")
    shown = int(chosen) if chosen.isdecimal() and len(chosen) < 19 else rows[0].job if rows else found.cluster.example
    entry = trouble.entry(ledger, shown)
    own = f"/trouble/clusters/{quote(name, safe='')}"
    retried = tuple(row for row in retries(ledger, ledger.now()) if row.reason == found.cluster.reason)
    return _queue(
        library,
        "case_cluster.html",
        ClusterAndEntry(found, entry, retried),
        own,
        found=found,
        entry=entry,
        retries=retried,
        run=desk.run_address(entry.entry.run) if entry.entry.run else None,
        source=source,
        matching=found.cluster.by_source.get(source, 0) if source else found.cluster.count,
        query={"source": source, "after": parameters.get("after")},
    )


def _source(library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    ledger, name = library.ledger, parameters["name"]
    source = ledger.sources.get(name)
    view = StoppedSource(
        line(ledger, library.home, name),
        ledger.history.decisions(_CHANGES, _DECISIONS, source.id)[::-1],
        ledger.syncs.recent(source.id, _SYNCS),
    )
    own = f"/trouble/sources/{quote(name, safe='')}"
    more = {"line": view.line, "source": view.line.standing, "decisions": view.decisions, "runs": view.syncs}
    return _queue(library, "case_source.html", view, own, **more)


def _deletions(library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    ledger, name, folder = library.ledger, parameters["name"], parameters.get("folder")
    found = trouble.deletions(ledger, name, folder, after=parameters.get("after"))
    own = f"/trouble/deletions/{quote(name, safe='')}"
    return _queue(
        library,
        "case_deletions.html",
        found,
        own,
        found=found,
        folder=folder,
        documents=ledger.library.sizes()[name],
        query={"folder": folder},
    )


def _incidents(library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    try:
        found = incidents.incidents(library.ledger, library.unsaved(), after=parameters.get("after"))
    except LedgerError:
        # The page cannot be shown without the ledger, but `/api/v1` names the problem.
        return {"view": IncidentsView(incidents.opened(None, library.unsaved()), ListPage((), 0, None))}
    return _queue(library, "case_incidents.html", found, "/incidents", found=found)


def _incident(library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    found = incidents.incident(library.ledger, int(parameters["number"]))
    return _queue(library, "case_incident.html", found, f"/incidents/{found.id}", found=found)
