"""`catchment status`: every source at a glance, and whether anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catchment.errors import NotFound
from console import render, session
from console.start_stop import held

if TYPE_CHECKING:
    from catchment.ledger import Ledger
    from catchment.places import Places
    from deployments.server.planned import PlannedRun
    from deployments.server.running import Running
    from deployments.watch.status import WatchState

_SOON_DAYS = 7
_UNFINISHED = ("pending", "running", "retrying")


def status(as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False) -> None:
    """Show every source at a glance, and whether anything runs.

    Answers from the ledger, so it works while nothing is running.
    """
    server = session.running()
    with ThreadPoolExecutor(1) as aside:
        # The server thinks about its answer while this process loads what reads the ledger.
        planned = aside.submit(_planned_runs, server) if server else None
        hosts = []
        try:
            with session.reading() as ledger:
                sources, hosts = overview(ledger), held.of_hosts(ledger)
        except NotFound:
            sources = []
    runs = planned.result() if planned else None
    places = _add_what_runs(sources, runs or {}) if server else None
    told = _server(server, runs is not None)
    if as_json:
        render.show_json({"server": told, "worker": _worker(places), "sources": sources, "hosts": hosts})
    else:
        _print(told, places, sources, hosts)


def _planned_runs(server: Running) -> dict[str, PlannedRun] | None:
    from deployments.server.planned import next_runs

    return next_runs(server)


def _add_what_runs(sources: list[dict[str, Any]], planned: Mapping[str, PlannedRun]) -> Places | None:
    """Add to each source how it is watched and when it runs next; what the worker says of itself."""
    from catchment.places import Places
    from deployments.watch import status as watch_status

    home = session.home()
    watched = watch_status.read(home) or {}
    for source in sources:
        source["watch"] = _watch(watched.get(source["name"]))
        run = planned.get(source["name"])
        source["next_run"] = run.told() if run else None
    return Places.read(home)


def overview(ledger: Ledger) -> list[dict[str, Any]]:
    """Every source, as `status --json` prints it."""
    documents = ledger.library.counts()
    jobs = ledger.queue.counts()
    held_deletions = {hold.source: hold.count for hold in ledger.intake.holds()}
    rests = held.of_sources(ledger)
    consents = _consents(ledger)
    return [
        {
            "name": source.name,
            "kind": source.kind,
            "state": source.state,
            "state_reason": source.state_reason,
            "documents": documents[source.name].documents if source.name in documents else 0,
            "jobs": jobs.get(source.name, {}),
            "held_deletions": held_deletions.get(source.name, 0),
            "consent": consents.get(source.name),
            "rule": None,
            "rests": None,
            "quota": None,
            **rests.get(source.name, {}),
            "last_sync": _sync(ledger, source.id),
            "watch": None,
            "next_run": None,
        }
        for source in ledger.sources.all()
    ]


def _consents(ledger: Ledger) -> dict[str, dict[str, Any]]:
    """How the consent to each source stands: that of its scope which keeps it from being read, or ends first."""
    found: dict[str, dict[str, Any]] = {}
    for consent in ledger.consents.all():
        told = {"state": consent.state, "until": consent.expires}
        before = found.setdefault(consent.source, told)
        ends_first = consent.expires is not None and (before["until"] is None or consent.expires < before["until"])
        if before["state"] == "given" and (consent.state != "given" or ends_first):
            found[consent.source] = told
    return found


def _sync(ledger: Ledger, source_id: int) -> dict[str, Any] | None:
    last = next((sync for sync in ledger.syncs.recent(source_id) if not sync.is_undo), None)
    if last is None:
        return None
    return {
        "outcome": last.outcome,
        "began": last.began,
        "expected": last.expected if last.outcome in (None, "yielded") else None,
        "ended": last.ended,
        "summary": dict(last.summary),
        "error": last.error,
    }


def _server(server: Running | None, answers: bool) -> dict[str, Any]:
    return {"running": server is not None, "answers": answers, "url": server.url if server else None}


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


def _print(
    server: Mapping[str, Any], places: Places | None, sources: list[dict[str, Any]], hosts: list[dict[str, Any]]
) -> None:
    if server["answers"]:
        render.say(f"Server running at {server['url']}")
    elif server["running"]:
        render.say(
            f"The server at {server['url']} does not answer at the moment; when that lasts it is started again by itself, "
            "and syncs go on"
        )
    elif session.is_starting():
        render.say("Catchment is starting; check again in a minute")
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
    for line in held.lines(sources, hosts):
        render.say(render.clean(line))
    for warning in _warnings(sources):
        render.say(render.paint(warning, "yellow"))


def _row(source: Mapping[str, Any]) -> tuple[object, ...]:
    jobs, last, planned, watch = source["jobs"], source["last_sync"], source["next_run"], source["watch"]
    waiting = sum(jobs.get(state, 0) for state in _UNFINISHED)
    told = f"{last['outcome'] or 'running'} {render.when(last['ended'] or last['began'])}" if last else "never"
    if last and last["expected"] and last["expected"] > datetime.now(UTC):
        told = f"{last['outcome'] or 'running'}, done about {render.clock(last['expected'])}"
    unread = source["state"] == "active" and source["consent"] and source["consent"]["state"] != "given"
    rests = source["state"] == "active" and source["rests"]
    return (
        source["name"],
        source["kind"],
        "no consent" if unread else "rests" if rests else source["state"],
        source["documents"],
        waiting,
        jobs.get("quarantined", 0),
        watch["state"].value if watch else "-",
        render.when(planned["at"]) if planned else "-",
        told,
    )


def _consent(name: str, consent: Mapping[str, Any]) -> str:
    """What a person may want to do about the consent to a source; nothing while it holds for long."""
    agree = f"`catchment consent give {name}`"
    match consent["state"]:
        case "given":
            ends = consent["until"]
            soon = ends is not None and (ends - datetime.now(UTC)).days < _SOON_DAYS
            return f"{name}: the consent ends {render.when(ends)}; agree anew with {agree}" if soon else ""
        case "purging":
            return f"{name}: not all that came from there is deleted; finish with `catchment consent revoke {name}`"
        case state:
            why = {"asked": "nobody has agreed to have it read", "expired": "the consent has ended"}
            return f"{name}: {why.get(state, 'consent was withdrawn')}; agree with {agree}"


def _warnings(sources: list[dict[str, Any]]) -> list[str]:
    warnings = []
    for source in sources:
        name, quarantined = source["name"], source["jobs"].get("quarantined", 0)
        if source["consent"] and (consent := _consent(name, source["consent"])):
            warnings.append(consent)
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
