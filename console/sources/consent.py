"""`catchment consent`: what a person has agreed to have read, until when; and taking it back, with all that came from there."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catchment.errors import BadInput, NoConsent, NotFound
from console import arguments, render, session
from console.help_pages import CommandGroup
from console.sources import source_lifecycle

if TYPE_CHECKING:
    from catchment.contracts import Connector
    from catchment.ledger import Consent, Ledger, Source
    from catchment.runtime.home import Home
    from catchment.sync.revoke import Extent, PurgeProof
    from deployments.sources.sources_file import SourceEntry

app = CommandGroup("See, give and take back consent to read a source.")

HowLong = Annotated[
    str | None, typer.Option("--for", metavar="LENGTH", help="How long it holds: 90d. For good if not given.")
]

_KEPT = """\
What is read is kept in the library on this machine and goes nowhere else; nothing at the source is changed.
Take it back at any time with `catchment consent revoke {name}`: that deletes all that came from there."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """What a person agreed to, and until when: aware UTC, None for good."""

    scopes: frozenset[str]
    until: datetime | None


@app.command("list")
def list_consents(as_json: arguments.Json = False) -> None:
    """List what may be read of each source, and until when."""
    rows = [_row(consent) for consent in _all(None)]
    if as_json:
        render.show_json(rows)
    elif rows:
        headers = ("SOURCE", "SCOPE", "CONSENT", "UNTIL", "GIVEN", "BY")
        render.show_table(headers, [_cells(row) for row in rows], states={"CONSENT"})
    else:
        render.note("there is no source yet; see `catchment sources add --help`")


@app.command()
def show(name: session.SourceName, as_json: arguments.Json = False) -> None:
    """Show what reading a source means, and what was agreed to."""
    entry = source_lifecycle.entry(name)
    words = wanted(entry)
    said = {consent.scope: _row(consent) for consent in _all(name)}
    rows = [{"scope": scope, "reads": words.get(scope), **said.get(scope, {})} for scope in {**words, **said}]
    if as_json:
        render.show_json(rows)
        return
    for row in rows:
        reads = row["reads"] or "not read any more, as the source is set"
        until = {"until": row.get("until"), "given": row.get("given"), "by": row.get("by")}
        render.show_fields({"scope": row["scope"], "reads": reads, "consent": row.get("consent", "asked"), **until})
        render.say()
    render.say(_KEPT.format(name=name))


@app.command()
def give(name: session.SourceName, length: HowLong = None) -> None:
    """Agree to what a source is set to read.

    May be given again, to have it hold longer or shorter.
    """
    entry = source_lifecycle.entry(name)
    agreed = Agreement(frozenset(wanted(entry)), _until(length))
    with session.writing() as ledger:
        source = ledger.sources.put(entry.name, entry.kind, entry.settings.priority)
        ledger.consents.give(source.id, agreed.scopes, session.operator(), agreed.until)
    end = f" until {render.local(agreed.until)}" if agreed.until else ""
    render.say(f"{name} may be read{end}: {', '.join(sorted(agreed.scopes))}")


@app.command()
def revoke(
    name: session.SourceName,
    scope: Annotated[str | None, typer.Option(help="Only this scope, as `catchment consent show` lists them.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: arguments.Json = False,
) -> int:
    """Take consent back, delete what came from there, prove it.

    May be called again to finish what was broken off. Nothing at the source itself is touched, and the source stays
    written down: `catchment sources remove` takes it away. Exits with 1 when something is left.
    """
    from catchment.sync import revoke

    with session.writing() as ledger:
        source = source_lifecycle.known(ledger, name)
        extent = _extent(ledger, source, scope)
        if not yes:
            if not render.interactive():
                raise BadInput("nobody is there to ask; give --yes to take consent back without being asked")
            what = name if extent.whole else f"the {scope} of {name}"
            typer.confirm(f"Delete all that came from {what} from the library, for good?", abort=True, err=True)
        last = ledger.syncs.last(source.id)
        if last is not None and last.outcome is None:
            render.note(f"{name}: its sync, which is at work, ends first; this may take a minute")

        def count(items: int) -> None:
            render.rewrite(f"{name}: {render.count(items, 'item')} deleted")

        try:
            proof = revoke.revoke(session.home(), ledger, source, extent, session.operator(), count)
        finally:
            render.rewrite("")
    if as_json:
        render.show_json(_proof(name, extent, proof))
    else:
        _print(name, session.home(), proof)
    return 0 if proof.holds else 1


def wanted(entry: SourceEntry) -> Mapping[str, str]:
    """What a source is set to read, in words, by scope."""
    from catchment.sync.preflight import WHOLE, scopes_of

    return scopes_of(_connector(entry)) or {WHOLE: "the files that it is set to read, which are on this machine"}


def agreement(entry: SourceEntry, *, given: bool = False, length: str | None = None) -> Agreement:
    """What a person agrees to who adds a source: asked in plain words, unless it is this machine's own files.

    `given`: they have said so already. Raises NoConsent when they decline, or when nobody is there to ask.
    """
    from catchment.sync.preflight import scopes_of

    until = _until(length)
    asked = scopes_of(_connector(entry))
    if asked and not given:
        if not render.interactive():
            what = ", ".join(asked)
            raise NoConsent(f"{entry.name} reads what is not on this machine ({what}); agree to that with --consent")
        render.note(f"{entry.name} reads, again and again{f' until {render.local(until)}' if until else ''}:")
        for scope, words in asked.items():
            render.note(f"  {scope}: {words}")
        render.note(_KEPT.format(name=entry.name))
        if not typer.confirm("Do you agree?", err=True):
            raise NoConsent(
                f"nobody agreed to have {entry.name} read, so it was not added; ask again whenever you like"
            )
    return Agreement(frozenset(wanted(entry)), until)


def _connector(entry: SourceEntry) -> Connector:
    from connectors import connector_class

    return connector_class(entry.kind)(entry.settings)


def _until(length: str | None) -> datetime | None:
    return None if length is None else arguments.end(length)


def _all(name: str | None) -> list[Consent]:
    try:
        with session.reading() as ledger:
            return ledger.consents.all(name, every=name is not None)
    except NotFound:
        return []


def _row(consent: Consent) -> dict[str, Any]:
    return {
        "source": consent.source,
        "kind": consent.kind,
        "scope": consent.scope,
        "consent": consent.state,
        "until": consent.expires,
        "given": consent.given,
        "by": consent.by,
        "withdrawn": consent.withdrawn,
        "purged": consent.purged,
    }


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    until = row["until"] if row["until"] or row["consent"] != "given" else "for good"
    return (row["source"], row["scope"], row["consent"], until, row["given"], row["by"])


def _extent(ledger: Ledger, source: Source, scope: str | None) -> Extent:
    """What is to be purged: all of the source, or one of its scopes. Raises NotFound for a scope that it does not have."""
    from catchment.contracts import Guarded
    from catchment.sync.preflight import WHOLE
    from catchment.sync.revoke import Extent

    known = {consent.scope for consent in ledger.consents.all(source.name, every=True)}
    if scope is None:
        return Extent(frozenset(known or {WHOLE}), lambda _locator: True, whole=True)
    connector = _connector(source_lifecycle.entry(source.name))
    scopes: Collection[str] = {*known, *(connector.scopes() if isinstance(connector, Guarded) else ())}
    if scope not in scopes:
        raise NotFound(f"{source.name} has no scope {scope!r}; there are: {', '.join(sorted(scopes)) or WHOLE}")
    if not isinstance(connector, Guarded) or not connector.scopes():
        return Extent(frozenset({scope}), lambda _locator: True, whole=True)
    scope_of = connector.scope_of
    return Extent(frozenset({scope}), lambda locator: scope_of(locator) == scope, whole=False)


def _proof(name: str, extent: Extent, proof: PurgeProof) -> dict[str, Any]:
    return {
        "source": name,
        "scopes": sorted(extent.scopes),
        "items": proof.items,
        "left": dict(proof.left),
        "verified": {
            name: {"before": before, "left": proof.still[name]}
            for name, before in (("documents", proof.documents), ("chunks", proof.chunks), ("cached", proof.cached))
        },
        "passages": proof.passages,
        "found": proof.found,
        "in_files": proof.in_files,
        "copies": list(proof.copies),
        "purged": proof.holds,
    }


def _print(name: str, home: Home, proof: PurgeProof) -> None:
    render.say(f"{name}: consent is withdrawn; {render.count(proof.items, 'item')} deleted")
    render.show_table(("TABLE", "LEFT"), list(proof.left.items()))
    render.say(
        f"Counted again: {proof.still['documents']} of {render.count(proof.documents, 'document')}, "
        f"{proof.still['chunks']} of {render.count(proof.chunks, 'chunk')} that only {name} had, "
        f"and {proof.still['cached']} of {render.count(proof.cached, 'cache entry', 'cache entries')} are left."
    )
    if proof.passages:
        looked = f"Looked for {render.count(proof.passages, 'passage')} that only {name} had"
        render.say(
            f"{looked}: a search finds {proof.found}, the files of the ledger and the cache hold {proof.in_files}."
        )
    else:
        render.say("No text of at least 24 bytes to look for in the files; the counts above are all that was verified.")
    for copy in proof.copies:
        remove = shlex.join(("rm", "--", str(home.path / copy)))
        render.note(f"{copy} is older than this and still holds data of {name}; to delete it: {remove}")
    render.note("backups outside of the home were not searched")
    if not proof.holds:
        render.note(f"catchment: not all is gone; take it back once more: catchment consent revoke {name}")
