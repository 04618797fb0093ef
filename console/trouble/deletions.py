"""`catchment deletions`: deletions that were held back because there were too many at once, or the root was another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from catchment.errors import NotFound
from console import arguments, render, session
from console.help_pages import CommandGroup

if TYPE_CHECKING:
    from catchment.ledger import Ledger

app = CommandGroup("Decide about deletions that were held back.")


@app.command("list")
def list_held(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Only of this source.", autocompletion=session.source_names)
    ] = None,
    as_json: arguments.Json = False,
) -> None:
    """List the deletions that wait for your decision."""
    with session.reading() as ledger:
        holds = ledger.intake.holds(ledger.sources.get(name).id if name else None)
    if as_json:
        render.show_json(
            [
                {"source": h.source, "deletions": h.count, "reason": h.reason, "since": h.held, "sync": h.sync_id}
                for h in holds
            ]
        )
    elif holds:
        render.show_table(
            ("SOURCE", "DELETIONS", "SINCE", "REASON"), [(h.source, h.count, h.held, h.reason) for h in holds]
        )
        render.say("Really gone: `catchment deletions apply NAME`. Coming back: `catchment deletions drop NAME`.")
    else:
        render.note("no deletions are held")


@app.command()
def apply(name: session.SourceName, reason: arguments.Why = "") -> None:
    """Let the held deletions happen: the items are really gone.

    Their documents leave the library; what is there again at a later sync comes back.
    """
    with session.writing() as ledger:
        number = ledger.intake.apply_hold(_held(ledger, name), session.operator(), reason)
    render.say(f"{name}: {render.count(number, 'document')} deleted")


@app.command()
def drop(name: session.SourceName, reason: arguments.Why = "") -> None:
    """Forget the held deletions: the next sync looks afresh."""
    with session.writing() as ledger:
        number = ledger.intake.drop_hold(_held(ledger, name), session.operator(), reason)
    render.say(f"{name}: {render.count(number, 'deletion')} dropped; the next sync looks afresh")


def _held(ledger: Ledger, name: str) -> int:
    source = ledger.sources.get(name)
    if not ledger.intake.holds(source.id):
        raise NotFound(f"no deletions of {name} are held; see `catchment deletions list`")
    return source.id
