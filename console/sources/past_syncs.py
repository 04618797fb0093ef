"""`catchment syncs`: the syncs, and the changed items of each, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from catchment.model import in_words
from console import arguments, render, session
from console.help_pages import CommandGroup

if TYPE_CHECKING:
    from catchment.ledger import SyncRow

app = CommandGroup("List syncs and what they changed.\n\nExample: catchment syncs show 34")


@app.command("list")
def list_syncs(
    source: Annotated[
        str | None,
        typer.Argument(metavar="[SOURCE]", help="Only syncs of this source.", autocompletion=session.source_names),
    ] = None,
    since: arguments.Since = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, metavar="N", help="Maximum number of syncs.")] = 20,
    as_json: arguments.Json = False,
) -> None:
    """List syncs, latest first.

    Example: catchment syncs list notes
    """
    from catchment.views.work import syncs

    with session.reading() as ledger:
        rows = [row for row in syncs.syncs(ledger, source, limit=limit).rows if since is None or row.began >= since]
    render.show_rows(
        rows,
        as_json,
        ("SYNC", "SOURCE", "OUTCOME", "STARTED", "TOOK", "RESULT"),
        lambda row: (row.id, row.source, row.outcome or "running", row.began, _took(row), _result(row)),
        "no sync since then" if since else "no sync yet; start one: `catchment sync NAME`",
    )


@app.command("show")
def show_sync(
    sync: Annotated[int, typer.Argument(metavar="SYNC", max=arguments.LARGEST, help="Number of the sync.")],
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, metavar="N", help="Maximum number of paths.")] = 100,
    as_json: arguments.Json = False,
) -> None:
    """Show a sync and the paths that it changed.

    Paths are known for 30 days, or `keep_days` of the source. `catchment why PATH` explains one of them; `catchment undo SYNC`
    takes the changes back.

    Example: catchment syncs show 34
    """
    from catchment.views.work import syncs

    with session.reading() as ledger:
        sync_view = syncs.sync_and_changes(ledger, sync, limit=limit)
    if as_json:
        render.show_json(sync_view)
        return
    view = sync_view.sync
    row = view.sync
    render.show_fields(
        {
            "sync": row.id,
            "source": row.source,
            "outcome": row.outcome or "running",
            "started": row.began,
            "took": _took(row),
            "result": _result(row),
            "unfinished": view.waiting or None,
            "undo": view.undo_refusal and f"not possible: {view.undo_refusal}",
            "undone by": view.undone_by,
            "run": session.run_address(row.run),
        }
    )
    paths = [
        (kind, f"{change.path} (was {change.moved_from})" if change.moved_from else change.path)
        for kind, changes in sync_view.changes.items()
        for change in changes.rows
    ]
    if paths:
        render.say()
        render.show_table(("CHANGE", "PATH"), paths[:limit])
        if (more := sum(changes.total for changes in sync_view.changes.values()) - len(paths[:limit])) > 0:
            render.say(f"and {more:,} more; see --limit")


def _took(row: SyncRow) -> str:
    return in_words((row.ended - row.began).total_seconds()) if row.ended else ""


def _result(row: SyncRow) -> str:
    return row.error or summary(row)


def summary(row: SyncRow) -> str:
    """Return the result of a sync in words; empty if it ended without a result."""
    return arguments.summary(row.summary, is_complete=row.outcome == "completed")
