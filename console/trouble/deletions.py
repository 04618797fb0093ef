"""`catchment deletions`: deletions held for confirmation: too many at once, or another root in its place."""

from __future__ import annotations

from typing import Annotated

import typer

from console import arguments, render, session
from console.help_pages import CommandGroup

app = CommandGroup("Confirm or drop held deletions.\n\nExample: catchment deletions list")


@app.command("list")
def list_held(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Only this source.", autocompletion=session.source_names)
    ] = None,
    as_json: arguments.Json = False,
) -> None:
    """List held deletions.

    Example: catchment deletions list notes
    """
    with session.reading() as ledger:
        holds = ledger.intake.holds(ledger.sources.get(name).id if name else None)
    if render.show_rows(
        holds,
        as_json,
        ("SOURCE", "DELETIONS", "SINCE", "REASON"),
        lambda hold: (hold.source, hold.count, hold.held, hold.reason),
        "no held deletions",
    ):
        render.say("Confirm them: `catchment deletions apply NAME`. Discard them: `catchment deletions drop NAME`.")


@app.command()
def apply(name: session.SourceName, reason: arguments.Why = "") -> None:
    """Confirm held deletions and remove the documents.

    Items that a later sync finds again are restored.

    Example: catchment deletions apply notes
    """
    from deployments.actions import outcomes, sources

    number = sources.apply_deletions(session.desk(), name, session.operator(), reason)
    render.say(outcomes.deletions_applied(name, number))


@app.command()
def drop(name: session.SourceName, reason: arguments.Why = "") -> None:
    """Discard held deletions; the next sync compares again.

    Example: catchment deletions drop notes
    """
    from deployments.actions import outcomes, sources

    number = sources.drop_deletions(session.desk(), name, session.operator(), reason)
    render.say(outcomes.deletions_dropped(name, number))
