"""`catchment sources next`: the planned runs of a source."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.errors import NotFound, TryAgain
from console import arguments, render, session

if TYPE_CHECKING:
    from catchment.runtime.server_report import PlannedRun, ServerReport
    from deployments.server.running import Running

_PLANNING_SECONDS = 8.0
"""The server plans the runs of a new schedule in its next round, which it does every five seconds."""


def preview(
    name: session.SourceName,
    most: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=100, help="Maximum number of runs.")] = 5,
    as_json: arguments.Json = False,
) -> None:
    """Show when a source runs next, and why.

    Runs are planned by a schedule, a retry or a request. While Catchment is stopped, shows the runs that were last planned.

    Example: catchment sources next notes --limit 3
    """
    entry = session.desk().entry(name)
    if session.running() is None and session.transition() is None:
        runs, state = _last_planned(name, most), "active"
    else:
        runs, state = _planned(session.needs_server(), name, most, is_scheduled=bool(entry.schedules))
    if as_json:
        render.show_json([asdict(run) for run in runs])
    elif runs:
        rows = [(render.local(run.at), render.when(run.at), run.why) for run in runs]
        render.show_table(("TIME", "", "REASON"), rows)
    else:
        render.note(_why_none(name, state, arguments.timing(entry.schedules, entry.watch, entry.quiet)))


def _planned(server: Running, name: str, most: int, *, is_scheduled: bool) -> tuple[list[PlannedRun], str]:
    """Ask the server, which may still be planning the runs of a new schedule. Return the runs and the source's state."""
    from deployments.server.planned import read_report

    deadline = time.monotonic() + _PLANNING_SECONDS
    while True:
        if (report := read_report(server, name, most)) is None:
            raise TryAgain("the Prefect server does not respond; try again")
        state = _state(name, report)
        # The server plans the runs of a held source, too, but they would read nothing.
        runs = list(report.runs.get(name, ())) if state not in ("held", "paused") else []
        if runs or not is_scheduled or state != "active" or time.monotonic() > deadline:
            return runs, state
        time.sleep(0.25)


def _last_planned(name: str, most: int) -> list[PlannedRun]:
    """Return the coming runs of the worker's last report. Raises TryAgain without any."""
    from catchment.runtime.server_report import ServerReport

    report, now = ServerReport.read(session.home()), datetime.now(UTC)
    runs = [run for run in report.runs.get(name, ()) if run.at > now] if report else []
    if report is None or not runs:
        session.needs_server()
    else:
        render.note(f"Catchment is not running; planned {render.when(report.at)}, started only while it runs")
    return runs[:most]


def _state(name: str, report: ServerReport) -> str:
    from catchment.runtime.server_report import SWITCHED_OFF
    from catchment.views.sources import state_of

    source = None
    with suppress(NotFound), session.reading() as ledger:
        source = ledger.sources.get(name)
    state, reason = state_of(name, source, report)
    return f"{state}, {reason}" if reason == SWITCHED_OFF else state


def _why_none(name: str, state: str, timing: str) -> str:
    if state != "active":
        return f"{name}: no run planned ({state}); resume with `catchment sources resume {name}`"
    return f"{name}: no run planned (schedule: {timing}); start one with `catchment sync {name}`"
