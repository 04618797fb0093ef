"""`catchment plan`: what a sync would do."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.errors import BadInput
from catchment.runtime.home import expanded
from console import arguments, render, session
from console.sources import source_lifecycle

if TYPE_CHECKING:
    from catchment.ledger import Ledger
    from catchment.sync.plan import Plan
    from deployments.sources.sources_file import SourceEntry

_SHOWN = 50


def plan(
    name: session.SourceName,
    deep: Annotated[bool, typer.Option("--deep", help="Compare contents, not only sizes and times.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it down for `catchment sync --plan`.")] = None,
    as_json: arguments.Json = False,
) -> None:
    """Say what a sync would add, change, move and delete.

    Lists the source and changes nothing.
    """
    entry = source_lifecycle.entry(name)
    with session.writing() as ledger:
        found = _rehearse(ledger, entry, deep=deep)
    told = found.to_json()
    if out is not None:
        _write(expanded(out), told)
    if as_json:
        render.show_json(told)
        return
    _show(found)
    if out is not None:
        render.say(f"To do just that: `catchment sync {name} --plan {shlex.quote(str(out))}`")


def _rehearse(ledger: Ledger, entry: SourceEntry, *, deep: bool) -> Plan:
    """The plan of a source as it is written down now."""
    from catchment.sync.plan import make_plan
    from connectors import connector_class

    source_lifecycle.read_blocks()
    connector = connector_class(entry.kind)
    policy = entry.settings.policy(connector.policy)
    made = connector(entry.settings)
    return make_plan(session.home(), ledger, source_lifecycle.known(ledger, entry.name), made, policy, deep=deep)


def _show(found: Plan) -> None:
    if not found.steps and not found.waiting:
        render.say("a sync would do nothing")
        return
    rows = [(str(deed), number, render.size(size) if size else "") for deed, (number, size) in found.totals.items()]
    if found.waiting:
        rows.append(("as left before", found.waiting, ""))
    render.show_table(("A SYNC WOULD", "ITEMS", "TO READ"), rows)
    render.say()
    shown = found.steps[:_SHOWN]
    if shown:
        words = [(s.deed, s.item, f"from {s.was}" if s.was else (s.why or "")) for s in shown]
        render.show_table(("DO", "ITEM", ""), words)
    if len(found.steps) > len(shown):
        render.say(f"… and {len(found.steps) - len(shown)} more; --json tells them all")
    render.say(_estimate(found))


def _estimate(found: Plan) -> str:
    if found.seconds is None:
        nothing = not found.reads and not found.waiting
        return "Nothing would be read." if nothing else "How long it takes is known after the first sync."
    asked = f", with about {render.count(found.requests, 'request')}" if found.requests else ""
    return f"It would take about {render.span(max(1.0, found.seconds))}{asked}."


def _write(file: Path, told: object) -> None:
    """Write a plan for its owner alone, in the place of a file that others may read or have open."""
    import json

    from catchment.runtime import atomic_files

    data = json.dumps(told).encode()
    if file.is_file() or not file.exists():
        file = file.resolve()
        if not file.parent.is_dir():
            raise BadInput(f"There is no folder {file.parent.name}; name a file in one that is there")
        atomic_files.write(file, data)
    else:
        # A pipe or a terminal.
        file.write_bytes(data)
