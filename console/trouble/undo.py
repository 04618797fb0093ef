"""`catchment undo`: restore the library to its state before a sync."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from console import arguments, render, session

if TYPE_CHECKING:
    from catchment.ledger import Undone

_SHOWN = 50
_ACTIONS = {"take out": "remove", "bring back": "restore", "set back": "revert", "left": "skip"}
"""Words for the actions. Their values are part of the JSON output."""


def undo(
    sync: Annotated[
        int,
        typer.Argument(
            metavar="SYNC",
            max=arguments.LARGEST,
            help="Number of the sync; `catchment sources show NAME` lists them.",
        ),
    ],
    dry_run: arguments.DryRun = False,
    reason: arguments.Why = "",
    as_json: arguments.Json = False,
) -> None:
    """Undo the changes of a sync in the library.

    The source is not changed. An undone item stays undone until it changes at the source.

    Example: catchment undo 34 --dry-run
    """
    if dry_run:
        with session.reading() as ledger:
            undone = ledger.undo.preview(sync)
    else:
        from deployments.actions import syncs

        undone = syncs.undo(session.desk(), sync, session.operator(), reason)
    if as_json:
        render.show_json(undone)
    else:
        _show(undone)


def _show(undone: Undone) -> None:
    if not undone.actions:
        with session.reading() as ledger:
            undo = ledger.undo.undone_by(undone.sync_id)
        if undo is None:
            render.say(f"{undone.source}: sync {undone.sync_id} changed nothing that could be undone")
        else:
            render.say(
                f"{undone.source}: sync {undone.sync_id} is undone already; "
                f"`catchment undo {undo}` brings its changes back"
            )
        _show_waiting(undone)
        return
    shown = list(undone.actions.items())[:_SHOWN]
    render.show_table(("ACTION", "ITEM"), [(_ACTIONS[action.value], path) for path, action in shown])
    if len(undone.actions) > len(shown):
        render.say(f"… and {len(undone.actions) - len(shown)} more; --json lists all")
    show_counts(undone)
    _show_waiting(undone)


def _show_waiting(undone: Undone) -> None:
    if undone.waiting:
        render.say(
            f"waiting, not undone: {render.count(undone.waiting, 'item')}; a later sync stores what this one found"
        )


def show_counts(undone: Undone) -> None:
    """Describe the effect of an undo, or of its preview, in one line."""
    from deployments.actions import outcomes

    number = undone.number
    more = f"to revert: `catchment undo {number}`" if number else f"undoing sync {undone.sync_id} would do this"
    render.say(f"{outcomes.undone(undone)}; {more}")
