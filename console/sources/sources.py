"""`catchment sources`: add, change, list, pause, resume, test and remove sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from catchment.errors import BadInput
from catchment.model import Priority
from catchment.runtime.membership import Membership, host_for
from catchment.typed_settings import settings
from console import arguments, render, session
from console.help_pages import CommandGroup
from console.operate import throttle
from console.sources import consent, upcoming
from console.sources.past_syncs import summary

if TYPE_CHECKING:
    from catchment.runtime.server_report import ServerReport
    from deployments.actions.sources import ChangedSetting, NewSource
    from deployments.sources.sources_file import SourceEntry

app = CommandGroup("Inspect, change, pause and remove sources.\n\nExample: catchment sources list")

_START = 300
"""Characters of the text of a first document."""

Every = Annotated[str | None, typer.Option(metavar="DURATION", help="Interval between syncs: 15m, 2h, 1d.")]
Cron = Annotated[str | None, typer.Option(metavar="CRON", help='Cron schedule: "0 7 * * *".')]
Rrule = Annotated[str | None, typer.Option(metavar="RRULE", help="Recurrence rule (RFC 5545).")]
Quiet = Annotated[
    float | None,
    typer.Option(min=0, max=120, metavar="SECONDS", help="Quiet period after a change. Default: 0.3 to 1."),
]


@app.command(now="add")
def add(
    *,
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="Kind of source; `catchment sources kinds` lists them. Alone: a file, - or an address.",
            autocompletion=session.kind_names,
        ),
    ],
    location: Annotated[
        str | None,
        typer.Argument(
            metavar="LOCATION",
            help="The place to read; `catchment add KIND --help` tells how it is written.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Short name: lower-case letters, digits, - and _.")
    ] = None,
    every: Every = None,
    cron: Cron = None,
    rrule: Rrule = None,
    watch: Annotated[bool, typer.Option("--watch", help="Also sync when a file changes.")] = False,
    debounce: Quiet = None,
    priority: Annotated[Priority | None, typer.Option(help="Priority of its items. Default: normal.")] = None,
    on: Annotated[
        str | None, typer.Option("--on", metavar="HOST|any", help="Run on this host, or on any that takes it.")
    ] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of the connector. Repeatable.")
    ] = None,
    secrets: Annotated[
        list[str] | None,
        typer.Option(
            "--secret",
            metavar="NAME=REF",
            help="Reference to a secret: env:VAR, file:PATH, keyring:SERVICE/USER, block:NAME. Repeatable.",
        ),
    ] = None,
    hosts: arguments.Hosts = None,
    agreed: Annotated[
        bool,
        typer.Option("--consent", help="Give consent without confirmation; see `catchment consent`."),
    ] = False,
    agreed_for: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="Let the consent expire, for example after 90d."),
    ] = None,
    dry_run: arguments.DryRun = False,
    reason: arguments.Why = "",
) -> None:
    """Add a source after checking that it can be read.

    `catchment add KIND --help` lists the settings of a kind. Sources outside this machine, such as mail, need consent: confirm
    the question or pass --consent. The source is deployed immediately, or by the next `catchment up`.

    --dry-run shows its first ten documents; nothing is stored.

    With a file, - (the standard input) or a web address alone, add that one thing to the inbox.

    Examples: catchment add obsidian ~/Vault --name notes --watch
              catchment add https://example.org/article
    """
    if location is None and kind not in session.kind_names(""):
        from console.operate import queue

        queue.add_one(kind, hosts or [], agreed, reason)
        return
    if location is None or name is None:
        raise BadInput(f"{'LOCATION' if location is None else '--name'}: missing; see `catchment add --help`")
    from connectors import connector_class

    values, named = settings(assignments or []), dict[str, Any](arguments.secrets(secrets or []))
    if "secrets" in connector_class(kind).settings.model_fields:
        named = {"secrets": {**values.get("secrets", {}), **named}}
    values = {**values, **named, **({"hosts": hosts} if hosts else {})}
    if priority:
        values["priority"] = priority
    from deployments.actions import outcomes, sources
    from deployments.actions.desk import Timing

    new = sources.NewSource(kind, location, name, values, Timing(every, cron, rrule, watch, debounce, on))
    until = consent.end_of(agreed_for)
    agreed = consent.is_agreed(new.written(session.desk()), agreed=agreed, until=until)
    if dry_run:
        _show_first(new, agreed=agreed)
        return
    result = sources.add(session.desk(), new, session.operator(), reason, consented=agreed, until=until)
    render.say(render.clean(outcomes.ADDED.format(name, result)))
    if session.running():
        render.say(f"Sync it now: `catchment sync {name} --wait`")
    else:
        render.say("Start Catchment to sync it: `catchment up --detach`")
    if kind == "pushed":
        render.say(f"Let a program push: `catchment tokens add PROGRAM --source {name}`")
    elif not (every or cron or rrule or watch):
        render.say(f"Keep it up to date: `catchment sources set {name} --every 15m`")


@app.command("set")
def set_source(
    *,
    name: session.SourceName,
    assignments: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE...", help="Settings, as listed by `add KIND --help`; null removes a value."),
    ] = None,
    every: Every = None,
    cron: Cron = None,
    rrule: Rrule = None,
    watch: Annotated[
        bool | None, typer.Option("--watch/--no-watch", help="Also sync when a file changes, or no longer.")
    ] = None,
    debounce: Quiet = None,
    priority: Annotated[Priority | None, typer.Option(help="Priority of its items.")] = None,
    dry_run: arguments.DryRun = False,
    reason: arguments.Why = "",
) -> None:
    """Change settings, schedule or watching of a source.

    Edits sources.yaml, keeping its comments, and deploys the change if Catchment runs. What identifies the source, such as its
    folder, cannot be changed (exit code 5).

    Example: catchment sources set notes exclude=*.tmp limits.max_mb=20 --every 1h --dry-run
    """
    from deployments.actions import outcomes, sources
    from deployments.actions.desk import Timing

    desk = session.desk()
    values = settings(assignments or []) | ({"priority": priority} if priority else {})
    timing = Timing(every, cron, rrule, watch, debounce)
    if not values and timing == Timing():
        raise BadInput("KEY=VALUE: nothing to change; see `catchment sources set --help`")
    entry = desk.revised(old := desk.entry(name), values, timing)
    changed = sources.differences(old, entry)
    if dry_run:
        _show_changes(changed)
        sources.require_same_place(name, changed)
        render.say(f"{name}: nothing was changed (--dry-run)" if changed else outcomes.changed(name, changed))
        return
    sources.change(desk, entry, session.operator(), reason)
    _show_changes(changed)
    later = "" if session.running() else "; `catchment up` applies it"
    render.say(f"{outcomes.changed(name, changed)}{later if changed else ''}")


@app.command("kinds")
def list_kinds(as_json: arguments.Json = False) -> None:
    """List the kinds of source and the quality that they claim.

    Example: catchment sources kinds --json
    """
    from connectors import described, problems

    if as_json:
        render.show_json(described())
        return
    rows = [
        (row.kind, words.title, words.example, words.level, row.version)
        for row in described()
        if not row.problem and (words := row.manifest)
    ]
    render.show_table(("KIND", "WHAT", "LOCATION", "QUALITY", "VERSION"), rows)
    for line in problems():
        render.note(render.clean(line))


@app.command("list")
def list_sources(as_json: arguments.Json = False) -> None:
    """List sources with their kind, state and schedule.

    Example: catchment sources list --json
    """
    from deployments.server.planned import latest_report

    if as_json:
        from catchment.views.sources import lines

        render.show_json(session.asked(lambda ledger: lines(ledger, session.home()), ()))
        return
    desk = session.desk()
    states = _states(latest_report(session.home()))
    if rows := [_facts(entry, states) for entry in (*desk.entries().values(), *desk.elsewhere().values())]:
        render.show_table([name.upper() for name in rows[0]], [[*row.values()] for row in rows])
    else:
        render.note("no sources yet; see `catchment add --help`")


@app.command("show")
def show_source(name: session.SourceName, as_json: arguments.Json = False) -> None:
    """Show settings, next run and recent syncs of a source.

    Example: catchment sources show notes
    """
    from catchment.views import sources
    from catchment.views.work import recognition
    from deployments.server.planned import latest_report

    entry = session.desk().entry(name)
    settings = entry.settings.model_dump(mode="json", exclude_none=True)
    report = latest_report(session.home(), name, runs=5)
    if as_json:
        with session.reading() as ledger:
            render.show_json(sources.source(ledger, session.home(), name, entry.timing, settings, report))
        return
    facts = _facts(entry, _states(report))
    # The runs of a paused or held source would read no items.
    is_planned = report and session.running() and facts["state"] == "active"
    planned = next(iter(report.runs.get(name, ())), None) if report and is_planned else None
    recent = session.asked(lambda ledger: ledger.syncs.recent(ledger.sources.get(name).id, limit=10), ())
    pictures = session.asked(lambda ledger: recognition.unread(ledger, source_id=ledger.sources.get(name).id), "")
    unread, next_run = consent.unread_hosts(entry), planned and planned.at
    render.show_fields({**facts, "pictures": pictures, "next run": next_run, **arguments.flat(settings)})
    for host in session.asked(lambda ledger: sources.line(ledger, session.home(), name, report).standing.away, ()):
        render.say(render.clean(f"Does not answer: {render.away(host)}"))
    if unread:
        number = f"{render.count(len(unread), 'host')} ({render.count(sum(unread.values()), 'address', 'addresses')})"
        render.say(f"Not read without consent: {number}; see `catchment consent show {name}`")
    if recent:
        render.say()
        headers = ("SYNC", "STARTED", "OUTCOME", "SUMMARY")
        render.show_table(headers, [(s.id, s.began, s.outcome, summary(s)) for s in recent])


app.command("next")(upcoming.preview)


@app.command()
def move(
    name: session.SourceName,
    to: Annotated[str, typer.Option("--to", metavar="HOST|any", help="This host, or any that takes the source.")],
    reason: arguments.Why = "",
) -> None:
    """Take over a source of another host, or let any host run it.

    Works while the other host is down. Run it on the host that shall have the source.

    Example: catchment sources move mail --to any
    """
    from deployments.actions import outcomes, sources

    result = sources.move(session.desk(), name, to, session.operator(), reason)
    render.say(render.clean(outcomes.MOVED.format(name, to, result)))


@app.command()
def pause(name: throttle.Scope, reason: arguments.Why = "") -> None:
    """Start no more syncs of a source, a kind or all; documents stay.

    The running sync of a source ends after its present batch. With source:NAME, kind:KIND or all, it sends no request, but
    the sync of a folder continues to its end.

    Examples: catchment sources pause notes --reason "moving house"
              catchment sources pause all
    """
    if _is_scope(name):
        throttle.pause(name, reason)
        return
    from deployments.actions import outcomes, sources

    sources.pause(session.desk(), name, session.operator(), reason)
    render.say(f"{outcomes.PAUSED.format(name)}; resume with `catchment sources resume {name}`")


@app.command()
def resume(name: throttle.Scope, reason: arguments.Why = "") -> None:
    """Resume a paused or held source, a kind or all, and sync.

    Name it as it was paused. Limits stay.

    Example: catchment sources resume notes
    """
    if _is_scope(name):
        throttle.resume(name, reason)
        return
    from deployments.actions import outcomes, sources

    sources.resume(session.desk(), name, session.operator(), reason)
    render.say(outcomes.RESUMED.format(name))


@app.command()
def remove(
    name: session.SourceName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    dry_run: arguments.DryRun = False,
    reason: arguments.Why = "",
) -> None:
    """Remove a source and its documents from the library.

    The source is not changed.

    Example: catchment sources remove notes
    """
    from deployments.actions import outcomes, sources

    sources.require(session.desk(), name)
    if dry_run:
        with session.reading() as ledger:
            number = ledger.library.sizes().get(name, 0)
        render.say(f"{name}: would be removed with {render.count(number, 'document')}; nothing was changed (--dry-run)")
        return
    if not yes:
        reason = session.confirmed(f"Remove {name} and its documents from the library?", "remove", reason)
    sources.remove(session.desk(), name, session.operator(), reason)
    render.say(outcomes.REMOVED.format(name))


@app.command("test")
def probe(name: session.SourceName) -> None:
    """Check that a source can be read.

    If its last sync could not read it, it is resumed and synced.

    Example: catchment sources test notes
    """
    from deployments.actions import sources

    render.say(render.clean(sources.test(session.desk(), name, session.operator())))


def _is_scope(name: str) -> bool:
    return name == "all" or ":" in name or (name in session.kind_names("") and name not in session.desk().entries())


def _show_first(new: NewSource, *, agreed: bool) -> None:
    from deployments.actions import previews

    documents = previews.first_documents(session.desk(), new, consented=agreed)
    for document in documents:
        date = render.local(document.modified) if document.modified else "no date"
        render.say(render.clean(f"{document.locator} · {document.title or '-'} · {date}"))
        if words := document.problem or " ".join(document.text.split())[:_START]:
            render.say(render.clean(f"  {words}"))
        if document.properties:
            render.say(render.clean(f"  properties: {', '.join(document.properties)}"))
    render.say(f"{new.name}: {render.count(len(documents), 'document')} shown; nothing was stored (--dry-run)")


def _show_changes(changed: list[ChangedSetting]) -> None:
    if changed:
        rows = [
            (
                setting.key,
                _value(setting.key, setting.before),
                _value(setting.key, setting.after),
                "yes" if setting.is_identity else "no",
            )
            for setting in changed
        ]
        render.show_table(("SETTING", "NOW", "NEW", "IDENTITY"), rows)


def _value(key: str, value: Any) -> object:
    from deployments.sources.sources_file import timing

    if key == "schedule":
        return timing(value, watch=False)
    if key == "watch":
        return timing((), *value) if value[0] else "no"
    if isinstance(value, bool):
        return str(value).lower()
    shown = ", ".join(map(str, value)) if isinstance(value, list) else value
    return "-" if shown in (None, "") else shown


def _facts(entry: SourceEntry, states: dict[str, str]) -> dict[str, object]:
    """Return a source as sources.yaml has it, and on which host it runs, unless this home runs alone."""
    host = Membership.of(session.home())
    return {
        "name": entry.name,
        "kind": entry.kind,
        "state": states.get(entry.name, "paused" if entry.paused else "active"),
        "priority": entry.settings.priority,
        "schedule": entry.timing,
        **({"on": host_for(entry.queue) or host.name} if host else {}),
    }


def _states(report: ServerReport | None) -> dict[str, str]:
    from catchment.views.waits import state_of

    return session.asked(
        lambda ledger: {source.name: state_of(source.name, source, report)[0] for source in ledger.sources.all()}, {}
    )
