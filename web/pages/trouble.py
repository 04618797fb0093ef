"""Trouble: the list of problems for the user, and a page for each with its remedy and decisions; the incidents."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import quote

from catchment.errors import CatchmentError, LedgerError
from catchment.ledger import Event, ListPage, SyncRow
from catchment.telemetry.incidents import ReasonCode
from catchment.views import trouble
from catchment.views.health import HealthReport, space
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
class SourceLogin:
    """What a source reads, by the title of the setting, and the setting of its password or token, if one can be typed."""

    name: str
    place: Mapping[str, Any]
    secret: str | None


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
        page("/trouble/sources/{name}", partial(_source, desk), StoppedSource),
        page("/trouble/deletions/{name}", _deletions, DeletionsView, "folder", "after"),
        page("/incidents", _incidents, IncidentsView, "after"),
        page("/incidents/{number:number}", partial(_incident, desk), IncidentView),
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


def _queue(library: WarmLibrary, case: str | None, view: object, page_address: str, **values: Any) -> Data:
    """Return the values of the template: the list of problems beside one of them."""
    open_trouble = trouble.trouble(library.ledger, library.home, library.unsaved())
    rows = [(row, address(row)) for row in open_trouble.troubles]
    return {
        "view": open_trouble if case is None else view,
        "urgent": [(row, at) for row, at in rows if row.needs_person],
        "intended": [(row, at) for row, at in rows if not row.needs_person],
        "checked": open_trouble.checked,
        "case": case,
        "page_address": page_address,
        "open_rows": [row for row, at in rows if at == page_address],
        **values,
    }


def _list(library: WarmLibrary, _parameters: Mapping[str, str]) -> Data:
    report = HealthReport.read(library.home)
    data = _queue(library, None, None, "/trouble", checks=report.besides_web if report else ())
    view = replace(data["view"], closed=trouble.closed(library.ledger))
    return {**data, "view": view, "closed": view.closed}


def _cluster(desk: Desk, library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    ledger, name, source = library.ledger, parameters["name"], parameters.get("source")
    cluster_view = trouble.cluster(ledger, name, source, after=parameters.get("after"), limit=_ENTRIES)
    rows = cluster_view.entries.rows
    job = parameters.get("job", "")
    example = rows[0].job if rows else cluster_view.cluster.example
    entry = trouble.entry(ledger, int(job) if job.isdecimal() and len(job) < 19 else example)
    page_address = f"/trouble/clusters/{quote(name, safe='')}"
    cause_retries = tuple(row for row in retries(ledger, ledger.now()) if row.reason == cluster_view.cluster.reason)
    return _queue(
        library,
        "case_cluster.html",
        ClusterAndEntry(cluster_view, entry, cause_retries),
        page_address,
        cluster_view=cluster_view,
        entry=entry,
        retries=cause_retries,
        run=desk.run_address(entry.entry.run) if entry.entry.run else None,
        source=source,
        matching=cluster_view.cluster.by_source.get(source, 0) if source else cluster_view.cluster.count,
        query={"source": source, "after": parameters.get("after")},
    )


def login(desk: Desk, name: str | None) -> SourceLogin | None:
    """Return the login of a source; None if the sources file lacks it. Of several secrets, one must be chosen in a terminal."""
    with suppress(CatchmentError):
        entry = desk.entry(name or "")
        rows, secret = entry.settings.rows(), desk.secret_setting(entry.kind)
        secrets = [row.key for row in rows if row.is_secret and row.value]
        fields = type(entry.settings).model_fields
        place = {fields[row.key].title or row.key: row.value for row in rows if row.is_fixed and row.value}
        return SourceLogin(entry.name, place, secret if not secrets or secret in secrets else None)
    return None


def _source(desk: Desk, library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    ledger, name = library.ledger, parameters["name"]
    source = ledger.sources.get(name)
    view = StoppedSource(
        line(ledger, library.home, name),
        ledger.history.decisions(_CHANGES, _DECISIONS, source.id)[::-1],
        ledger.syncs.recent(source.id, _SYNCS),
    )
    page_address = f"/trouble/sources/{quote(name, safe='')}"
    values = {"line": view.line, "source": view.line.standing, "decisions": view.decisions, "runs": view.syncs}
    return _queue(library, "case_source.html", view, page_address, login=login(desk, name), **values)


def _deletions(library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    ledger, name, folder = library.ledger, parameters["name"], parameters.get("folder")
    view = trouble.deletions(ledger, name, folder, after=parameters.get("after"))
    page_address = f"/trouble/deletions/{quote(name, safe='')}"
    return _queue(
        library,
        "case_deletions.html",
        view,
        page_address,
        folder=folder,
        documents=ledger.library.sizes()[name],
        query={"folder": folder},
    )


def _incidents(library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    try:
        view = incidents.incidents(library.ledger, library.unsaved(), after=parameters.get("after"))
    except LedgerError:
        # The page cannot be shown without the ledger, but `/api/v1` names the problem.
        return {"view": IncidentsView(incidents.opened(None, library.unsaved()), ListPage((), 0, None))}
    return _queue(library, "case_incidents.html", view, "/incidents")


def _incident(desk: Desk, library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    view = incidents.incident(library.ledger, int(parameters["number"]))
    values = {
        "login": login(desk, view.affects.source),
        "space": space(library.home) if view.reason == ReasonCode.DISK_FULL else {},
    }
    return _queue(library, "case_incident.html", view, f"/incidents/{view.id}", **values)
