"""`catchment why`: how something came to be in the library, or why it is not there."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catchment.errors import NoConsent, NotFound
from catchment.model import Failure, JobState, KnownItem, Skip, Upsert
from catchment.runtime.home import expanded
from console import arguments, render, session
from console.sources import source_lifecycle
from console.trouble import jobs

if TYPE_CHECKING:
    from catchment.ledger import ItemRow, Ledger, SyncRow
    from deployments.sources.sources_file import SourceEntry

_ITEMS_SHOWN = 5


def why(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A file, an item's path in its source, or only its name.")
    ],
    source: Annotated[
        str | None, typer.Option(help="Only in this source.", autocompletion=session.source_names)
    ] = None,
    as_json: arguments.Json = False,
) -> None:
    """Say how something came to be here, or why it is not.

    Seen when, by which sync, decided what and why, stored where, tried again when.
    """
    entries = source_lifecycle.entries()
    if source and source not in entries:
        source_lifecycle.entry(source)
    inside = _inside(path, entries, source)
    found: list[dict[str, Any]] = []
    # Where there is no ledger yet nothing is known, and the reasons below say so.
    with suppress(NotFound), session.reading() as ledger:
        found = [_told(ledger, row) for row in _find(ledger, path, source, inside)]
    reasons = [] if found else _why_not(path, entries, inside)
    if as_json:
        render.show_json({"asked": path, "items": found, "not_here": reasons})
        return
    for told in found[:_ITEMS_SHOWN]:
        _print(told)
        jobs.show_events(told["history"])
        render.say()
    if len(found) > _ITEMS_SHOWN:
        render.note(f"{len(found) - _ITEMS_SHOWN} more are called so; give more of the path")
    for reason in reasons:
        render.say(render.clean(reason))


def _inside(path: str, entries: Mapping[str, SourceEntry], source: str | None) -> dict[str, str]:
    """The sources whose root the path lies in, with the locator that it has there."""
    from connectors.folders.file import to_locator

    asked = _spelled(Path(os.path.abspath(expanded(Path(path)))))  # noqa: PTH100 - a link must keep its own name
    inside = {}
    for name, entry in entries.items():
        root = getattr(entry.settings, "root", None)
        if root is not None and source in (None, name) and (below := _below(asked, root)) is not None:
            inside[name] = to_locator(below.as_posix())
    return inside


def _below(path: Path, root: Path) -> Path | None:
    """The path as the root sees it, also where a link leads to one of them; None where it lies elsewhere."""
    for there, top in ((path, root), (path.parent.resolve() / path.name, root.resolve())):
        if there.is_relative_to(top):
            return there.relative_to(top)
    return None


def _spelled(path: Path) -> Path:
    """The path with its accents written as on the disk, as far as there is something there."""
    if str(path).isascii() or os.path.lexists(path):
        return path
    folder = _spelled(path.parent)
    with suppress(OSError):
        for there in folder.iterdir():
            if _composed(there.name) == _composed(path.name):
                return there
    return folder / path.name


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _find(ledger: Ledger, path: str, source: str | None, inside: Mapping[str, str]) -> list[ItemRow]:
    exact = [
        row
        for name, locator in inside.items()
        for row in ledger.intake.find(locator, source=name)
        if _composed(row.locator) == _composed(locator)
    ]
    return exact or ledger.intake.find(path, source=source)


def _told(ledger: Ledger, item: ItemRow) -> dict[str, Any]:
    events = ledger.history.of_item(item.id)
    job = ledger.queue.job(item.job) if item.job is not None else None
    sync = _sync(ledger, item)
    return {
        "item": item.locator,
        "source": item.source,
        "state": item.state,
        "because": _because(ledger, item),
        "document": item.document,
        "job": item.job,
        "job_state": item.job_state,
        "attempts": job.attempt if job else 0,
        "next_attempt": item.not_before if item.job_state is JobState.RETRYING else None,
        "version": item.version,
        "content_hash": item.content_hash,
        "size": item.size,
        "consent": _consent(ledger, item.source),
        "first_seen": item.first_seen,
        "changed": item.changed,
        "gone": item.gone,
        "sync": item.sync_id,
        "run": sync.run if sync else None,
        "code_version": sync.code_version if sync else None,
        "history": [jobs.event_json(event) for event in events],
    }


def _consent(ledger: Ledger, source: str) -> str | None:
    """How the consent stands by which its source is read: of several scopes, the one that keeps it from being so."""
    found = ledger.consents.all(source)
    first = next((consent for consent in found if consent.state != "given"), found[0] if found else None)
    if first is None or first.state != "given":
        return None if first is None else f"{first.state}: {first.scope}"
    ends = min((consent.expires for consent in found if consent.expires), default=None)
    return f"given by {first.by}" + (f" until {render.local(ends)}" if ends else "")


def _because(ledger: Ledger, item: ItemRow) -> str:
    if item.state == "missing":
        return f"it was gone at the last look; the deletion is held: `catchment deletions list {item.source}`"
    if item.state == "kept":
        return f"it was deleted at the source and brought back by `catchment undo`; it is document {item.document}"
    if item.state == "deleted":
        return "it was deleted at the source"
    match item.job_state:
        case JobState.SUCCEEDED:
            return f"it is in the library as document {item.document}"
        case JobState.SKIPPED:
            kept = f"; document {item.document} stands" if item.document is not None else ""
            # What a listing knows of a file that it skips: a link, a submodule, vendored.
            what = f" ({item.attributes['type']})" if "type" in item.attributes else ""
            return f"it was skipped: {_plain(item.job_reason)}{what}{kept}"
        case JobState.QUARANTINED if item.job is not None:
            entry = ledger.quarantine.show(item.job)
            return f"it is in quarantine: {entry.reason}: {entry.message}; `catchment quarantine show {item.job}`"
        case JobState.RETRYING:
            return f"it failed and is tried again {render.when(item.not_before)}"
        case JobState.RUNNING:
            return "it is being worked on"
        case JobState.CANCELLED:
            return f"its job was cancelled: {_plain(item.job_reason)}"
        case _:
            return "it waits for its turn"


def _plain(reason: str | None) -> str:
    return (reason or "no reason was given").replace("_", " ")


def _sync(ledger: Ledger, item: ItemRow) -> SyncRow | None:
    recent = ledger.syncs.recent(ledger.sources.get(item.source).id, limit=500)
    return next((row for row in recent if row.id == item.sync_id), None)


def _print(told: Mapping[str, Any]) -> None:
    render.show_fields(
        {
            "item": told["item"],
            "source": told["source"],
            "because": told["because"],
            "consent": told["consent"],
            "first seen": told["first_seen"],
            "changed": told["changed"],
            "gone": told["gone"],
            "tried": told["attempts"],
            "next attempt": told["next_attempt"],
            "seen by sync": told["sync"],
            "run": session.run_address(told["run"]),
            "code version": told["code_version"],
            "content": told["content_hash"],
        }
    )
    render.say()


def _why_not(path: str, entries: Mapping[str, SourceEntry], inside: Mapping[str, str]) -> list[str]:
    """Every reason that can be told; NotFound when the path is neither here nor anywhere on this machine."""
    exists = os.path.lexists(_spelled(expanded(Path(path))))
    if not inside:
        if not exists and (reasons := _unread(entries)):
            return reasons
        if not exists:
            raise NotFound(f"nothing is known of {path!r}: no item is called so, and there is no such file here")
        roots = ", ".join(entries) or "there is none"
        return [f"it lies outside of every source ({roots}); add its folder with `catchment sources add`"]
    reasons = []
    for name, locator in inside.items():
        reasons += _why_not_in(name, locator, entries[name], exists)
    return reasons


def _unread(entries: Mapping[str, SourceEntry]) -> list[str]:
    """Of which of these sources nothing may be read, and so nothing be known."""
    unread = []
    for entry in entries.values():
        try:
            source_lifecycle.require_consent(entry)
        except NoConsent as reason:
            unread.append(str(reason))
    return unread


def _why_not_in(name: str, locator: str, entry: SourceEntry, exists: bool) -> list[str]:
    """What keeps this path of a source out of the library, as far as its state, its last sync and its listing tell."""
    if reasons := _unread({name: entry}):
        return reasons
    known = last = None
    with suppress(NotFound), session.reading() as ledger:
        known = ledger.sources.get(name)
        last = ledger.syncs.last(known.id)
    if known and known.state in ("paused", "held"):
        reasons.append(f"{name} is {known.state}; go on with `catchment sources resume {name}`")
    if last is None:
        reasons.append(f"{name} was never synced; `catchment sync {name}`")
    if not exists:
        reasons.append(f"there is no such file in {name}, and none was seen there")
    else:
        reasons.append(_listed(entry, locator))
    return reasons


def _listed(entry: SourceEntry, locator: str) -> str:
    """What the connector says of an item when it looks afresh."""
    from connectors import connector_class
    from connectors.folders.file import to_path

    connector = connector_class(entry.kind)(entry.settings)
    # Not every kind of source has rules about names; one that has can tell which of them it was, unless the file that they are
    # in cannot be read: then it cannot list the folder either.
    with suppress(OSError):
        if (rules := getattr(connector, "why_not", None)) and (reason := rules(to_path(locator))):
            return f"{entry.name} leaves it out: {reason}"
    for change in connector.changes(_Nothing()):
        match change:
            case Upsert(item=item) if item.locator == locator:
                return f"{entry.name} sees it now, and the next sync takes it up: `catchment sync {entry.name}`"
            case Skip(item=item, reason=reason) if item.locator == locator:
                return f"{entry.name} sees it now, and skips it: {_plain(reason.value)}"
            case Failure(item=item, error=error) if item.locator in (locator, *_above(locator)):
                return f"{entry.name} cannot list it: {error}"
    return f"{entry.name} does not list it: it is no file of its own there, or it lies behind a link"


def _above(locator: str) -> list[str]:
    """The folders that it is in, as they stand where they cannot be listed."""
    parts = locator.split("/")[:-1]
    return ["/".join(parts[: end + 1]) + "/" for end in range(len(parts))]


class _Nothing:
    """The knowledge of somebody who has never seen the source: with it a connector lists everything."""

    def marks(self) -> Mapping[str, str]:
        return {}

    def within(self, container: str) -> Mapping[str, KnownItem]:
        del container
        return {}

    def containers(self) -> frozenset[str]:
        return frozenset()
