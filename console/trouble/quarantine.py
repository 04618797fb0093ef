"""`catchment quarantine`: items that could not be processed, why, and what to do with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from catchment.errors import BadInput, NotFound
from catchment.model import JobState, Reason
from console import arguments, render, session
from console.help_pages import CommandGroup

if TYPE_CHECKING:
    from catchment.ledger import Cluster, QuarantineEntry

app = CommandGroup("Review items that could not be processed.")

Job = Annotated[int, typer.Argument(metavar="JOB", max=arguments.LARGEST, help="The number of the job.")]
Jobs = Annotated[list[int], typer.Argument(metavar="JOB...", max=arguments.LARGEST, help="The numbers of the jobs.")]
Source = Annotated[str | None, typer.Option(help="Only of this source.", autocompletion=session.source_names)]
ForCause = Annotated[str | None, typer.Option("--cluster", help="Only with this cause; see `quarantine stats`.")]
ForReason = Annotated[Reason | None, typer.Option(help="Only with this reason.")]
_MISSED = "missed at their source; see `catchment quarantine list` and `catchment deletions list`"


@app.command("list")
def list_entries(
    source: Source = None, reason: ForReason = None, cluster: ForCause = None, as_json: arguments.Json = False
) -> None:
    """List the items in quarantine with their reasons."""
    with session.reading() as ledger:
        if source:
            ledger.sources.get(source)
        entries = ledger.quarantine.list(source, reason, cluster)
    if as_json:
        render.show_json([_entry(entry) for entry in entries])
    elif entries:
        headers = ("JOB", "REASON", "TRIED", "LAST", "SOURCE", "ITEM", "MESSAGE")
        rows = [(e.job, e.reason, e.attempts, e.last_failed, e.source, e.item, e.message) for e in entries]
        render.show_table(headers, rows)
        render.say("Try again: `catchment quarantine retry JOB`. More: `catchment quarantine show JOB`.")
    else:
        render.note("nothing is in quarantine")


@app.command("show")
def show_entry(job: Job, as_json: arguments.Json = False) -> None:
    """Show one entry: what failed, how often, where, and your notes."""
    with session.reading() as ledger:
        entry = ledger.quarantine.show(job)
    if as_json:
        render.show_json(_entry(entry, whole=True))
        return
    render.show_fields(
        {
            "job": entry.job,
            "item": entry.item,
            "source": entry.source,
            "reason": entry.reason,
            "message": entry.message,
            "error": entry.error,
            "tried": entry.attempts,
            "first failed": entry.first_failed,
            "last failed": entry.last_failed,
            "a retry": "can help" if entry.retry_helps else "will not help until the item or the program changes",
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
        list[int] | None, typer.Argument(metavar="JOB...", max=arguments.LARGEST, help="The numbers of the jobs.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that the other options leave.")] = False,
    reason: ForReason = None,
    source: Source = None,
    cluster: ForCause = None,
) -> None:
    """Try items again, at the next sync of their source."""
    if everything == bool(jobs):
        raise BadInput(
            "name the jobs to retry, or give --all (with --reason, --source or --cluster to narrow it), not both"
        )
    if jobs and (reason or source or cluster):
        raise BadInput("--reason, --source and --cluster go with --all; leave them or the job numbers out")
    with session.writing() as ledger:
        if source:
            ledger.sources.get(source)
        chosen = jobs or [entry.job for entry in ledger.quarantine.list(source, reason, cluster)]
        number = ledger.quarantine.retry(chosen, session.operator())
    if jobs and not number:
        raise NotFound(f"none of these jobs is in quarantine, or they are {_MISSED}")
    render.say(f"{render.count(number, 'item')} back in the queue; `catchment sync NAME` takes them up now")
    if others := len(set(chosen)) - number:
        render.note(f"{render.count(others, 'of the jobs is', 'of the jobs are')} not in quarantine, or {_MISSED}")


@app.command()
def note(job: Job, text: Annotated[str, typer.Argument(metavar="TEXT", help="What you found out.")]) -> None:
    """Write a note on an entry."""
    with session.writing() as ledger:
        ledger.quarantine.note(job, text, session.operator())
    render.say("noted")


@app.command()
def discard(jobs: Jobs, reason: arguments.Why = "") -> None:
    """Give items up; they are tried again only when they change."""
    with session.writing() as ledger:
        # What is not in quarantine comes first: it is refused before anything is given up.
        chosen = sorted(set(jobs), key=lambda job: ledger.queue.job(job).state is JobState.QUARANTINED)
        for job in chosen:
            ledger.quarantine.discard(job, session.operator(), reason)
    render.say(f"{render.count(len(chosen), 'item')} discarded")


@app.command()
def purge(
    older_than: Annotated[str, typer.Option(help="Only entries whose last failure is older: 30d, 12w.")],
) -> None:
    """Give up all entries that failed last long ago."""
    age = arguments.length(older_than)
    with session.writing() as ledger:
        number = ledger.quarantine.purge(age, session.operator())
    render.say(f"{render.count(number, 'entry', 'entries')} purged")


@app.command()
def stats(as_json: arguments.Json = False) -> None:
    """Count the entries by reason and group those with one cause."""
    with session.reading() as ledger:
        counts, clusters = ledger.quarantine.stats(), ledger.quarantine.clusters()
    if as_json:
        render.show_json({"sources": counts, "clusters": [_cluster(cluster) for cluster in clusters]})
        return
    if not clusters:
        render.note("nothing is in quarantine")
        return
    rows = [(source, reason, number) for source, reasons in counts.items() for reason, number in reasons.items()]
    render.show_table(("SOURCE", "REASON", "ITEMS"), rows)
    render.say()
    render.show_table(("CLUSTER", "ITEMS", "ERROR", "MESSAGE"), [(c.id, c.count, c.error, c.message) for c in clusters])
    render.say("Try all of one cause again: `catchment quarantine retry --all --cluster CLUSTER`.")


def _cluster(cluster: Cluster) -> dict[str, Any]:
    return {
        "cluster": cluster.id,
        "items": cluster.count,
        "sources": cluster.sources,
        "reason": cluster.reason,
        "error": cluster.error,
        "message": cluster.message,
    }


def _last_good(document: int | None) -> str:
    if document is None:
        return "none; nothing of it is in the library"
    return f"stays in the library; to see it: catchment show {document}"


def _entry(entry: QuarantineEntry, *, whole: bool = False) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "job": entry.job,
        "source": entry.source,
        "item": entry.item,
        "reason": entry.reason,
        "attempts": entry.attempts,
        "message": entry.message,
        "error": entry.error,
        "first_failed": entry.first_failed,
        "last_failed": entry.last_failed,
        "retry_helps": entry.retry_helps,
        "cluster": entry.cluster,
        "document": entry.document,
    }
    return {**shown, "traceback": entry.traceback, "notes": entry.notes, "run": entry.run} if whole else shown
