"""`catchment quarantine`: inspect, retry and discard items that could not be processed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from catchment.errors import BadInput, Reason
from catchment.model import in_words
from console import arguments, render, session
from console.help_pages import CommandGroup
from console.trouble.jobs import Number

if TYPE_CHECKING:
    from catchment.ledger import QuarantineEntry
    from catchment.views.telemetry.retries import RetryRow

app = CommandGroup("Inspect, retry and discard failed items.\n\nExample: catchment quarantine list")

_HEADERS = ("JOB", "REASON", "ATTEMPTS", "LAST", "SOURCE", "ITEM", "MESSAGE")

Jobs = Annotated[list[int], typer.Argument(metavar="JOB...", max=arguments.LARGEST, help="Numbers of the jobs.")]
ForCause = Annotated[
    str | None, typer.Option("--cluster", metavar="CLUSTER", help="Only this cause; see `quarantine stats`.")
]
ForReason = Annotated[
    Reason | None, typer.Option(metavar="REASON", help="Only this reason, as `quarantine list` shows it.")
]


@app.command("list")
def list_entries(
    source: session.OnlySource = None,
    reason: ForReason = None,
    cluster: ForCause = None,
    since: arguments.Since = None,
    as_json: arguments.Json = False,
) -> None:
    """List quarantined items with the reasons.

    Example: catchment quarantine list --source notes
    """
    with session.reading() as ledger:
        if source:
            ledger.sources.get(source)
        entries = [
            entry
            for entry in ledger.quarantine.list(source, reason, cluster)
            if since is None or entry.last_failed >= since
        ]
    if render.show_rows(entries, as_json, _HEADERS, _cells, "the quarantine is empty"):
        render.say("Retry: `catchment quarantine retry JOB`. Details: `catchment quarantine show JOB`.")


@app.command("show")
def show_entry(job: Number, as_json: arguments.Json = False) -> None:
    """Show an entry with its error, attempts and notes.

    Example: catchment quarantine show 42
    """
    with session.reading() as ledger:
        entry = ledger.quarantine.show(job)
    if as_json:
        render.show_json(entry)
        return
    render.show_fields(
        {
            **render.facts(entry, "job", "item", "source", "reason", "message", "error"),
            **render.facts(entry, "attempts", "first_failed", "last_failed"),
            "retry": "may help" if entry.retry_helps else "useless until the item or the program changes",
            "last good version": _last_good(entry.document),
            "notes": "; ".join(entry.notes),
            "run": session.run_address(entry.run),
        }
    )
    if entry.traceback:
        render.say()
        render.say(render.clean_block(entry.traceback))


@app.command()
def retry(
    jobs: Annotated[
        list[int] | None, typer.Argument(metavar="JOB...", max=arguments.LARGEST, help="Numbers of the jobs.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All entries that match the other options.")] = False,
    reason: ForReason = None,
    source: session.OnlySource = None,
    cluster: ForCause = None,
    dry_run: arguments.DryRun = False,
) -> None:
    """Retry items at the next sync of their source.

    Example: catchment quarantine retry --all --source notes
    """
    if everything == bool(jobs):
        raise BadInput("JOB: name jobs, or pass --all (and --reason, --source or --cluster to select), but not both")
    if jobs and (reason or source or cluster):
        raise BadInput("--reason, --source, --cluster: only with --all; remove them or the job numbers")
    from deployments.actions import outcomes, quarantine

    which = quarantine.Selection(jobs or (), source, reason, cluster)
    if dry_run:
        with session.reading() as ledger:
            chosen = which.chosen(ledger)
            _preview([entry for entry in ledger.quarantine.list() if entry.job in chosen], "queued")
        return
    number, remaining = quarantine.retry(session.desk(), which, session.operator())
    render.say(f"{outcomes.retried(number)}; process them now with `catchment sync NAME`")
    if remaining:
        render.note(f"{render.count(remaining, 'job is', 'jobs are')} not in quarantine, or {quarantine.MISSING}")


@app.command()
def note(job: Number, text: Annotated[str, typer.Argument(metavar="TEXT", help="Text of the note.")]) -> None:
    """Add a note to an entry.

    Example: catchment quarantine note 42 "encrypted, ask Ada"
    """
    from deployments.actions import outcomes, quarantine

    render.say(outcomes.noted(quarantine.note(session.desk(), quarantine.Selection([job]), text, session.operator())))


@app.command()
def discard(jobs: Jobs, reason: arguments.Why = "") -> None:
    """Discard entries; items are retried only if they change.

    Example: catchment quarantine discard 42 43
    """
    from deployments.actions import outcomes, quarantine

    number = quarantine.discard(session.desk(), quarantine.Selection(jobs), session.operator(), reason)
    render.say(outcomes.discarded(number))


@app.command()
def purge(
    older_than: Annotated[
        str, typer.Option(metavar="DURATION", help="Only entries whose last failure is older: 30d, 12w.")
    ],
    dry_run: arguments.DryRun = False,
    reason: arguments.Why = "purged",
) -> None:
    """Discard entries whose last failure is older than an age.

    Example: catchment quarantine purge --older-than 30d
    """
    age = arguments.length(older_than)
    if dry_run:
        with session.reading() as ledger:
            limit = ledger.now() - age
            _preview([entry for entry in ledger.quarantine.list() if entry.last_failed <= limit], "purged")
        return
    from deployments.actions import outcomes, quarantine

    number = quarantine.purge(session.desk(), age, session.operator(), reason)
    render.say(outcomes.purged(number))


@app.command()
def stats(as_json: arguments.Json = False) -> None:
    """Count entries by reason, group them by cause, and show retries.

    Retries are those of the last 30 days. Recovered: items that succeeded after failed attempts.

    Example: catchment quarantine stats
    """
    from catchment.views import trouble

    with session.reading() as ledger:
        view = trouble.quarantine(ledger)
    if as_json:
        render.show_json(view)
        return
    if view.clusters:
        rows = [(name, reason, number) for name, its in view.sources.items() for reason, number in its.items()]
        render.show_table(("SOURCE", "REASON", "ITEMS"), rows)
        render.say()
        causes = [(c.id, c.count, c.error, c.message) for c in view.clusters]
        render.show_table(("CLUSTER", "ITEMS", "ERROR", "MESSAGE"), causes)
        render.say("Retry all with one cause: `catchment quarantine retry --all --cluster CLUSTER`.")
    else:
        render.note("the quarantine is empty")
    if view.retries:
        render.say()
        headers = ("KIND", "REASON", "FAILED", "NEXT AFTER", "RECOVERED", "QUARANTINED", "SHARE")
        render.show_table(headers, map(_retries, view.retries))


def _cells(entry: QuarantineEntry) -> tuple[object, ...]:
    failed = (entry.job, entry.reason, entry.attempts, entry.last_failed)
    return (*failed, entry.source, entry.item, entry.message)


def _preview(entries: list[QuarantineEntry], act: str) -> None:
    if entries:
        render.show_table(_HEADERS, map(_cells, entries))
    render.say(f"{render.count(len(entries), 'item')} would be {act}; nothing was changed (--dry-run)")


def _retries(row: RetryRow) -> tuple[object, ...]:
    delay = None if row.delay is None else in_words(row.delay)
    share = None if row.share is None else f"{row.share:.0%}"
    return row.kind, row.reason, row.failed, delay, row.recovered, row.quarantined, share


def _last_good(document: int | None) -> str:
    if document is None:
        return "none in the library"
    return f"document {document}, see `catchment show {document}`"
