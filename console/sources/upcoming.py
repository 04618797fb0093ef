"""`catchment sources next`: the planned runs of a source."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from catchment.errors import NotFound, TryAgain
from console import arguments, render, session

_PLANNING_SECONDS = 8.0
"""The server plans the runs of a new schedule in its next round, which it does every five seconds."""


def preview(
    name: session.SourceName,
    most: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=100, help="Maximum number of runs.")] = 5,
    as_json: arguments.Json = False,
) -> None:
    """Show when a source runs next, and why.

    Runs are planned by a schedule, a retry or a request.

    Example: catchment sources next notes --limit 3
    """
    entry = session.desk().entry(name)
    from deployments.server.planned import planned

    server, state = session.needs_server(), _state(name)
    deadline = time.monotonic() + _PLANNING_SECONDS
    while not (runs := planned(server, name, most)):
        if runs is None:
            raise TryAgain("the Prefect server does not respond; try again")
        if not entry.schedules or state != "active" or time.monotonic() > deadline:
            break
        time.sleep(0.25)
    if as_json:
        render.show_json([run.as_json() for run in runs])
    elif runs:
        rows = [(render.local(run.at), render.when(run.at), run.why) for run in runs]
        render.show_table(("TIME", "", "REASON"), rows)
    else:
        render.note(_why_none(name, state, arguments.timing(entry.schedules, entry.watch, entry.quiet)))


def _state(name: str) -> str:
    try:
        with session.reading() as ledger:
            return ledger.sources.get(name).state
    except NotFound:
        return "active"


def _why_none(name: str, state: str, timing: str) -> str:
    if state != "active":
        return f"{name}: no run planned ({state}); resume with `catchment sources resume {name}`"
    return f"{name}: no run planned (schedule: {timing}); start one with `catchment sync {name}`"
