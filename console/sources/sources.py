"""`catchment sources`: what is read, from where, and when."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catchment.errors import BadInput, NotFound
from catchment.model import Priority
from console import arguments, render, session
from console.help_pages import CommandGroup
from console.sources import consent, source_lifecycle, upcoming

if TYPE_CHECKING:
    from catchment.ledger import Source, SyncRow
    from deployments.sources.sources_file import SourceEntry

app = CommandGroup("Add, see and steer what is read.")


def _kinds(incomplete: str) -> list[str]:
    from connectors import kinds

    return [kind for kind in kinds() if kind.startswith(incomplete)]


@app.command()
def add(
    *,
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="local_files, obsidian, imap or github.", autocompletion=_kinds)
    ],
    location: Annotated[
        str, typer.Argument(metavar="LOCATION", help="The folder or the vault; user@host; owner/repo.")
    ],
    name: Annotated[str, typer.Option("--name", help="A short name: lower-case letters, digits, - and _.")],
    every: Annotated[str | None, typer.Option(help="Sync every so often: 15m, 2h, 1d.")] = None,
    cron: Annotated[str | None, typer.Option(help='Sync at these times: "0 7 * * *".')] = None,
    rrule: Annotated[str | None, typer.Option(help="Sync by a recurrence rule (RFC 5545).")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Also sync soon after a file changes.")] = False,
    debounce: Annotated[
        float | None, typer.Option(min=0, max=120, help="Seconds of quiet after a change; 0.3 to 1 if not given.")
    ] = None,
    priority: Annotated[
        Priority | None, typer.Option(help="How soon its items are wanted; normal if not given.")
    ] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of its kind; may be repeated.")
    ] = None,
    secrets: Annotated[
        list[str] | None,
        typer.Option(
            "--secret",
            metavar="NAME=REF",
            help="Where a secret is kept: env:VAR, file:PATH, keyring:S/U, block:NAME; may be repeated.",
        ),
    ] = None,
    agreed: Annotated[
        bool,
        typer.Option("--consent", help="Agree to what will be read, without being asked: see `catchment consent`."),
    ] = False,
    agreed_for: Annotated[
        str | None,
        typer.Option("--for", metavar="LENGTH", help="How long the consent holds: 90d. For good if not given."),
    ] = None,
) -> None:
    """Add a source, after a check that it can be read.

    What is not on this machine, mail for one, is read only with your consent: you are asked, or give --consent.
    Written down at once; deployed at once if the server runs, else by `catchment up`.
    """
    given = {**arguments.settings(assignments or []), **arguments.secrets(secrets or [])}
    if priority:
        given["priority"] = priority
    entry = source_lifecycle.prepare(
        kind, location, name, given, source_lifecycle.Timing(every, cron, rrule, watch, debounce)
    )
    told = source_lifecycle.commit(entry, consent.agreement(entry, given=agreed, length=agreed_for))
    render.say(f"added {name}: {render.clean(told)}")
    if session.running():
        render.say(f"Bring it in now: `catchment sync {name} --wait`")
    else:
        render.say("It will be deployed by `catchment up`.")


@app.command("list")
def list_sources(as_json: arguments.Json = False) -> None:
    """List the sources with their kinds, states and schedules."""
    entries = source_lifecycle.entries()
    states = _states()
    rows = [_row(entry, states) for entry in entries.values()]
    if as_json:
        render.show_json(rows)
    elif rows:
        headers = ("NAME", "KIND", "STATE", "PRIORITY", "SCHEDULE")
        render.show_table(headers, [tuple(row.values())[:5] for row in rows], states={"STATE"})
    else:
        render.note("there is no source yet; see `catchment sources add --help`")


@app.command("show")
def show_source(name: session.SourceName, as_json: arguments.Json = False) -> None:
    """Show the settings, the next run and the last syncs."""
    entry = source_lifecycle.entry(name)
    shown = _row(entry, _states())
    planned = None
    if server := session.running():
        from deployments.server.planned import planned as runs_to_come

        planned = next(iter(runs_to_come(server, name, 1) or ()), None)
    settings = entry.settings.model_dump(mode="json", exclude_none=True)
    recent = _recent(name)
    if as_json:
        next_run = planned.told() if planned else None
        render.show_json({**shown, "next_run": next_run, "settings": settings, "syncs": [_sync(row) for row in recent]})
        return
    render.show_fields({**shown, "next run": planned and planned.at, **arguments.flat(settings)})
    if recent:
        render.say()
        headers = ("SYNC", "BEGAN", "OUTCOME", "SUMMARY")
        render.show_table(headers, [(s.id, s.began, s.outcome, arguments.summary(s.summary)) for s in recent])


app.command("next")(upcoming.preview)


@app.command()
def pause(name: session.SourceName, reason: arguments.Why = "") -> None:
    """Stop syncing a source; what is in the library stays."""
    with session.writing() as ledger:
        source = source_lifecycle.known(ledger, name)
        ledger.sources.pause(name, session.operator(), reason)
    _switch(source, on=False)
    render.say(f"{name} is paused; go on with `catchment sources resume {name}`")


@app.command()
def resume(name: session.SourceName) -> None:
    """Go on with a source that is paused or held."""
    with session.writing() as ledger:
        source = source_lifecycle.known(ledger, name)
        ledger.sources.resume(name, session.operator())
    _switch(source, on=True)
    render.say(f"{name} goes on")


@app.command()
def remove(
    name: session.SourceName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    reason: arguments.Why = "",
) -> None:
    """Forget a source and its documents.

    The documents leave the library; nothing at the source itself is touched.
    """
    if name not in source_lifecycle.entries() and name not in _states():
        source_lifecycle.entry(name)
    if not yes:
        if not render.interactive():
            raise BadInput("nobody is there to ask; give --yes to remove it without being asked")
        typer.confirm(f"Remove {name} and its documents from the library?", abort=True, err=True)
    source_lifecycle.withdraw(name, session.operator(), reason)
    render.say(f"removed {name}")


@app.command("test")
def probe(name: session.SourceName) -> None:
    """Check that a source can be read now."""
    entry = source_lifecycle.entry(name)
    source_lifecycle.require_consent(entry)
    render.say(render.clean(source_lifecycle.probe(entry)))


def _switch(source: Source, *, on: bool) -> None:
    """Show the pause in the Prefect UI too. What counts is the ledger, which every sync asks before it begins."""
    server = session.running()
    if server is None:
        return
    from deployments.runs import runs

    # A source that is not deployed yet has no switch there.
    with suppress(NotFound):
        (runs.resume if on else runs.pause)(server, source.kind, source.name)


def _row(entry: SourceEntry, states: dict[str, str]) -> dict[str, Any]:
    return {
        "name": entry.name,
        "kind": entry.kind,
        "state": states.get(entry.name, "paused" if entry.paused else "active"),
        "priority": entry.settings.priority,
        "schedule": arguments.timing(entry.schedules, entry.watch, entry.quiet),
    }


def _states() -> dict[str, str]:
    try:
        with session.reading() as ledger:
            return {source.name: source.state for source in ledger.sources.all()}
    except NotFound:
        return {}


def _recent(name: str) -> list[SyncRow]:
    try:
        with session.reading() as ledger:
            return ledger.syncs.recent(ledger.sources.get(name).id, limit=10)
    except NotFound:
        return []


def _sync(row: SyncRow) -> dict[str, Any]:
    return {
        "sync": row.id,
        "run": row.run,
        "began": row.began,
        "ended": row.ended,
        "outcome": row.outcome,
        "summary": row.summary,
        "error": row.error,
    }
