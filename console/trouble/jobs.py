"""`catchment jobs`: the processing of each version of each item."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.model import JobState
from console import arguments, render, session
from console.help_pages import CommandGroup

if TYPE_CHECKING:
    from catchment.ledger import Event

app = CommandGroup("Inspect and steer the processing of single items.\n\nExample: catchment jobs list --state retrying")

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
    render.show_rows(
        rows,
        as_json,
        ("JOB", "STATE", "REASON", "ATTEMPTS", "ENQUEUED", "SOURCE", "ITEM"),
        lambda row: (row.job, row.state, row.reason, row.attempts, row.enqueued, row.source, row.item),
        "no matching jobs",
    )


@app.command("show")
def show_job(
    job: Number,
    as_json: arguments.Json = False,
) -> None:
    """Show a job and its history.

    Example: catchment jobs show 42
    """
    from catchment.views.work import jobs as views

    with session.reading() as ledger:
        view = views.job(ledger, job)
    if as_json:
        render.show_json(view)
        return
    shown = ("job", "source", "item", "state", "reason", "attempts", "error", "enqueued", "next_attempt", "finished")
    render.show_fields(render.facts(view.job, *shown))
    render.say()
    show_events(view.history)


@app.command()
def cancel(job: Number, reason: arguments.Why = "") -> None:
    """Cancel an unfinished job; its item waits for its next change.

    Example: catchment jobs cancel 42 --reason "too large"
    """
    from deployments.actions import jobs, outcomes

    jobs.cancel(session.desk(), job, session.operator(), reason)
    render.say(outcomes.JOB_CANCELLED.format(job))


@app.command()
def prioritize(job: Number, reason: arguments.Why = "") -> None:
    """Let a waiting job be the next of its source.

    Example: catchment jobs prioritize 42
    """
    from deployments.actions import jobs, outcomes

    jobs.prioritize(session.desk(), job, session.operator(), reason)
    render.say(outcomes.JOB_PRIORITIZED.format(job))


def show_events(history: Iterable[Event]) -> None:
    """Print a history, oldest event first."""
    headers = ("TIME", "EVENT", "BY", "REASON")
    render.show_table(headers, [(event.at, event.event, event.actor, event.reason) for event in history])
