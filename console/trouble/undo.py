"""`catchment undo`: bring the library back to what it was before a sync."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from console import arguments, render, session

if TYPE_CHECKING:
    from catchment.ledger.items.undo import Undone

_SHOWN = 50


def undo(
    sync: Annotated[
        int,
        typer.Argument(
            metavar="SYNC",
            max=arguments.LARGEST,
            help="The number of the sync; `catchment sources show NAME` lists them.",
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would do.")] = False,
    reason: arguments.Why = "",
    as_json: arguments.Json = False,
) -> None:
    """Take back what a sync did to the library.

    Nothing is changed at the source, and what was undone stays so until it changes there.
    """
    if dry_run:
        with session.reading() as ledger:
            done = ledger.undo.preview(sync)
    else:
        from catchment.runtime.process import alive

        with session.writing() as ledger:
            done = ledger.undo.undo(sync, session.operator(), reason, alive)
    if as_json:
        deeds = [{"do": deed, "item": path} for path, deed in done.deeds.items()]
        render.show_json({"source": done.source, "sync": sync, "undo": done.number, "deeds": deeds})
    else:
        _show(done)


def _show(done: Undone) -> None:
    from catchment.ledger.items.undo import UndoAction

    if not done.deeds:
        render.say(f"{done.source} is as it was before sync {done.sync_id} already")
        return
    shown = list(done.deeds.items())[:_SHOWN]
    render.show_table(("DO", "ITEM"), [(deed, path) for path, deed in shown])
    if len(done.deeds) > len(shown):
        render.say(f"… and {len(done.deeds) - len(shown)} more; --json tells them all")
    words = {
        UndoAction.BRING_BACK: "brought back",
        UndoAction.SET_BACK: "set back",
        UndoAction.TAKE_OUT: "taken out",
        UndoAction.LEFT: "left, for they changed again",
    }
    told = ", ".join(f"{number} {how}" for deed, how in words.items() if (number := done.count(deed)))
    if done.number is None:
        render.say(f"{done.source}: sync {done.sync_id} would be undone: {told}")
    else:
        render.say(f"{done.source}: {told}; to have it again: `catchment undo {done.number}`")
