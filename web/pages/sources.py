"""Sources: the standing of each; a page for each with its settings, consents and limits; a form for a new one; all limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from catchment.actions import consents, previews
from catchment.actions.desk import Desk, Timing
from catchment.actions.sources import NewSource, differences, require_same_place
from catchment.actions.typed_settings import settings
from catchment.errors import BadInput, CatchmentError
from catchment.pacing import RateProfile
from catchment.views import sources, throttling
from web.site import Data, WebPage
from web.warm_library import WarmLibrary

Show = Callable[[Desk[Any], WarmLibrary, str, Mapping[str, str]], Data]


def pages(desk: Desk[Any]) -> tuple[WebPage, ...]:
    """Return the pages: all sources, a new one, all limits, and one source with its parts."""

    def part(name: str, show: Show, template: str | None = None) -> WebPage:
        def data(library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
            entry = desk.entry(parameters["name"])
            return {"entry": entry, "part": name, **show(desk, library, entry.name, parameters)}

        return WebPage(f"/sources/{{name}}/{name}", template or f"source_{name}.html", data, is_shared=True)

    return (
        WebPage("/sources", "sources.html", _list, ("sources",), is_shared=True),
        WebPage("/sources/new", "source_new.html", partial(_new, desk), needs_library=False, is_shared=True),
        WebPage("/sources/limits", "source_limits.html", partial(_all_limits, desk), is_shared=True),
        WebPage("/sources/{name}", "source.html", partial(_one, desk), ("source", "runs"), is_shared=True),
        part("settings", _settings),
        part("consent", _consent),
        part("limits", _limits),
        part("plan", _plan, "source_check.html"),
        part("prove", _prove, "source_check.html"),
    )


def _list(library: WarmLibrary, _parameters: Mapping[str, str]) -> Data:
    lines = sources.lines(library.ledger, library.home)
    return {
        "view": lines,
        "lines": lines,
        "documents": sum(line.standing.documents for line in lines),
        "hosts": throttling.hosts(library.ledger),
    }


def _one(desk: Desk[Any], library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    name = parameters["name"]
    entry = desk.entry(name)
    view = sources.source(library.ledger, library.home, name, entry.settings.model_dump(mode="json", exclude_none=True))
    last = view.line.standing.last_sync
    return {
        "view": view,
        "entry": entry,
        "part": "",
        "line": view.line,
        "source": view.line.standing,
        "runs": view.syncs,
        "is_running": last is not None and last.ended is None,
    }


def _new(desk: Desk[Any], _library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    typed = {name: parameters.get(name, "").strip() for name in ("kind", "location", "name", "every", "cron")}
    watch = bool(parameters.get("watch"))
    found, problem = None, None
    if typed["location"]:
        timing = Timing(typed["every"] or None, typed["cron"] or None, watch=watch)
        found, problem = _tried(
            lambda: previews.new_source(desk, NewSource(typed["kind"], typed["location"], typed["name"], timing=timing))
        )
    return {
        "view": {"preview": found, "problem": problem},
        "typed": {**typed, "watch": "true" if watch else None},
        "kinds": desk.kinds,
    }


def _settings(desk: Desk[Any], _library: WarmLibrary, name: str, parameters: Mapping[str, str]) -> Data:
    entry = desk.entry(name)
    typed = {key: parameters.get(key, "").strip() for key in ("key", "value", "every", "cron", "watch")}
    watch = {"yes": True, "no": False}.get(typed["watch"])
    line = f"{typed['key']}={typed['value']}" if typed["key"] else ""

    def changes() -> list[Any]:
        given = settings([line] if line else [])
        found = differences(
            entry, desk.revised(entry, given, Timing(typed["every"] or None, typed["cron"] or None, watch=watch))
        )
        require_same_place(name, found)
        return found

    rows = entry.settings.rows()
    if any(row.is_secret and row.key == typed["key"] for row in rows):
        raise BadInput(
            f"{typed['key']}: not changed here; in a terminal: catchment sources set {name} {typed['key']}=file:…"
        )
    found, problem = _tried(changes)
    return {
        "view": {"source": name, "settings": rows, "changes": found, "problem": problem},
        "typed": typed,
        "line": line,
        "secret": desk.secret_setting(entry.kind),
    }


def _consent(desk: Desk[Any], library: WarmLibrary, name: str, parameters: Mapping[str, str]) -> Data:
    ledger, scope = library.ledger, parameters.get("scope") or None
    rows = sources.scopes(ledger, name, consents.requested(desk, desk.entry(name)))
    documents = ledger.library.sizes().get(name, 0)
    if scope:
        covered = consents.extent(desk, ledger, name, scope)
        documents = len(ledger.purging.holdings(ledger.sources.get(name).id, covered.covers).documents)
    return {"view": {"source": name, "scopes": rows, "scope": scope, "documents": documents}}


def _limits(_desk: Desk[Any], library: WarmLibrary, name: str, _parameters: Mapping[str, str]) -> Data:
    view = throttling.limits(library.ledger, f"source:{name}", library.ledger.sources.get(name))
    return {"view": view, "profiles": list(RateProfile)}


def _all_limits(desk: Desk[Any], library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    scope = parameters.get("scope") or "all"
    known = [source.name for source in library.ledger.sources.all()]
    scopes = ["all", *(f"kind:{kind}" for kind in desk.kinds), *(f"source:{name}" for name in known)]
    if scope not in scopes:
        raise BadInput(f"scope: {scope!r} is none; choose {', '.join(scopes)}")
    view = throttling.limits(library.ledger, scope)
    return {"view": view, "entry": None, "scopes": scopes, "profiles": list(RateProfile)}


def _plan(desk: Desk[Any], _library: WarmLibrary, name: str, parameters: Mapping[str, str]) -> Data:
    return {"view": previews.sync(desk, name, deep=bool(parameters.get("deep")))}


def _prove(desk: Desk[Any], _library: WarmLibrary, name: str, _parameters: Mapping[str, str]) -> Data:
    return {"view": previews.proof(desk, name)}


def _tried(find: Callable[[], Any]) -> tuple[Any, str | None]:
    """Return a result, or the problem, to be shown beside the form."""
    try:
        return find(), None
    except CatchmentError as refusal:
        return None, str(refusal)
