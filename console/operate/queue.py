"""`catchment queue`: the verbs of other queues, for all sources at once. They call `throttle`, `quarantine` and `sync`."""

from __future__ import annotations

from typing import Annotated

import typer

from catchment.errors import TryAgain
from catchment.model import JobState
from console import arguments, render, session
from console.help_pages import CommandGroup
from console.operate import throttle
from console.sources import syncs
from console.trouble import quarantine

app = CommandGroup("See and steer the work of all sources at once.\n\nExample: catchment queue stats")

_STATES = (JobState.PENDING, JobState.RUNNING, JobState.RETRYING, JobState.QUARANTINED)


@app.command()
def stats(as_json: arguments.Json = False) -> None:
    """Count the jobs of each source that wait, run or failed.

    Example: catchment queue stats
    """
    from catchment.views import sources

    with session.reading() as ledger:
        lines = sources.lines(ledger, session.home())
    rows = [
        {
            "source": line.standing.name,
            "state": line.standing.state,
            **{state.value: line.standing.jobs.get(state, 0) for state in _STATES},
            "oldest": line.oldest,
        }
        for line in lines
    ]
    if as_json:
        render.show_json(rows)
        return
    total = ("all", "", *(sum(line.standing.jobs.get(state, 0) for line in lines) for state in _STATES))
    oldest = min((line.oldest for line in lines if line.oldest), default=None)
    headers = ("SOURCE", "STATE", *(state.upper() for state in _STATES), "OLDEST")
    table = [(*list(row.values())[:-1], row["oldest"] or "-") for row in rows]
    render.show_table(headers, [*table, (*total, oldest or "-")], states={"STATE"})


@app.command()
def pause(reason: arguments.Why = "") -> None:
    """Pause all sources, as `throttle pause all`.

    Example: catchment queue pause --reason "on the train"
    """
    throttle.pause("all", reason)


@app.command()
def resume(reason: arguments.Why = "") -> None:
    """Resume after `queue pause`, as `throttle resume all`.

    Example: catchment queue resume
    """
    throttle.resume("all", reason)


@app.command("retry-failed")
def retry_failed(dry_run: arguments.DryRun = False) -> None:
    """Queue all quarantined items, as `quarantine retry --all`.

    Example: catchment queue retry-failed --dry-run
    """
    quarantine.retry(everything=True, dry_run=dry_run)


@app.command()
def run(
    drain: Annotated[bool, typer.Option("--drain", help="Repeat until no job is due.")] = False,
    reason: arguments.Why = "",
) -> int:
    """Sync all sources and wait, as `sync --all --wait`.

    Paused and held sources are skipped, and jobs that wait for a later retry stay. With --drain, exits with 10 if jobs that
    are due cannot be processed, for example because of a limit.

    Example: catchment queue run --drain
    """
    left = None
    while True:
        code = syncs.sync_all(reason, wait=True, deep=False, as_json=False)
        if code or not drain:
            return code
        before, left = left, _due()
        if not left:
            render.say("no job is due")
            return 0
        if left == before:
            raise TryAgain(f"{render.count(left, 'job')} left and no progress; see `catchment throttle show`")


def _due() -> int:
    """Return the number of jobs of active sources that a sync could process now."""
    with session.reading() as ledger:
        active = [source.id for source in ledger.sources.all() if source.state == "active"]
        return sum(ledger.queue.waiting(source_id).ready for source_id in active)
