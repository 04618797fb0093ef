"""`catchment sinks` and `catchment export`: copies of the documents for other programs, kept up to date or made once."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.errors import BadInput
from catchment.runtime.home import expanded
from catchment.views.upkeep import SinkView
from console import arguments, render, session
from console.help_pages import CommandGroup

if TYPE_CHECKING:
    from catchment.ledger import SinkRow

app = CommandGroup("Keep copies of all documents in other places.\n\nExample: catchment sinks list")

_NAMED = 5


def _names(incomplete: str) -> list[str]:
    sinks = session.asked(lambda ledger: ledger.outbox.all(), ())
    return [sink.name for sink in sinks if sink.name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the sink.", autocompletion=_names)]


@app.command()
def add(
    *,
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="Such as folder, jsonl, parquet, postgresql, chroma, neo4j.")
    ],
    place: Annotated[str, typer.Argument(metavar="PLACE", help="An empty or new folder, or an address.")],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Short name.")],
    secrets: Annotated[
        list[str] | None,
        typer.Option("--secret", metavar="password=REF", help="Reference: env:VAR, file:PATH, keyring:…, block:…"),
    ] = None,
    agreed: Annotated[bool, typer.Option("--consent", help="Agree that documents leave this machine.")] = False,
) -> None:
    """Copy all documents to another place, now and after each change.

    Documents that leave the library are deleted there, too. An address of another machine, or a folder on a network disk, needs
    consent: confirm the question or pass --consent.

    Example: catchment sinks add folder ~/Documents/Library --name library
    """
    from deployments.actions import outcomes, sinks
    from sinks import is_folder

    by_key = arguments.secrets(secrets or [])
    if by_key.keys() - {"password"}:
        raise BadInput("--secret: a sink has only the secret password; use --secret password=REF")
    if is_folder(kind):
        place = str(expanded(Path(place)).absolute())
    secret, consented = by_key.get("password"), agreed or _is_agreed(kind, place)
    sinks.add(session.desk(), kind, place, name, session.operator(), secret=secret, consented=consented)
    render.say(outcomes.SINK_ADDED.format(name))
    say_when()


@app.command("list")
def list_sinks(as_json: arguments.Json = False) -> None:
    """List the sinks, and when each was last known to be up to date.

    While Catchment runs, it looks at each every five minutes.

    Example: catchment sinks list
    """
    sink_rows = session.asked(lambda ledger: ledger.outbox.all(), ())
    if render.show_rows(
        sink_rows,
        as_json,
        ("SINK", "KIND", "STATE", "WAITING", "REFUSED", "UP TO DATE", "PLACE"),
        lambda sink: (
            *(sink.name, sink.kind, _state(sink), sink.waiting, sink.refused),
            *(render.ago(sink.current), sink.place),
        ),
        "no sinks; add one: `catchment sinks add folder ~/Documents/Library --name library`",
    ):
        for sink in sink_rows:
            if sink.error:
                render.note(f"{sink.name}: {render.clean(sink.error)}")


@app.command()
def show(name: Name, as_json: arguments.Json = False) -> None:
    """Show a sink, its last error, and the documents that it refused.

    Example: catchment sinks show library
    """
    with session.reading() as ledger:
        sink = ledger.outbox.get(name)
        refusals = ledger.outbox.refusals(sink)
    if as_json:
        render.show_json(SinkView(sink, refusals))
        return
    render.show_fields(
        {
            "sink": sink.name,
            "kind": sink.kind,
            "place": sink.place,
            "state": _state(sink),
            "waiting": sink.waiting,
            "up to date": render.ago(sink.current) if sink.current else "never",
            "error": sink.error and render.clean(sink.error),
            "next attempt": render.ago(sink.not_before) if sink.not_before else None,
            "refused": sink.refused,
        }
    )
    for number, reason in refusals.items():
        render.say(f"document {number}: {render.clean(reason)}")


@app.command()
def check(name: Name, as_json: arguments.Json = False) -> int:
    """Compare a sink with the library, document by document.

    Exits with 1 if they differ. `catchment sinks resume` repairs it.

    Example: catchment sinks check library
    """
    from deployments.actions import sinks

    differences = sinks.check(session.desk(), name)
    with session.reading() as ledger:
        refused = ledger.outbox.get(name).refused
    differ = any(asdict(differences).values())
    if as_json:
        render.show_json(differences)
        return int(differ)
    for words, numbers in (
        ("missing there", differences.missing),
        ("differ there", differences.outdated),
        ("only there", differences.surplus),
    ):
        if numbers:
            more = ", …" if len(numbers) > _NAMED else ""
            ids = ", ".join(map(str, numbers[:_NAMED]))
            render.say(f"{name}: {render.count(len(numbers), 'document')} {words} ({ids}{more})")
    if refused:
        render.say(f"{name}: {render.count(refused, 'document')} refused; see `catchment sinks show {name}`")
    render.say(f"{name}: repair it with `catchment sinks resume {name}`" if differ else f"{name}: equals the library")
    return int(differ)


@app.command()
def pause(name: Name, reason: arguments.Why = "") -> None:
    """Stop the deliveries to a sink until it is resumed.

    A batch that is being written is completed, and so is the emptying of `rebuild`.

    Example: catchment sinks pause library
    """
    from deployments.actions import outcomes, sinks

    sinks.pause(session.desk(), name, session.operator(), reason)
    render.say(f"{outcomes.PAUSED.format(name)}; resume with `catchment sinks resume {name}`")


@app.command()
def resume(name: Name, reason: arguments.Why = "") -> None:
    """Compare a sink with the library, and send the differences.

    Also tries again after an error, and offers refused documents again.

    Example: catchment sinks resume library
    """
    from deployments.actions import outcomes, sinks

    sinks.resume(session.desk(), name, session.operator(), reason)
    render.say(outcomes.SINK_RESUMED.format(name))
    say_when()


@app.command()
def rebuild(name: Name, reason: arguments.Why = "") -> None:
    """Have all documents deleted at a sink and sent again.

    Example: catchment sinks rebuild library
    """
    from deployments.actions import outcomes, sinks

    sinks.rebuild(session.desk(), name, session.operator(), reason)
    render.say(outcomes.SINK_REBUILT.format(name))
    say_when()


@app.command()
def adopt(name: Name, reason: arguments.Why = "") -> None:
    """Take over a place to which another home or sink wrote.

    From now on, the other one is refused there. The next delivery makes the place equal to the library of this home. A restored
    or copied home needs this for each of its sinks. If the place cannot be reached, nothing is changed.

    Example: catchment sinks adopt library
    """
    from deployments.actions import outcomes, sinks

    adopted = sinks.adopt(session.desk(), name, session.operator(), reason)
    render.say(outcomes.SINK_ADOPTED.format(name))
    if adopted.state == "paused":
        render.say(f"{name}: paused; to send the differences: `catchment sinks resume {name}`")
    else:
        render.say(f"{name}: its next delivery sends the differences")
        say_when()


@app.command()
def remove(name: Name, reason: arguments.Why = "") -> None:
    """Stop the deliveries to a sink for good; its copies stay.

    Example: catchment sinks remove library
    """
    from deployments.actions import outcomes, sinks

    place = sinks.remove(session.desk(), name, session.operator(), reason).place
    render.say(outcomes.SINK_REMOVED.format(name, render.clean(place)))


def export(
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="A new folder, FILE.jsonl or FILE.parquet.")],
) -> None:
    """Copy all documents once: into a folder of Markdown, or a file.

    Files in the folder can be read again as a source, with the same text, tags, links and dates. See `catchment sinks` for
    copies that are kept up to date.

    Example: catchment export ~/Documents/Library
    """
    import sinks
    from catchment.sync import supply

    place = expanded(target).absolute()
    with session.reading() as ledger, sinks.exporting(place) as opened:
        counts = supply.export(ledger, opened)
    render.say(f"exported {render.count(counts.sent, 'document')} to {place}")
    if counts.refused:
        render.note(f"{render.count(counts.refused, 'document')} not exported: their names are not possible there")


def _is_agreed(kind: str, place: str) -> bool:
    """Ask for permission to send documents to another machine; False if the place is on this one or without a terminal."""
    from sinks import host_elsewhere

    host = host_elsewhere(kind, place)
    if host is None or not render.interactive():
        return False
    render.note(f"The text of all documents is sent to {render.clean(host)}, now and after each change.")
    return typer.confirm("Do you agree?", err=True)


def say_when() -> None:
    """Print how to start deliveries, if Catchment does not run."""
    if not session.running():
        render.say("Catchment does not run; to start deliveries: `catchment up --detach`")


def _state(sink: SinkRow) -> str:
    return "failing" if sink.error and sink.state == "active" else str(sink.state)
