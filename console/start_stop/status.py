"""`catchment status`: all sources at a glance, and whether Catchment runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catchment.errors import BadInput, NotFound
from console import arguments, render, session

if TYPE_CHECKING:
    from catchment.runtime.server_report import ServerReport
    from catchment.runtime.worker_status import WorkerStatus
    from catchment.search.meaning.meaning_status import MeaningStatus
    from catchment.views.sources import ConsentStanding, SourceStanding
    from catchment.views.telemetry.incidents import IncidentView
    from catchment.views.throttling import HostStatus, Pause, QuotaStatus
    from deployments.server.running import Running

_SOON_DAYS = 7
_WATCH_SECONDS = 2.0
_WEB_START = timedelta(minutes=2)
"""Time for the start of the web process, which starts last."""


def status(
    watch: Annotated[bool, typer.Option("--watch", help="Repeat every 2 seconds until Ctrl-C.")] = False,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 1 unless all is well.")] = False,
    as_json: arguments.Json = False,
) -> int:
    """Show whether all is well, and all sources at a glance.

    Also works while Catchment is stopped.

    Example: catchment status --watch
    """
    if watch and as_json:
        raise BadInput("--watch: cannot be combined with --json; use one of them")
    if watch:
        while True:
            render.clear_screen()
            _is_well(as_json=False)
            sys.stdout.flush()
            time.sleep(_WATCH_SECONDS)
    is_well = _is_well(as_json)
    return int(exit_code and not is_well)


def _is_well(as_json: bool) -> bool:
    """Show the status. Return whether the system runs without incidents."""
    from catchment.runtime.worker_status import WorkerStatus
    from catchment.search.meaning.meaning_status import MeaningStatus

    home, server = session.home(), session.running()
    with ThreadPoolExecutor(1) as executor:
        # The server answers while this process imports the ledger.
        asked = executor.submit(_ask, server) if server else None
        from catchment.views import sources as views
        from catchment.views import throttling, trouble
        from catchment.views.telemetry import incidents

        sources: list[SourceStanding] = []
        hosts: list[HostStatus] = []
        open_now: tuple[IncidentView, ...] = ()
        troubles = 0
        meaning, is_unfinished = None, False
        try:
            with session.reading() as ledger:
                report = asked.result() if asked else None
                sources, hosts = views.standings(ledger, home, report), throttling.hosts(ledger)
                meaning = MeaningStatus.read(home, ledger)
                open_now = incidents.current(home, ledger) if server else ()
                troubles = trouble.number(ledger, home)
                is_unfinished = ledger.is_restore_unfinished
        except NotFound:
            pass
        answers = asked is not None and asked.result() is not None
    worker = WorkerStatus.read(home) if server else None
    state = {"running": server is not None, "answers": answers, "url": server.url if server else None}
    if as_json:
        lists: Mapping[str, Sequence[Any]] = {"sources": sources, "hosts": hosts, "incidents": open_now}
        render.show_json(
            {"server": state, "worker": _worker(worker), "meaning": meaning and asdict(meaning)}
            | {name: [asdict(one) for one in found] for name, found in lists.items()}
        )
    else:
        if server and not session.transition():
            render.say(_sentence(server, open_now, troubles))
        _print(state, worker, meaning, sources, hosts)
        if is_unfinished:
            text = "An interrupted restore: the settings are not restored yet; finish it with `catchment up --detach`"
            render.say(render.paint(text, "yellow"))
    return answers and not open_now


def _sentence(server: Running, open_now: Sequence[IncidentView], troubles: int) -> str:
    """Return whether all is well, and if not, what, since when and what helps."""
    from catchment.search.remote import WebAddress
    from catchment.views.telemetry import incidents

    if not open_now and WebAddress.read(session.home()) is None:
        if datetime.now(UTC) - server.started < _WEB_START:
            return "Starting: incidents are judged in a moment."
        text = "Incidents are not judged: the web process is down; it restarts within a minute (`catchment logs web`)."
        return render.paint(text, "yellow")
    text = render.clean(incidents.sentence(open_now, troubles))
    return render.paint(text, "red") if open_now else text


def _ask(server: Running) -> ServerReport | None:
    from deployments.server.planned import read_report

    return read_report(server)


def _health() -> str:
    """Return a line on the checks that failed when they last ran in the background; empty if none did lately."""
    from catchment.views.health import HealthReport

    report = HealthReport.read(session.home())
    failed = len(report.failures(datetime.now(UTC))) if report else 0
    if report is None or not failed:
        return ""
    return f"Health: {render.count(failed, 'check')} failed {render.when(report.at)}; see `catchment health`"


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


def _print(
    server: Mapping[str, Any],
    worker: WorkerStatus | None,
    meaning: MeaningStatus | None,
    sources: list[SourceStanding],
    hosts: list[HostStatus],
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
    if server["running"] and (line := _health()):
        render.say(render.paint(line, "yellow"))
    if not sources:
        render.say("No sources yet; add one: `catchment sources add obsidian ~/Vault --name notes --every 15m`")
        return
    render.say()
    render.show_table(
        ("SOURCE", "KIND", "STATE", "DOCUMENTS", "WAITING", "QUARANTINED", "WATCHED", "NEXT RUN", "LAST SYNC"),
        [_row(source) for source in sources],
        states={"STATE"},
    )
    for line in _limits(sources, hosts):
        render.say(render.clean(line))
    for warning in _warnings(sources):
        render.say(render.paint(warning, "yellow"))


def _row(source: SourceStanding) -> tuple[object, ...]:
    last, planned, watch = source.last_sync, source.next_run, source.watch
    outcome = f"{last.outcome or 'running'} {render.when(last.ended or last.began)}" if last else "never"
    if last and last.expected and last.expected > datetime.now(UTC):
        outcome = f"{last.outcome or 'running'}, done about {render.clock(last.expected)}"
    lacks_consent = source.state == "active" and source.consent and source.lacks_consent
    is_throttled = source.state == "active" and source.rests
    return (
        source.name,
        source.kind,
        "no consent" if lacks_consent else "throttled" if is_throttled else source.state,
        source.documents,
        source.waiting,
        source.quarantined,
        watch.state.value if watch else "-",
        render.when(planned.at) if planned else "-",
        outcome,
    )


def _limits(sources: Iterable[SourceStanding], hosts: Iterable[HostStatus]) -> Iterator[str]:
    """Return one line for each rule, wait and quota. Sources that are held or paused are left out."""
    active = [source for source in sources if source.state == "active"]
    for source in active:
        if source.rule:
            yield f"{source.name}: limited to {source.rule}"
    for source in active:
        yield from _waits(source.name, "jobs", source.rests, source.quota)
    for host in hosts:
        yield from _waits(host.host, "requests", host.rests, host.quota)


def _waits(name: str, unit: str, rests: Pause | None, quota: QuotaStatus | None) -> Iterator[str]:
    if rests:
        until = _until(rests.until) or " until reset or resumed"
        yield f"{name}: throttled{until} ({rests.why}); see `catchment throttle show`"
    if quota:
        yield f"{name}: {quota.left} of {quota.allowed} {unit} left{_until(quota.until) or ' this hour'}"


def _until(moment: datetime | None) -> str:
    return f" until {render.clock(moment)}" if moment else ""


def _consent(name: str, consent: ConsentStanding) -> str:
    """Return a line about consent that is missing or expires soon, or an empty text."""
    command = f"`catchment consent give {name}`"
    match consent.state:
        case "given":
            ends = consent.until
            soon = ends is not None and (ends - datetime.now(UTC)).days < _SOON_DAYS
            return f"{name}: consent expires {render.when(ends)}; renew it with {command}" if soon else ""
        case "purging":
            return f"{name}: deletion of revoked data is incomplete; finish it with `catchment consent revoke {name}`"
        case state:
            problems = {"asked": "no consent given", "expired": "consent expired"}
            return f"{name}: {problems.get(state, 'consent withdrawn')}; give it with {command}"


def _warnings(sources: Iterable[SourceStanding]) -> Iterator[str]:
    for source in sources:
        name = source.name
        if source.consent and (consent := _consent(name, source.consent)):
            yield consent
        if source.state in ("held", "paused"):
            details = f" ({render.clean(source.state_reason)})" if source.state_reason else ""
            yield f"{name}: {source.state}{details}; resume with `catchment sources resume {name}`"
        # Then the error of the last sync and the state of the folder are the same fact.
        is_told = source.state == "held" and source.state_reason
        if source.last_sync and source.last_sync.error and not is_told:
            yield f"{name}: last sync failed: {render.clean(source.last_sync.error)}"
        if source.watch and source.watch.reason and not is_told:
            yield f"{name}: {render.clean(source.watch.reason)}; {source.watch.remedy}"
        if source.held_deletions:
            deletions = render.count(source.held_deletions, "deletion")
            yield f"{name}: {deletions} held for confirmation; see `catchment deletions list {name}`"
        if source.quarantined:
            yield f"{name}: {source.quarantined} in quarantine; see `catchment quarantine list --source {name}`"
