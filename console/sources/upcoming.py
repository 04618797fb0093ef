"""`catchment sources next`: the planned runs of a source."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.errors import TryAgain
from console import arguments, render, session

if TYPE_CHECKING:
    from catchment.pacing.waits import Wait
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
        runs, wait = _last_planned(name, most), None
    else:
        runs, wait = _planned(session.needs_server(), name, most, is_scheduled=bool(entry.schedules))
    if as_json:
        render.show_json(runs)
    elif runs:
        rows = [(render.local(run.at), render.ago(run.at), run.why) for run in runs]
        render.show_table(("TIME", "", "REASON"), rows)
    else:
        render.note(_why_none(name, wait, entry.timing))


def _planned(server: Running, name: str, most: int, *, is_scheduled: bool) -> tuple[list[PlannedRun], Wait | None]:
    """Ask the server, which may still plan the runs of a new schedule. Return the runs, and why the source does not run."""
    from deployments.server.planned import read_report

    deadline = time.monotonic() + _PLANNING_SECONDS
    while True:
        if (report := read_report(server, name, most)) is None:
            raise TryAgain("the Prefect server does not respond; try again")
        wait = _wait(name, report)
        # The server plans the runs of a held source, too, but they would read no items.
        runs = list(report.runs.get(name, ())) if wait is None else []
        if runs or not is_scheduled or wait or time.monotonic() > deadline:
            return runs, wait
        time.sleep(0.25)


def _last_planned(name: str, most: int) -> list[PlannedRun]:
    """Return the coming runs of the worker's last report. Raises TryAgain without any."""
    from catchment.runtime.server_report import ServerReport

    report, now = ServerReport.read(session.home()), datetime.now(UTC)
    runs = [run for run in report.runs.get(name, ()) if run.at > now] if report else []
    if report is None or not runs:
        session.needs_server()
    else:
        render.note(f"Catchment is not running; planned {render.ago(report.at)}, started only while it runs")
    return runs[:most]


def _wait(name: str, report: ServerReport) -> Wait | None:
    """Return why the source is paused or held; None if it is active."""
    from catchment.views.waits import state_of

    source = session.asked(lambda ledger: ledger.sources.get(name), None)
    return state_of(name, source, report)[1]


def _why_none(name: str, wait: Wait | None, timing: str) -> str:
    if wait:
        return f"{name}: no run planned: {wait.sentence()}; {wait.remedy}"
    return f"{name}: no run planned (schedule: {timing}); start one with `catchment sync {name}`"
