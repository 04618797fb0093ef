"""`catchment prove`: verify that the library matches a source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from catchment.errors import NotFound, Refused, TryAgain
from console import arguments, render, session

if TYPE_CHECKING:
    from catchment.sync.prove import FolderProof, Proven

_FOLDERS_SHOWN = 20
_ITEMS_SHOWN = 50


def prove(
    name: session.SourceName,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also parse a random sample of 200 items again and compare the texts.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Queue missing and outdated items, and delete documents of missing items.")
    ] = False,
    as_json: arguments.Json = False,
) -> int:
    """Compare a source with the library, item by item.

    Lists the source again and compares contents, documents, chunks and the index. Exits with 1 if anything differs or
    cannot be read, or with --repair if deletions are held or anything cannot be read.

    Example: catchment prove notes --repair
    """
    from catchment.sync import prove
    from catchment.sync.prove import Flaw
    from deployments.actions import previews

    desk, held = session.desk(), 0
    desk.entry(name)
    with session.writing() as ledger:
        proof: Proven = previews.compared(desk, ledger, name, prove.prove, deep=deep)
        if repair and not proof.holds:
            held = prove.repair(ledger, ledger.sources.get(name), proof, session.operator())
    if as_json:
        render.show_json(previews.ProofPreview.of(proof, held))
    else:
        _show(proof)
        if deep:
            render.say(f"{render.count(proof.texts, 'text')} compared with a fresh parse")
    if proof.holds:
        return 0
    unread = [finding.item for finding in proof.findings if finding.flaw is Flaw.UNREADABLE]
    if unread and not as_json:
        render.note(f"{name}: {unread[0]} cannot be read, so its state is unknown; see `catchment why {unread[0]}`")
    if not repair:
        if not as_json:
            render.note(
                f"{name}: differences proof; repair with `catchment prove {name} --repair` (a sync adds new items)"
            )
        return 1
    is_requested = _request_sync(name)
    if not as_json:
        remedy = "sync requested" if is_requested else f"process them with `catchment sync {name}`"
        render.say(f"{name}: differing items queued; {remedy}")
        if held:
            render.note(f"{render.count(held, 'deletion')} held; see `catchment deletions list {name}`")
    return 1 if held or unread else 0


def _request_sync(name: str) -> bool:
    from deployments.actions import syncs

    if session.running() is None:
        return False
    try:
        syncs.start(session.desk(), name, session.operator(), "repair")
    except (NotFound, Refused, TryAgain):
        return False  # for example, not deployed yet
    return True


def _show(proof: Proven) -> None:
    from catchment.sync.prove import Flaw

    shown = [folder for folder in proof.folders if folder.flaws or folder.digest is None or folder.unknown]
    if len(proof.folders) <= _FOLDERS_SHOWN:
        shown = list(proof.folders)
    headers = ("FOLDER", "SOURCE", "LEDGER", "LIBRARY", "ISOLATED", *(flaw.upper() for flaw in Flaw), "HASH")
    rows = [_row(folder.name or ".", [folder]) for folder in shown]
    render.show_table(headers, [*rows, _row("all", proof.folders)])
    if proof.findings:
        render.say()
        rows = [(finding.flaw, finding.item, finding.why) for finding in proof.findings[:_ITEMS_SHOWN]]
        render.show_table(("FLAW", "ITEM", "REASON"), rows)
        if len(proof.findings) > _ITEMS_SHOWN:
            render.say(f"… and {len(proof.findings) - _ITEMS_SHOWN} more; --json lists all")
    for line in proof.index:
        render.say(line)
    if proof.holds:
        render.say(f"{proof.source}: the library matches the source")


def _row(name: str, folders: tuple[FolderProof, ...] | list[FolderProof]) -> tuple[object, ...]:
    from catchment.sync.prove import Flaw

    sums = [sum(getattr(f, column) for f in folders) for column in ("source", "ledger", "library", "set_apart")]
    flaws = [sum(f.flaws.get(flaw, 0) for f in folders) for flaw in Flaw]
    hashes = {f.digest for f in folders}
    verdict = "differs" if None in hashes else hashes.pop() if len(folders) == 1 else "equal"
    if any(f.unknown for f in folders):
        verdict = "unknown"
    return (name, *sums, *flaws, verdict)
