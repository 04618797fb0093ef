"""`catchment queue`: the verbs of other queues, for all sources at once, and the inbox of web addresses."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from catchment.errors import BadInput, TryAgain
from catchment.model import JobState
from console import arguments, render, session
from console.help_pages import CommandGroup
from console.operate import throttle
from console.sources import consent, syncs
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
    if as_json:
        render.show_json(lines)
        return
    total = ("all", "", *(sum(line.standing.jobs.get(state, 0) for line in lines) for state in _STATES))
    oldest = min((line.oldest for line in lines if line.oldest), default=None)
    headers = ("SOURCE", "STATE", *(state.upper() for state in _STATES), "OLDEST")
    table = [
        (standing.name, standing.state, *(standing.jobs.get(state, 0) for state in _STATES), line.oldest or "-")
        for line in lines
        for standing in (line.standing,)
    ]
    render.show_table(headers, [*table, (*total, oldest or "-")])


@app.command(now="sources pause all")
def pause(reason: arguments.Why = "") -> None:
    """Pause all sources."""
    throttle.pause("all", reason)


@app.command(now="sources resume all")
def resume(reason: arguments.Why = "") -> None:
    """Resume all sources."""
    throttle.resume("all", reason)


@app.command("retry-failed", now="quarantine retry --all")
def retry_failed(dry_run: arguments.DryRun = False) -> None:
    """Queue all quarantined items."""
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


Agreed = Annotated[
    bool, typer.Option("--consent", help="Give consent to all hosts of the addresses, without confirmation.")
]


@app.command()
def enqueue(
    addresses: Annotated[list[str], typer.Argument(metavar="ADDRESS...", help="Addresses of web pages or files.")],
    hosts: arguments.Hosts = None,
    agreed: Agreed = False,
    reason: arguments.Why = "",
) -> None:
    """Add web addresses to the source `inbox` and sync it.

    A new host needs consent: confirm the question, or pass --consent or --allow-host.

    Example: catchment queue enqueue https://example.org/article
    """
    _enqueue(addresses, hosts or [], agreed, reason)


@app.command("import")
def import_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A list, one address a line, JSONL, OPML or a sitemap.")],
    hosts: arguments.Hosts = None,
    agreed: Agreed = False,
    reason: arguments.Why = "",
) -> None:
    """Add the web addresses in a file to the source `inbox`.

    New hosts need consent: confirm the question, or pass --consent for all or --allow-host for some. Addresses of other hosts
    are listed and not read; see `catchment consent show inbox`.

    Example: catchment queue import reading-list.txt
    """
    from connectors.web.settings import read_addresses

    seed = read_addresses(file)
    if seed.refused:
        render.note(f"{render.clean(file.name)}: {seed.refusal}")
    _enqueue([entry.address for entry in seed.addresses], hosts or [], agreed, reason)


def add_one(thing: str, hosts: list[str], agreed: bool, reason: str) -> None:
    """Put a file, the standard input (`-`) or a web address into the inbox. Raises BadInput."""
    if "://" in thing:
        _enqueue([thing], hosts, agreed, reason)
        return
    from deployments.actions import inbox, outcomes

    file = Path(thing)
    if thing != "-" and not file.is_file():
        raise BadInput(f"{render.clean(thing)}: not a kind of source, a file or an address; see `catchment add --help`")
    data = sys.stdin.buffer.read() if thing == "-" else file.read_bytes()
    run = inbox.keep_file(session.desk(), "note.md" if thing == "-" else file.name, data, session.operator(), reason)
    render.say(outcomes.FILE_KEPT.format(inbox.FILES))
    _say_unless_started(run)


def _say_unless_started(run: str | None) -> None:
    if run is None:
        starts = "see `catchment status`" if session.running() else "start Catchment: `catchment up --detach`"
        render.say(f"No sync was started; {starts}")


def _enqueue(addresses: Iterable[str], hosts: list[str], agreed: bool, reason: str) -> None:
    """Add web addresses to the inbox, asking for consent to new hosts. Raises as `inbox.enqueue`."""
    from deployments.actions import inbox, outcomes

    desk = session.desk()
    web_addresses = inbox.listed(desk, addresses)
    if not agreed and not hosts and render.interactive() and (unknown_hosts := inbox.new_hosts(desk, web_addresses)):
        consent.confirm(inbox.INBOX, dict.fromkeys(unknown_hosts, "its pages with these addresses"))
        agreed = True
    result = inbox.enqueue(desk, web_addresses, session.operator(), reason, hosts=hosts, consented=agreed)
    render.say(outcomes.enqueued(inbox.INBOX, result))
    if result.waiting:
        render.say(
            f"Not read without consent to their hosts: {result.waiting:,}; see `catchment consent show {inbox.INBOX}`"
        )
    _say_unless_started(result.run)


def _due() -> int:
    """Return the number of jobs of active sources that a sync could process now."""
    with session.reading() as ledger:
        active = [source.id for source in ledger.sources.all() if source.state == "active"]
        return sum(ledger.queue.waiting(source_id).ready for source_id in active)
