"""`catchment syncs`: the syncs, and what each changed in the library, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from catchment.model import in_words
from console import arguments, render, session
from console.help_pages import CommandGroup

if TYPE_CHECKING:
    from catchment.ledger import ChangeKind, Ledger, PathChange, SyncRow

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
    from catchment.views import syncs

    with session.reading() as ledger:
        rows = [row for row in syncs.syncs(ledger, source, limit=limit).rows if since is None or row.began >= since]
    if as_json:
        render.show_json([{"source": row.source, **plain(row)} for row in rows])
    elif rows:
        headers = ("SYNC", "SOURCE", "OUTCOME", "STARTED", "TOOK", "RESULT")
        table = [(r.id, r.source, r.outcome or "running", r.began, _took(r), _result(r)) for r in rows]
        render.show_table(headers, table, states={"OUTCOME"})
    else:
        render.note("no sync since then" if since else "no sync yet; start one: `catchment sync NAME`")


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
    from catchment.ledger import ChangeKind
    from catchment.views import syncs

    with session.reading() as ledger:
        view = syncs.sync(ledger, sync)
        changes = {kind: _changes(ledger, sync, kind, limit) for kind in ChangeKind}
    row, counts = view.sync, {kind.value: getattr(view.changes, kind) for kind in ChangeKind}
    if as_json:
        named = {kind.value: [_change(change) for change in found] for kind, found in changes.items()}
        render.show_json(
            {"source": row.source, **plain(row), "counts": counts, "is_exact": view.changes.is_exact, "changes": named}
        )
        return
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
        (kind.value, f"{change.path} (was {change.moved_from})" if change.moved_from else change.path)
        for kind, found in changes.items()
        for change in found
    ]
    if paths:
        render.say()
        render.show_table(("CHANGE", "PATH"), paths[:limit])
        if (more := sum(counts.values()) - len(paths[:limit])) > 0:
            render.say(f"and {more:,} more; see --limit")


def _changes(ledger: Ledger, sync: int, kind: ChangeKind, limit: int) -> list[PathChange]:
    from catchment.views import syncs

    found: list[PathChange] = []
    after: str | None = None
    while len(found) < limit:
        page = syncs.changes(ledger, sync, kind, after=after, limit=limit - len(found))
        found += page.rows
        if (after := page.next) is None:
            break
    return found


def _took(row: SyncRow) -> str:
    return in_words((row.ended - row.began).total_seconds()) if row.ended else ""


def _result(row: SyncRow) -> str:
    return row.error or summary(row)


def summary(row: SyncRow) -> str:
    """Return what a sync did, in words; empty for one that ended without a result."""
    return arguments.summary(row.summary, is_complete=row.outcome == "completed")


def plain(row: SyncRow) -> dict[str, Any]:
    """Return a sync for `--json`."""
    return {
        "sync": row.id,
        "run": row.run,
        "began": row.began,
        "ended": row.ended,
        "outcome": row.outcome,
        "summary": row.summary,
        "error": row.error,
    }


def _change(change: PathChange) -> dict[str, Any]:
    return {
        "path": change.path,
        "title": change.title,
        "document": change.document,
        "moved_from": change.moved_from,
    }
