"""`catchment consent`: list, give and revoke the consent to read a source. Revoking deletes the data."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.errors import NoConsent
from console import arguments, render, session
from console.help_pages import CommandGroup

if TYPE_CHECKING:
    from catchment.ledger import Consent
    from catchment.runtime.home import Home
    from catchment.sync.revoke import PurgeProof
    from deployments.sources.sources_file import SourceEntry

app = CommandGroup("List, give and revoke consent to read a source.\n\nExample: catchment consent give mail --for 90d")

HowLong = Annotated[
    str | None, typer.Option("--for", metavar="DURATION", help="Let the consent expire, for example after 90d.")
]

_FORGOTTEN_SECONDS = 20.0
"""Time in which idle processes are replaced."""
_KEPT = """\
The data stays in the library on this machine; nothing at the source is changed.
To withdraw consent and delete the data: `catchment consent revoke {name}`."""


@app.command("list")
def list_consents(as_json: arguments.Json = False) -> None:
    """List consents with their scope and expiry.

    Example: catchment consent list
    """
    consents = session.asked(lambda ledger: ledger.consents.all(), ())
    render.show_rows(
        consents,
        as_json,
        ("SOURCE", "SCOPE", "CONSENT", "UNTIL", "GIVEN", "BY"),
        lambda row: (row.source, row.scope, row.state, _until(row), row.given, row.by),
        "no sources yet; see `catchment add --help`",
    )


@app.command()
def show(name: session.SourceName, as_json: arguments.Json = False) -> None:
    """Show what a source reads, and the consent to it.

    Example: catchment consent show mail
    """
    from deployments.actions import consents

    desk = session.desk()
    with session.reading() as ledger:
        view = consents.consent(desk, ledger, name)
    if as_json:
        render.show_json(view)
        return
    unread = view.unread_hosts
    not_read = "no longer read with the current settings" if name in desk.entries() else "as set on its host"
    cells = []
    for row in view.scopes:
        consent = row.consent
        facts = (consent.state, consent.expires, consent.given, consent.by) if consent else ("asked", None, None, None)
        cells.append((row.scope, *facts, row.reads or not_read))
    render.show_table(("SCOPE", "CONSENT", "UNTIL", "GIVEN", "BY", "READS"), cells)
    _print_hosts(name, [row.consent for row in view.scopes if row.consent])
    if unread:
        render.say("\nHosts of its addresses that it may not contact:")
        render.show_table(("HOST", "ADDRESSES"), list(unread.items()))
        render.say(f"To read them: catchment consent give {name} --allow-host {next(iter(unread))}")
    render.say(f"\n{_KEPT.format(name=name)}")


@app.command()
def give(
    name: session.SourceName, length: HowLong = None, hosts: arguments.Hosts = None, reason: arguments.Why = ""
) -> None:
    """Give consent to all that a source is set to read.

    Repeat the command to change the expiry. With --allow-host, only these hosts are added to a web source.

    Example: catchment consent give mail --for 90d
    """
    from deployments.actions import consents, outcomes, sources

    desk, until = session.desk(), end_of(length)
    if hosts:
        scopes = sources.allow_hosts(desk, name, hosts, session.operator(), reason, until=until)
    else:
        scopes = consents.give(desk, name, session.operator(), reason, until=until)
    render.say(outcomes.consent_given(name, scopes, render.local(until) if until else ""))


@app.command()
def revoke(
    name: session.SourceName,
    scope: Annotated[
        str | None, typer.Option(metavar="SCOPE", help="Only this scope; `catchment consent show` lists them.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    dry_run: arguments.DryRun = False,
    reason: arguments.Why = "",
    as_json: arguments.Json = False,
) -> int:
    """Withdraw consent, delete the data and verify its deletion.

    Repeat the command to finish an interrupted deletion. The source stays configured; remove it with `catchment sources
    remove`. A web source loses the addresses of the host, unless it has no others. Exits with 1 if data is left here; other
    hosts are named.

    Example: catchment consent revoke mail --scope attachments
    """
    from catchment.content import copies_in_memory
    from catchment.runtime.web_process import WebAddress
    from catchment.runtime.worker_status import WorkerStatus
    from deployments.actions import consents

    desk = session.desk()
    with session.writing() as ledger:
        extent = consents.extent(desk, ledger, name, scope)
        source = ledger.sources.get(name)
        last, held = ledger.syncs.last(source.id), ledger.purging.holdings(source.id, extent.covers)
    if dry_run:
        number = render.count(len(held.documents), "document")
        render.say(f"{name}: {number} found only here would be deleted; nothing was changed (--dry-run)")
        return 0
    if not yes:
        subject = name if extent.whole else f"the {scope} of {name}"
        reason = session.confirmed(f"Permanently delete all data of {subject} from the library?", "revoke", reason)
    if last is not None and last.outcome is None:
        render.note(f"{name}: waiting for the running sync to stop; this may take a minute")

    page, runner = WebAddress.read(desk.home), WorkerStatus.read(desk.home)
    runners = (runner.runner, *runner.package_runners) if runner else ()
    holders = [process for process in (page and page.process, *runners) if process]
    proof = consents.revoke(desk, name, session.operator(), reason, scope=scope)
    if as_json:
        render.show_json(proof)
    else:
        _print(name, session.home(), proof)
    if not copies_in_memory.ended(holders, _FORGOTTEN_SECONDS):
        render.note("a running sync may have copies in memory: its process is replaced when it ends")
    elif holders:
        render.note("the page and the runner were replaced: neither has a copy in memory of before the deletion")
    if copies_in_memory.is_held(desk.home):
        render.note(f"{copies_in_memory.HELD}; restart its program, or `catchment mcp --http`")
    return 0 if proof.holds else 1


def is_agreed(entry: SourceEntry, *, agreed: bool = False, until: datetime | None = None) -> bool:
    """Ask for consent to a new source if it reads data from outside this machine. Return whether it was given.

    Args:
        given: True if the operator passed --consent.

    Raises NoConsent if the operator declines. Without a terminal, it does not ask, and the action refuses.
    """
    from catchment.sync.preflight import scopes_of

    scopes = scopes_of(session.desk().connector(entry))
    if agreed or not scopes or not render.interactive():
        return agreed
    confirm(entry.name, scopes, until)
    return True


def confirm(name: str, scopes: Mapping[str, str], until: datetime | None = None) -> None:
    """Ask on the terminal whether a source may read these scopes. Raises NoConsent if the operator declines."""
    from deployments.actions.consents import MOST_NAMED

    render.note(f"{name} regularly reads{f' until {render.local(until)}' if until else ''}:")
    for scope, description in list(scopes.items())[:MOST_NAMED]:
        render.note(f"  {scope}: {description}")
    if len(scopes) > MOST_NAMED:
        render.note(f"  and {len(scopes) - MOST_NAMED:,} more; once it is added: catchment consent show {name}")
    render.note(_KEPT.format(name=name))
    if not typer.confirm("Do you agree?", err=True):
        raise NoConsent(f"{name}: no consent given; nothing was added")


def unread_hosts(entry: SourceEntry) -> Mapping[str, int]:
    """Return the hosts that a web source may not contact, with the number of its addresses there."""
    from deployments.actions import consents

    return session.asked(lambda ledger: consents.unread_hosts(session.desk(), ledger, entry), {})


def end_of(length: str | None) -> datetime | None:
    """Return the end of a consent of this duration. Raises BadInput."""
    return None if length is None else arguments.end(length)


def _print_hosts(name: str, consents: Sequence[Consent]) -> None:
    """Print which hosts have not deleted the data of a source whose consent was withdrawn."""
    for host in sorted({host for consent in consents for host in consent.hosts}):
        render.say(f"{host}: has not deleted its data; if it is gone for good: catchment leave {host}")
    if not (withdrawn := [consent.withdrawn for consent in consents if consent.withdrawn]):
        return
    with session.reading() as ledger:
        left = ledger.purging.unconfirmed(ledger.sources.get(name).id, min(withdrawn))
    for host in left:
        render.say(f"{host}: not confirmed; it left before it deleted its data, so its disk may still have some")


def _until(consent: Consent) -> object:
    return consent.expires or ("no expiry" if consent.state == "given" else None)


def _print(name: str, home: Home, proof: PurgeProof) -> None:
    from deployments.actions import outcomes

    render.say(outcomes.consent_withdrawn(proof))
    render.show_table(("TABLE", "LEFT"), list(proof.left.items()))
    render.say(
        f"Verified: {proof.still['documents']} of {render.count(proof.documents, 'document')}, "
        f"{proof.still['chunks']} of {render.count(proof.chunks, 'chunk')} found only in {name}, "
        f"{proof.still['cached']} of {render.count(proof.cached, 'cache entry', 'cache entries')}, "
        f"and {proof.still['raw']} of {render.count(proof.raw, 'item')} with raw content are left."
    )
    if proof.passages:
        passages = render.count(proof.passages, "passage")
        render.say(
            f"Searched for {passages} found only in {name}: {proof.found} in the library, "
            f"{proof.in_files} in the files of the ledger, the cache and the raw content."
        )
    else:
        render.say("The files were not searched, because no text has at least 24 bytes; only the counts were verified.")
    for sink, waiting in proof.sinks.items():
        if waiting:
            render.note(
                f"{sink}: the copies there are deleted by the next delivery; then: catchment sinks check {sink}"
            )
    for host in proof.hosts:
        render.note(f"{host}: deletes its data within a minute while it works; then: catchment consent show {name}")
    for copy in proof.copies:
        schema = copy.removeprefix("schema ")
        remove = shlex.join(("rm", "--", str(home.path / copy)))
        if schema != copy:
            remove = f"psql -c 'drop schema \"{schema}\" cascade'"
        render.note(f"{copy}: older copy that still contains data of {name}; delete it with: {remove}")
    render.note("backups outside the home folder were not searched")
    if not proof.holds:
        render.note(f"catchment: {name}: deletion incomplete; run again: catchment consent revoke {name}")
