"""`catchment status`: all sources at a glance, and whether Catchment runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catchment.errors import BadInput, NotFound
from console import arguments, render, session
from console.start_stop import held

if TYPE_CHECKING:
    from catchment.ledger import Ledger
    from catchment.meaning_status import MeaningStatus
    from catchment.runtime.watch_status import WatchState
    from catchment.runtime.worker_status import WorkerStatus
    from deployments.server.planned import PlannedRun
    from deployments.server.running import Running

_SOON_DAYS = 7
_WATCH_SECONDS = 2.0
_UNFINISHED = ("pending", "running", "retrying")


def status(
    watch: Annotated[bool, typer.Option("--watch", help="Repeat every 2 seconds until Ctrl-C.")] = False,
    as_json: arguments.Json = False,
) -> None:
    """Show all sources at a glance, and whether Catchment runs.

    Also works while Catchment is stopped.

    Example: catchment status --watch
    """
    if watch and as_json:
        raise BadInput("--watch: cannot be combined with --json; use one of them")
    if watch:
        while True:
            render.clear_screen()
            _show_status(as_json=False)
            sys.stdout.flush()
            time.sleep(_WATCH_SECONDS)
    _show_status(as_json)


def _show_status(as_json: bool) -> None:
    from catchment.meaning_status import MeaningStatus

    server = session.running()
    with ThreadPoolExecutor(1) as executor:
        # The server answers while this process imports the ledger.
        planned = executor.submit(_planned_runs, server) if server else None
        hosts, meaning, is_unfinished = [], None, False
        try:
            with session.reading() as ledger:
                sources, hosts = overview(ledger), held.of_hosts(ledger)
                meaning = MeaningStatus.read(session.home(), ledger)
                is_unfinished = ledger.is_restore_unfinished
        except NotFound:
            sources = []
    runs = planned.result() if planned else None
    worker = _add_activity(sources, runs or {}) if server else None
    state = _server(server, runs is not None)
    if as_json:
        shown = {"server": state, "worker": _worker(worker), "meaning": meaning and asdict(meaning)}
        render.show_json({**shown, "sources": sources, "hosts": hosts})
    else:
        _print(state, worker, meaning, sources, hosts)
        if is_unfinished:
            text = "An interrupted restore: sources.yaml is not restored yet; finish it with `catchment up --detach`"
            render.say(render.paint(text, "yellow"))


def _planned_runs(server: Running) -> dict[str, PlannedRun] | None:
    from deployments.server.planned import next_runs

    return next_runs(server)


def _add_activity(sources: list[dict[str, Any]], planned: Mapping[str, PlannedRun]) -> WorkerStatus | None:
    """Add the watch state and the next run to each source. Return the worker's run slots."""
    from catchment.runtime import watch_status
    from catchment.runtime.worker_status import WorkerStatus

    home = session.home()
    watched = watch_status.read(home) or {}
    for source in sources:
        source["watch"] = _watch(watched.get(source["name"]))
        run = planned.get(source["name"])
        source["next_run"] = run.as_json() if run else None
    return WorkerStatus.read(home)


def overview(ledger: Ledger) -> list[dict[str, Any]]:
    """Return all sources in the form of `status --json`."""
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
    """Return the consent of each source: of several scopes, one without consent, or else the first to expire."""
    consents: dict[str, dict[str, Any]] = {}
    for consent in ledger.consents.all():
        entry = {"state": consent.state, "until": consent.expires}
        before = consents.setdefault(consent.source, entry)
        ends_first = consent.expires is not None and (before["until"] is None or consent.expires < before["until"])
        if before["state"] == "given" and (consent.state != "given" or ends_first):
            consents[consent.source] = entry
    return consents


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


def _worker(worker: WorkerStatus | None) -> dict[str, Any] | None:
    if worker is None:
        return None
    return {
        "running": worker.running,
        "waiting": worker.waiting,
        "limit": worker.limit,
        "cap": worker.cap,
        "cpu": worker.cpu,
        "memory": worker.memory,
        "problem": worker.problem or None,
    }


def _watch(state: WatchState | None) -> dict[str, Any] | None:
    if state is None:
        return None
    return {"state": state.state, "reason": state.reason, "remedy": state.remedy, "folders": state.folders}


def _print(
    server: Mapping[str, Any],
    worker: WorkerStatus | None,
    meaning: MeaningStatus | None,
    sources: list[dict[str, Any]],
    hosts: list[dict[str, Any]],
) -> None:
    if changes := session.transition():
        render.say(f"Catchment is {changes}; check again in a minute")
    elif server["answers"]:
        render.say(f"Server running at {server['url']}")
    elif server["running"]:
        render.say(
            f"The server at {server['url']} does not respond; if this persists it is restarted automatically and syncs resume"
        )
    else:
        render.say("Catchment is not running; start it with `catchment up --detach`")
    if worker:
        line = f"Worker: {worker.running} running, {worker.waiting} waiting, at most {worker.limit} at once"
        if worker.limit < worker.cap:
            line += f" (reduced from {worker.cap}: processor {worker.cpu:.0%}, memory {worker.memory:.0%} in use)"
        render.say(line)
        if worker.problem:
            text = f"Worker: {worker.problem} several times in a row; runs wait, see `catchment logs worker`"
            render.say(render.paint(render.clean(text), "yellow"))
    if meaning and meaning.total:
        text = render.clean(meaning)
        render.say(f"{text[0].upper()}{text[1:]}")
    if not sources:
        render.say("No sources yet; add one: `catchment sources add obsidian ~/Vault --name notes --every 15m`")
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
    outcome = f"{last['outcome'] or 'running'} {render.when(last['ended'] or last['began'])}" if last else "never"
    if last and last["expected"] and last["expected"] > datetime.now(UTC):
        outcome = f"{last['outcome'] or 'running'}, done about {render.clock(last['expected'])}"
    lacks_consent = source["state"] == "active" and source["consent"] and source["consent"]["state"] != "given"
    is_throttled = source["state"] == "active" and source["rests"]
    return (
        source["name"],
        source["kind"],
        "no consent" if lacks_consent else "throttled" if is_throttled else source["state"],
        source["documents"],
        waiting,
        jobs.get("quarantined", 0),
        watch["state"].value if watch else "-",
        render.when(planned["at"]) if planned else "-",
        outcome,
    )


def _consent(name: str, consent: Mapping[str, Any]) -> str:
    """Return a line about consent that is missing or expires soon, or an empty text."""
    command = f"`catchment consent give {name}`"
    match consent["state"]:
        case "given":
            ends = consent["until"]
            soon = ends is not None and (ends - datetime.now(UTC)).days < _SOON_DAYS
            return f"{name}: consent expires {render.when(ends)}; renew it with {command}" if soon else ""
        case "purging":
            return f"{name}: deletion of revoked data is incomplete; finish it with `catchment consent revoke {name}`"
        case state:
            problems = {"asked": "no consent given", "expired": "consent expired"}
            return f"{name}: {problems.get(state, 'consent withdrawn')}; give it with {command}"


def _warnings(sources: list[dict[str, Any]]) -> list[str]:
    warnings = []
    for source in sources:
        name, quarantined = source["name"], source["jobs"].get("quarantined", 0)
        if source["consent"] and (consent := _consent(name, source["consent"])):
            warnings.append(consent)
        if source["state"] in ("held", "paused"):
            details = f" ({render.clean(source['state_reason'])})" if source["state_reason"] else ""
            warnings.append(f"{name}: {source['state']}{details}; resume with `catchment sources resume {name}`")
        if source["last_sync"] and source["last_sync"]["error"]:
            warnings.append(f"{name}: last sync failed: {render.clean(source['last_sync']['error'])}")
        if source["watch"] and source["watch"]["reason"]:
            warnings.append(f"{name}: {render.clean(source['watch']['reason'])}; {source['watch']['remedy']}")
        if source["held_deletions"]:
            deletions = render.count(source["held_deletions"], "deletion")
            warnings.append(f"{name}: {deletions} held for confirmation; see `catchment deletions list {name}`")
        if quarantined:
            warnings.append(f"{name}: {quarantined} in quarantine; see `catchment quarantine list --source {name}`")
    return warnings
