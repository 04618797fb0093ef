"""`catchment jobs`: the processing of each version of each item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catchment.model import JobState
from console import arguments, render, session
from console.help_pages import CommandGroup

if TYPE_CHECKING:
    from catchment.ledger import Event, JobRow

app = CommandGroup("Inspect and steer the processing of single items.\n\nExample: catchment jobs list --state retrying")

OF_EVENT = ("at", "event", "actor", "reason", "attempt")
"""Fields of an event in the form of `--json`."""
Number = Annotated[int, typer.Argument(metavar="JOB", max=arguments.LARGEST, help="Number of the job.")]


@app.command("list")
def list_jobs(
    *,
    state: Annotated[
        JobState | None,
        typer.Option(
            metavar="STATE",
            help="Only jobs in this state: pending, running, retrying, succeeded, quarantined, skipped, cancelled, superseded.",
        ),
    ] = None,
    source: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only jobs of this source.", autocompletion=session.source_names)
    ] = None,
    since: arguments.Since = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, metavar="N", help="Maximum number of jobs.")] = 100,
    as_json: arguments.Json = False,
) -> None:
    """List jobs, latest first. --since: by when they were enqueued.

    Example: catchment jobs list --source notes --since 2h
    """
    with session.reading() as ledger:
        if source:
            ledger.sources.get(source)
        rows = ledger.queue.jobs(source=source, state=state, limit=limit, since=since)
    if as_json:
        render.show_json([_job(row) for row in rows])
    elif rows:
        headers = ("JOB", "STATE", "REASON", "ATTEMPTS", "ENQUEUED", "SOURCE", "ITEM")
        table = [(r.id, r.state, r.reason, r.attempt, r.enqueued, r.source, r.item) for r in rows]
        render.show_table(headers, table, states={"STATE"})
    else:
        render.note("no matching jobs")


@app.command("show")
def show_job(
    job: Number,
    as_json: arguments.Json = False,
) -> None:
    """Show a job and its history.

    Example: catchment jobs show 42
    """
    from catchment.views import jobs as views

    with session.reading() as ledger:
        view = views.job(ledger, job)
    shown, history = _job(view.job), [event_json(event) for event in view.history]
    if as_json:
        render.show_json({**shown, "history": history})
        return
    render.show_fields({name.replace("_", " "): value for name, value in shown.items()})
    render.say()
    show_events(history)


@app.command()
def cancel(job: Number, reason: arguments.Why = "") -> None:
    """Cancel an unfinished job; its item waits for its next change.

    Example: catchment jobs cancel 42 --reason "too large"
    """
    from deployments.actions import jobs

    jobs.cancel(session.desk(), job, session.operator(), reason)
    render.say(f"job {job}: cancelled")


@app.command()
def prioritize(job: Number, reason: arguments.Why = "") -> None:
    """Let a waiting job be the next of its source.

    Example: catchment jobs prioritize 42
    """
    from deployments.actions import jobs

    jobs.prioritize(session.desk(), job, session.operator(), reason)
    render.say(f"job {job}: next of its source")


def show_events(history: Sequence[Mapping[str, Any]]) -> None:
    """Print a history, oldest event first."""
    headers = ("TIME", "EVENT", "BY", "REASON")
    render.show_table(headers, [(event["at"], event["event"], event["actor"], event["reason"]) for event in history])


def event_json(event: Event) -> dict[str, Any]:
    """Return an event in the form of `--json`."""
    return {name: getattr(event, name) for name in OF_EVENT}


def _job(row: JobRow) -> dict[str, Any]:
    told = render.picked(row, "source", "item", "state", "reason")
    return {
        "job": row.id,
        **told,
        "attempts": row.attempt,
        **render.picked(row, "error", "enqueued", "next_attempt", "finished"),
    }
