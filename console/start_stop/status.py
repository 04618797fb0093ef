"""`catchment status`: all sources at a glance, and whether Catchment runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.errors import BadInput, PageSilent
from catchment.runtime import web_process
from catchment.runtime.membership import Membership
from catchment.runtime.server_report import ServerReport
from console import arguments, render, session

if TYPE_CHECKING:
    from catchment.pacing.waits import Wait
    from catchment.views.sources import SourceStanding
    from catchment.views.status import Overview
    from catchment.views.throttling import HostStatus, QuotaStatus
    from deployments.server.running import Running

_WATCH_SECONDS = 2.0
_WEB_START = timedelta(minutes=2)
"""Time for the start of the web process, which starts last."""
_PATIENCE = timedelta(hours=2)
"""Time without an answer from which a host is named."""


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
    server = session.running()
    overview = _overview(server)
    if as_json:
        render.show_json(overview)
    else:
        if server and not session.transition() and (sentence := _sentence(server, overview)):
            render.say(sentence)
        _print(server, overview)
        if overview.is_restore_unfinished:
            text = "An interrupted restore: the settings are not restored yet; finish it with `catchment up --detach`"
            render.say(render.paint(text, "yellow"))
    return overview.server.answers and not overview.incidents


def _overview(server: Running | None) -> Overview:
    """Return the overview: from the web process, or read here if it does not answer."""
    from catchment.views.status import Overview

    with suppress(PageSilent):
        return web_process.fetch(session.home(), "/overview", Overview)
    from catchment.views import library
    from deployments.server.planned import read_report

    url, report = (server.url, read_report(server)) if server else (None, None)
    overview = partial(library.overview, home=session.home(), url=url, report=report)
    return session.asked(overview, None) or overview(None)


def _sentence(server: Running, overview: Overview) -> str:
    """Return that all is well, or the worst problem with its start and remedy; "" if only the server does not respond."""
    if not overview.incidents and web_process.WebAddress.read(session.home()) is None:
        if datetime.now(UTC) - server.started < _WEB_START:
            return "Starting: incidents are judged in a moment."
        text = "Incidents are not judged: the web process is down; it restarts within a minute (`catchment logs web`)."
        return render.paint(text, "yellow")
    text = render.clean(overview.sentence) if overview.server.answers or overview.incidents else ""
    return render.paint(text, "red") if overview.incidents else text


def _print(server: Running | None, overview: Overview) -> None:
    membership = Membership.of(session.home())
    if membership and membership.problem:
        render.say(render.paint(membership.problem, "yellow"))
    if changes := session.transition():
        render.say(f"Catchment is {changes}; check again in a minute")
    elif server and overview.server.answers:
        render.say(
            f"Host {membership.name}; server at {server.url}" if membership else f"Server running at {server.url}"
        )
        if server.listen:
            render.say(f"Page at {server.page_url}; it listens on {server.listen}")
    elif server and server.is_elsewhere:
        render.say("Catchment runs in another container; run commands there")
    elif server and server.server:
        render.say(f"The server at {server.url} does not respond; syncs wait for it")
    elif server:
        report = ServerReport.read(session.home())
        since = f" since {render.clock(report.at)}" if report else ""
        render.say(
            f"The server at {server.url} does not respond{since}; it is restarted automatically, then syncs resume"
        )
    else:
        render.say("Catchment is not running; start it with `catchment up --detach`")
    if worker := overview.worker:
        from catchment.views import health

        now = datetime.now(UTC)
        load = health.worker(now, worker, now)
        text = "; ".join(filter(None, (f"Worker: {load.message}", load.remedy)))
        render.say(render.paint(render.clean(text), "yellow") if load.remedy else text)
    for progress in (overview.meaning, overview.recognition):
        if progress and progress.total:
            text = render.clean(progress)
            render.say(f"{text[0].upper()}{text[1:]}")
    if overview.raw_bytes:
        render.say(f"Raw content: {render.size(overview.raw_bytes)}")
    if server and (failed := overview.failed_checks):
        text = f"{render.count(failed, 'check')} failed {render.ago(overview.checked)}"
        render.say(render.paint(f"Health: {text}; see `catchment check`", "yellow"))
    from connectors import problems

    if not overview.sources:
        render.say("No sources yet; add one: `catchment add obsidian ~/Vault --name notes --every 15m`")
        return
    render.say()
    render.show_table(
        ("SOURCE", "KIND", "STATE", "DOCUMENTS", "WAITING", "QUARANTINED", "WATCHED", "NEXT RUN", "LAST SYNC"),
        [_row(source) for source in overview.sources],
    )
    for line in _limits(overview.sources, overview.hosts):
        render.say(render.clean(line))
    for backfill in overview.backfills:
        render.say(
            f"{backfill.source}: backfill {backfill.id} {backfill.state}, {backfill.done:,} of {backfill.total:,} done"
        )
    for sink in overview.sinks:
        if not sink.error and (sink.state == "paused" or sink.waiting):
            render.say(f"Sink {sink.name}: {sink.state}, {render.count(sink.waiting, 'document')} waiting")
    for warning in (*problems(), *_warnings(overview)):
        render.say(render.paint(render.clean(warning), "yellow"))


def _row(source: SourceStanding) -> tuple[object, ...]:
    last, outcome = source.last_sync, "never"
    if last:
        outcome = f"{last.outcome or 'running'} {render.ago(last.ended or last.began)}"
        if last.expected and last.expected > datetime.now(UTC):
            outcome = f"{last.outcome or 'running'}, done about {render.clock(last.expected)}"
    return (
        source.name,
        source.kind,
        source.wait.kind.label if source.wait else source.state,
        source.documents,
        source.waiting,
        source.quarantined,
        source.watch.state if source.watch else "-",
        render.ago(source.next_run.at) if source.next_run else "-",
        outcome,
    )


def _limits(sources: Iterable[SourceStanding], hosts: Iterable[HostStatus]) -> Iterator[str]:
    """Return one line for each rule, wait and quota. Sources that are held or paused are left out."""
    active = [source for source in sources if source.state == "active"]
    for source in active:
        if source.rule:
            yield f"{source.name}: limited to {source.rule}"
    yield from _waits(wait for source in active for wait in source.waits)
    for source in active:
        yield from _quota(source.name, "jobs", source.quota)
    for host in hosts:
        yield from _waits([host.wait] if host.wait else [])
        yield from _quota(host.host, "requests", host.quota)


def _passing(sources: Iterable[SourceStanding], known: Container[str]) -> Iterator[str]:
    """Return one line for each active source with a failure that may pass and is no problem yet."""
    for source in sources:
        last, watch = source.last_sync, source.watch
        if source.state != "active" or source.name in known or source.waits:
            continue
        if last and last.outcome == "failed" and last.error:
            yield f"{source.name}: the last sync failed: {last.error}; the next one tries again"
        elif away := [host for host in source.away if datetime.now(UTC) - host.since > _PATIENCE]:
            more = f", and {len(away) - 1} more (`catchment sources show {source.name}`)" if away[1:] else ""
            yield f"{source.name}: no answer from {render.away(away[0])}{more}"
        elif watch and watch.reason:
            yield f"{source.name}: {watch.state}: {watch.reason}; {watch.remedy}"


def _waits(waits: Iterable[Wait]) -> Iterator[str]:
    """Return one line for each wait; sources that wait for the same share it."""
    subjects: dict[str, list[str]] = {}
    for wait in waits:
        subjects.setdefault(f"{wait.sentence(render.clock)}; {wait.remedy}", []).append(wait.subject)
    for text, names in subjects.items():
        yield f"{', '.join(names)}: {text}"


def _quota(name: str, unit: str, quota: QuotaStatus | None) -> Iterator[str]:
    if quota:
        until = f"until {render.clock(quota.until)}" if quota.until else "this hour"
        yield f"{name}: {quota.left} of {quota.allowed} {unit} left {until}"


def _warnings(overview: Overview) -> Iterator[str]:
    is_judged = overview.server.running and web_process.WebAddress.read(session.home()) is not None
    # The first line names the worst incident.
    problems = overview.incidents if is_judged else overview.problems
    for problem in problems[1:] if is_judged else problems:
        if problem.reason != "host.throttled":  # The line about the limit also has its end.
            yield f"{problem.subject.partition(':')[2] or 'Catchment'}: {problem.message}; {problem.remedy}"
    yield from _passing(overview.sources, {problem.subject.partition(":")[2] for problem in problems})
    for source in overview.sources:
        if source.state == "paused":
            yield from _waits(source.waits[:1])
        if source.quarantined:
            yield f"{source.name}: {source.quarantined} in quarantine; see `catchment quarantine list --source {source.name}`"
