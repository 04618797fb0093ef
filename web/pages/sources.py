"""Sources: the standing of each; a page for each with its settings, consents and limits; a form for a new one; all limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from catchment.errors import BadInput, CatchmentError
from catchment.pacing import RateProfile
from catchment.settings import SettingRow
from catchment.typed_settings import settings
from catchment.views import sources, throttling
from catchment.views.sources import SourceLine, SourceView
from catchment.views.telemetry.trends import TrendRange, trends
from catchment.views.throttling import LimitsView
from deployments.actions import consents, previews
from deployments.actions.consents import ConsentView
from deployments.actions.desk import Desk, Timing, manifest
from deployments.actions.previews import ProofPreview, SourcePreview, SyncPreview
from deployments.actions.sources import ChangedSetting, NewSource, differences, require_same_place
from web.pages.trends import charts
from web.pages.trouble import login
from web.site import Data, WebPage
from web.warm_library import WarmLibrary

_SHOWN = ("throughput", "duration", "backlog", "failures")
"""Trends on the page of a source."""

Show = Callable[[Desk, WarmLibrary, str, Mapping[str, str]], Data]


@dataclass(frozen=True, slots=True)
class Trial:
    """What a new source would read, or why it cannot be added. Both are None before a place was typed."""

    preview: SourcePreview | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class SettingsTrial:
    """The settings of a source, and what a typed change would change, or why it is refused."""

    source: str
    settings: list[SettingRow]
    changes: list[ChangedSetting] | None
    problem: str | None


def pages(desk: Desk) -> tuple[WebPage, ...]:
    """Return the pages: all sources, a new one, all limits, and one source with its parts."""

    def part(
        name: str, show: Show, shared: Any, query: tuple[str, ...] = (), *, template: str | None = None
    ) -> WebPage:
        def data(library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
            entry = desk.entry(parameters["name"])
            return {"entry": entry, "part": name, **show(desk, library, entry.name, parameters)}

        return WebPage(f"/sources/{{name}}/{name}", template or f"source_{name}.html", data, shared=shared, query=query)

    return (
        WebPage("/sources", "sources.html", partial(_list, desk), ("sources",), shared=list[SourceLine]),
        WebPage(
            "/sources/new",
            "source_new.html",
            partial(_new, desk),
            needs_library=False,
            shared=Trial,
            query=("kind", "location", "name", "every", "cron", "watch"),
        ),
        WebPage(
            "/sources/limits", "source_limits.html", partial(_all_limits, desk), shared=LimitsView, query=("scope",)
        ),
        WebPage(
            "/sources/{name}",
            "source.html",
            partial(_source, desk),
            ("head", "source", "runs", "holds"),
            shared=SourceView,
        ),
        part("settings", _settings, SettingsTrial, ("key", "value", "every", "cron", "watch")),
        part("consent", _consent, ConsentView, ("scope",)),
        part("limits", _limits, LimitsView),
        part("plan", _plan, SyncPreview, ("deep",), template="source_check.html"),
        part("prove", _prove, ProofPreview, template="source_check.html"),
    )


def _list(desk: Desk, library: WarmLibrary, _parameters: Mapping[str, str]) -> Data:
    lines = sources.lines(library.ledger, library.home)
    return {
        "view": lines,
        "problems": desk.problems,
        "documents": sum(line.standing.documents for line in lines),
        "hosts": throttling.hosts(library.ledger),
    }


def _source(desk: Desk, library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    name = parameters["name"]
    entry = desk.entry(name)
    settings = entry.settings.model_dump(mode="json", exclude_none=True)
    view = sources.source(library.ledger, library.home, name, entry.timing, settings)
    last = view.line.standing.last_sync
    return {
        "view": view,
        "entry": entry,
        "part": "",
        "line": view.line,
        "source": view.line.standing,
        "runs": view.syncs,
        "is_running": last is not None and last.ended is None,
        "charts": [
            chart
            for chart in charts(trends(library.ledger, TrendRange.DAY, name, library.ledger.now()))
            if chart.name in _SHOWN
        ],
    }


def _new(desk: Desk, _library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    form = {name: parameters.get(name, "").strip() for name in ("kind", "location", "name", "every", "cron")}
    # A pushed source needs a token, which only a command makes.
    kinds = {kind: of for kind in desk.usable_kinds if not (of := manifest(kind)).runs_programs and kind != "pushed"}
    form["kind"] = form["kind"] or "obsidian"
    words = manifest(form["kind"])
    # The box is checked until a place was typed.
    watch = bool(parameters.get("watch")) and words.is_watched
    preview, problem = None, None
    # The form of a kind with a password or token has a field for it.
    if location := form["location"] or (words.example if desk.secret_setting(form["kind"]) else ""):
        name = form["name"] if form["location"] else form["kind"]
        timing = Timing(form["every"] or None, form["cron"] or None, watch=watch)
        preview, problem = _result_or_problem(
            lambda: previews.new_source(desk, NewSource(form["kind"], location, name, timing=timing))
        )
    return {
        "view": Trial(preview, problem),
        "form": {**form, "watch": "true" if watch else None},
        "kinds": kinds,
        "words": words,
    }


def _settings(desk: Desk, _library: WarmLibrary, name: str, parameters: Mapping[str, str]) -> Data:
    entry = desk.entry(name)
    form = {key: parameters.get(key, "").strip() for key in ("key", "value", "every", "cron", "watch")}
    watch = {"yes": True, "no": False}.get(form["watch"])
    line = f"{form['key']}={form['value']}" if form["key"] else ""

    def changes() -> list[Any]:
        new_settings = settings([line] if line else [])
        changed_settings = differences(
            entry, desk.revised(entry, new_settings, Timing(form["every"] or None, form["cron"] or None, watch=watch))
        )
        require_same_place(name, changed_settings)
        return changed_settings

    rows = entry.settings.rows()
    if any(row.is_secret and row.key == form["key"] for row in rows):
        raise BadInput(
            f"{form['key']}: not changed here; in a terminal: catchment sources set {name} {form['key']}=file:…"
        )
    changed_settings, problem = _result_or_problem(changes)
    return {
        "view": SettingsTrial(name, rows, changed_settings, problem),
        "form": form,
        "line": line,
        "own": [row.key for row in rows if _is_own(row)],
        "login": login(desk, name),
        "runs_programs": manifest(entry.kind).runs_programs,
    }


def _is_own(row: SettingRow) -> bool:
    """Whether a setting belongs to the kind of the source. Of several secrets, a source has at most one."""
    return not row.is_common and not (row.is_secret and row.value is None)


def _consent(desk: Desk, library: WarmLibrary, name: str, parameters: Mapping[str, str]) -> Data:
    view = consents.consent(desk, library.ledger, name, parameters.get("scope") or None)
    return {"view": view, "runs_programs": manifest(desk.entry(name).kind).runs_programs}


def _limits(_desk: Desk, library: WarmLibrary, name: str, _parameters: Mapping[str, str]) -> Data:
    view = throttling.limits(library.ledger, f"source:{name}", library.ledger.sources.get(name))
    return {"view": view, "profiles": list(RateProfile)}


def _all_limits(desk: Desk, library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    scope = parameters.get("scope") or "all"
    names = [source.name for source in library.ledger.sources.all()]
    scopes = ["all", *(f"kind:{kind}" for kind in desk.kinds), *(f"source:{name}" for name in names)]
    if scope not in scopes:
        raise BadInput(f"scope: {scope!r} is none; choose {', '.join(scopes)}")
    view = throttling.limits(library.ledger, scope)
    return {"view": view, "entry": None, "scopes": scopes, "profiles": list(RateProfile)}


def _plan(desk: Desk, _library: WarmLibrary, name: str, parameters: Mapping[str, str]) -> Data:
    return {"view": previews.sync(desk, name, deep=bool(parameters.get("deep")))}


def _prove(desk: Desk, _library: WarmLibrary, name: str, _parameters: Mapping[str, str]) -> Data:
    return {"view": previews.proof(desk, name)}


def _result_or_problem(find: Callable[[], Any]) -> tuple[Any, str | None]:
    """Return a result, or the problem, to be shown beside the form."""
    try:
        return find(), None
    except CatchmentError as refusal:
        return None, str(refusal)
