"""`catchment status`: every source at a glance, and whether anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catchment.errors import NotFound
from console import render, session

if TYPE_CHECKING:
    from catchment.ledger import Ledger
    from catchment.places import Places
    from deployments.planned import PlannedRun
    from deployments.server import Running
    from deployments.watch.report import WatchState

_UNFINISHED = ("pending", "running", "retrying")


def status(as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False) -> None:
    """Show every source at a glance, and whether anything runs.

    Answers from the ledger, so it works while nothing is running.
    """
    server = session.running()
    try:
        with session.reading() as ledger:
            sources = overview(ledger)
    except NotFound:
        sources = []
    places = None
    if server:
        places = _add_what_runs(server, sources)
    if as_json:
        render.show_json({"server": _server(server), "worker": _worker(places), "sources": sources})
    else:
        _print(server, places, sources)


def _add_what_runs(server: Running, sources: list[dict[str, Any]]) -> Places | None:
    """Add to each source how it is watched and when it runs next; what the worker says of itself."""
    from catchment.places import Places
    from deployments.planned import next_runs
    from deployments.watch import report

    home = session.home()
    watched = report.read(home) or {}
    planned = next_runs(server, {source["name"] for source in sources}) or {}
    for source in sources:
        source["watch"] = _watch(watched.get(source["name"]))
        source["next_run"] = _planned(planned.get(source["name"]))
    return Places.read(home)


def overview(ledger: Ledger) -> list[dict[str, Any]]:
    """Every source, as `status --json` prints it."""
    documents = ledger.library.counts()
    jobs = ledger.queue.counts()
    held = {hold.source: hold.count for hold in ledger.intake.holds()}
    return [
        {
            "name": source.name,
            "kind": source.kind,
            "state": source.state,
            "state_reason": source.state_reason,
            "documents": documents[source.name].documents if source.name in documents else 0,
            "jobs": jobs.get(source.name, {}),
            "held_deletions": held.get(source.name, 0),
            "last_sync": _sync(ledger, source.id),
            "watch": None,
            "next_run": None,
        }
        for source in ledger.sources.all()
    ]


def _sync(ledger: Ledger, source_id: int) -> dict[str, Any] | None:
    last = ledger.syncs.last(source_id)
    if last is None:
        return None
    return {
        "outcome": last.outcome,
        "began": last.began,
        "ended": last.ended,
        "summary": dict(last.summary),
        "error": last.error,
    }


def _server(server: Running | None) -> dict[str, Any]:
    return {"running": server is not None, "url": server.url if server else None}


def _worker(places: Places | None) -> dict[str, Any] | None:
    if places is None:
        return None
    return {
        "running": places.running,
        "waiting": places.waiting,
        "limit": places.limit,
        "cap": places.cap,
        "cpu": places.cpu,
        "memory": places.memory,
    }


def _watch(state: WatchState | None) -> dict[str, Any] | None:
    if state is None:
        return None
    return {"state": state.state, "reason": state.reason, "remedy": state.remedy, "folders": state.folders}


def _planned(run: PlannedRun | None) -> dict[str, Any] | None:
    return {"at": run.at, "why": run.why} if run else None


def _print(server: Running | None, places: Places | None, sources: list[dict[str, Any]]) -> None:
    if server:
        render.say(f"Server running at {server.url}")
    else:
        render.say("No server is running; start it with `catchment up --detach`")
    if places:
        told = f"Worker: {places.running} running, {places.waiting} waiting, {places.limit} at once"
        if places.limit < places.cap:
            told += f" instead of {places.cap} (processor {places.cpu:.0%}, memory {places.memory:.0%} in use)"
        render.say(told)
    if not sources:
        render.say("There is no source yet; add one: `catchment sources add obsidian ~/Vault --name notes --every 15m`")
        return
    render.say()
    render.show_table(
        ("SOURCE", "KIND", "STATE", "DOCUMENTS", "WAITING", "QUARANTINED", "WATCHED", "NEXT RUN", "LAST SYNC"),
        [_row(source) for source in sources],
        states={"STATE"},
    )
    for warning in _warnings(sources):
        render.say(render.paint(warning, "yellow"))


def _row(source: Mapping[str, Any]) -> tuple[object, ...]:
    jobs, last, planned, watch = source["jobs"], source["last_sync"], source["next_run"], source["watch"]
    waiting = sum(jobs.get(state, 0) for state in _UNFINISHED)
    told = f"{last['outcome'] or 'running'} {render.when(last['ended'] or last['began'])}" if last else "never"
    return (
        source["name"],
        source["kind"],
        source["state"],
        source["documents"],
        waiting,
        jobs.get("quarantined", 0),
        watch["state"].value if watch else "-",
        render.when(planned["at"]) if planned else "-",
        told,
    )


def _warnings(sources: list[dict[str, Any]]) -> list[str]:
    warnings = []
    for source in sources:
        name, quarantined = source["name"], source["jobs"].get("quarantined", 0)
        if source["state"] in ("held", "paused"):
            why = f": {render.clean(source['state_reason'])}" if source["state_reason"] else ""
            warnings.append(f"{name} is {source['state']}{why}; go on with `catchment sources resume {name}`")
        if source["last_sync"] and source["last_sync"]["error"]:
            warnings.append(f"{name}: the last sync did not finish: {render.clean(source['last_sync']['error'])}")
        if source["watch"] and source["watch"]["reason"]:
            warnings.append(f"{name}: {render.clean(source['watch']['reason'])}; {source['watch']['remedy']}")
        if source["held_deletions"]:
            gone = render.count(source["held_deletions"], "deletion")
            warnings.append(f"{name}: {gone} held until you decide; see `catchment deletions list {name}`")
        if quarantined:
            warnings.append(f"{name}: {quarantined} in quarantine; see `catchment quarantine list --source {name}`")
    return warnings
