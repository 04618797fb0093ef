"""`catchment plan`: preview a sync."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.errors import BadInput
from catchment.model import in_words
from catchment.runtime.home import expanded
from console import arguments, render, session

if TYPE_CHECKING:
    from catchment.sync.plan import Plan

_SHOWN = 50


def plan(
    name: session.SourceName,
    deep: Annotated[bool, typer.Option("--deep", help="Compare contents instead of sizes and times.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the plan for `catchment sync --plan`.")
    ] = None,
    as_json: arguments.Json = False,
) -> None:
    """Preview what a sync would add, update, move and delete.

    Lists the source without changing it.

    Example: catchment plan notes --out notes.plan
    """
    from catchment.sync.plan import make_plan
    from deployments.actions import previews

    desk = session.desk()
    desk.entry(name)
    with session.writing() as ledger:
        preview: Plan = previews.compared(desk, ledger, name, make_plan, deep=deep)
    if out is not None:
        _write(expanded(out), preview.to_json())
    if as_json:
        render.show_json(previews.SyncPreview.of(preview))
        return
    _show(preview)
    if out is not None:
        render.say(f"To apply this plan: `catchment sync {name} --plan {shlex.quote(str(out))}`")


def _show(preview: Plan) -> None:
    if not preview.steps and not preview.waiting:
        render.say("A sync would change nothing.")
        return
    rows = [
        (str(action), number, render.size(size) if size else "") for action, (number, size) in preview.totals.items()
    ]
    if preview.waiting:
        rows.append(("continue unfinished", preview.waiting, ""))
    render.show_table(("ACTION", "ITEMS", "TO READ"), rows)
    render.say()
    shown = preview.steps[:_SHOWN]
    if shown:
        words = [(s.action, s.item, f"from {s.was}" if s.was else (s.why or "")) for s in shown]
        render.show_table(("ACTION", "ITEM", "DETAIL"), words)
    if len(preview.steps) > len(shown):
        render.say(f"… and {len(preview.steps) - len(shown)} more; --json lists all")
    render.say(_estimate(preview))


def _estimate(preview: Plan) -> str:
    if preview.seconds is None:
        reads_data = preview.reads or preview.waiting
        return "Duration: unknown before the first sync." if reads_data else "No data would be read."
    requests = f", with about {render.count(preview.requests, 'request')}" if preview.requests else ""
    return f"Estimated duration: {in_words(max(1.0, preview.seconds))}{requests}."


def _write(file: Path, content: object) -> None:
    """Write a plan with mode 0600. An existing file is replaced, not overwritten: others may have it open."""
    import json

    from catchment.runtime import atomic_files

    data = json.dumps(content).encode()
    if file.is_file() or not file.exists():
        file = file.resolve()
        if not file.parent.is_dir():
            raise BadInput(f"{file.parent.name}: no such folder; choose a file in an existing one")
        atomic_files.write(file, data)
    else:
        # a pipe or a terminal
        file.write_bytes(data)
