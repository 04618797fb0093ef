"""`catchment prove`: whether the library has what the source has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from catchment.errors import NotFound
from console import arguments, render, session
from console.sources import source_lifecycle

if TYPE_CHECKING:
    from catchment.ledger import Ledger
    from catchment.sync.prove import FolderProof, Proven
    from deployments.sources.sources_file import SourceEntry

_FOLDERS_SHOWN = 20
_ITEMS_SHOWN = 50


def prove(
    name: session.SourceName,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also parse a random sample of 200 items afresh and compare their texts.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Queue what is missing or stale again, and let go of what is gone.")
    ] = False,
    as_json: arguments.Json = False,
) -> int:
    """Compare a source with the library, item by item.

    Lists it anew and compares contents, documents, passages and the index. Exits with 1 when something differs, or with
    --repair when deletions are held.
    """
    entry = source_lifecycle.entry(name)
    with session.writing() as ledger:
        found, held = _proven(ledger, entry, deep=deep, repair=repair)
    told = _json(found) | ({"texts_compared": found.texts} if deep else {}) | ({"held": held} if repair else {})
    if as_json:
        render.show_json(told)
    else:
        _show(found)
        if deep:
            render.say(f"{render.count(found.texts, 'text')} compared with a fresh parse")
    if found.holds:
        return 0
    if not repair:
        if not as_json:
            render.note(f"mend it with `catchment prove {name} --repair`; what is only new comes with the next sync")
        return 1
    asked = _asked_for_a_sync(entry)
    if not as_json:
        how = "a sync was asked for" if asked else f"they come in with `catchment sync {name}`"
        render.say(f"what differs is in the queue, and {how}")
        if held:
            render.note(f"{render.count(held, 'deletion')} held; see `catchment deletions list {name}`")
    return 1 if held else 0


def _proven(ledger: Ledger, entry: SourceEntry, *, deep: bool, repair: bool) -> tuple[Proven, int]:
    from catchment.sync import prove
    from connectors import connector_class

    source_lifecycle.read_blocks()
    connector = connector_class(entry.kind)
    policy = entry.settings.policy(connector.policy)
    source = source_lifecycle.known(ledger, entry.name)
    found = prove.prove(session.home(), ledger, source, connector(entry.settings), policy, deep=deep)
    held = prove.repair(ledger, source, found, session.operator()) if repair and not found.holds else 0
    return found, held


def _asked_for_a_sync(entry: SourceEntry) -> bool:
    server = session.running()
    if server is None:
        return False
    from deployments.runs import runs

    try:
        runs.start_sync(server, entry.kind, entry.name)
    except NotFound:
        return False  # it is not deployed yet
    return True


def _show(found: Proven) -> None:
    from catchment.sync.prove import Flaw

    shown = [folder for folder in found.folders if folder.flaws or folder.digest is None]
    if len(found.folders) <= _FOLDERS_SHOWN:
        shown = list(found.folders)
    headers = ("FOLDER", "SOURCE", "LEDGER", "LIBRARY", "APART", *(flaw.upper() for flaw in Flaw), "HASH")
    rows = [_row(folder.name or ".", [folder]) for folder in shown]
    render.show_table(headers, [*rows, _row("all", found.folders)])
    if found.findings:
        render.say()
        told = [(finding.flaw, finding.item, finding.why) for finding in found.findings[:_ITEMS_SHOWN]]
        render.show_table(("FLAW", "ITEM", "WHY"), told)
        if len(found.findings) > _ITEMS_SHOWN:
            render.say(f"… and {len(found.findings) - _ITEMS_SHOWN} more; --json tells them all")
    for line in found.index:
        render.say(line)
    if found.holds:
        render.say(f"{found.source}: the library has what the source has, and nothing else")


def _row(name: str, folders: tuple[FolderProof, ...] | list[FolderProof]) -> tuple[object, ...]:
    from catchment.sync.prove import Flaw

    sums = [sum(getattr(f, what) for f in folders) for what in ("source", "ledger", "library", "set_apart")]
    flaws = [sum(f.flaws.get(flaw, 0) for f in folders) for flaw in Flaw]
    hashes = {f.digest for f in folders}
    told = "differs" if None in hashes else hashes.pop() if len(folders) == 1 else "equal"
    return (name, *sums, *flaws, told)


def _json(found: Proven) -> dict[str, Any]:
    return {
        "source": found.source,
        "holds": found.holds,
        "folders": [
            {
                "folder": f.name,
                "source": f.source,
                "ledger": f.ledger,
                "library": f.library,
                "set_apart": f.set_apart,
                **{flaw.value: number for flaw, number in f.flaws.items()},
                "hash": f.digest,
            }
            for f in found.folders
        ],
        "findings": [{"flaw": f.flaw, "item": f.item, "why": f.why} for f in found.findings],
        "index": found.index,
    }
