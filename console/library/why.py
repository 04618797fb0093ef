"""`catchment why`: explain how an item entered the library, or why it is missing."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catchment.errors import NoConsent, NotFound
from catchment.item_status import because, plain
from catchment.model import Failure, JobState, KnownItem, Skip, Upsert
from catchment.runtime.home import expanded
from console import arguments, render, session
from console.trouble import jobs

if TYPE_CHECKING:
    from catchment.ledger import ItemRow, Ledger, SyncRow
    from deployments.sources.sources_file import SourceEntry

_ITEMS_SHOWN = 5


def why(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A file, the path of an item in its source, or its name.")
    ],
    source: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this source.", autocompletion=session.source_names)
    ] = None,
    as_json: arguments.Json = False,
) -> None:
    """Explain why an item is in the library, or why it is not.

    Shows when and by which sync it was listed, its state with the reason, its document and its next attempt.

    Example: catchment why ~/Vault/Bees.md
    """
    entries = session.desk().entries()
    if source and source not in entries:
        session.desk().entry(source)
    inside = _inside(path, entries, source)
    items: list[dict[str, Any]] = []
    # Without a ledger no item is known, and the reasons below cover that.
    with suppress(NotFound), session.reading() as ledger:
        items = [_describe(ledger, row) for row in _find(ledger, path, source, inside)]
    reasons = [] if items else _why_not(path, entries, inside)
    if as_json:
        render.show_json({"asked": path, "items": items, "not_here": reasons})
        return
    for item in items[:_ITEMS_SHOWN]:
        _print(item)
        jobs.show_events(item["history"])
        render.say()
    if len(items) > _ITEMS_SHOWN:
        render.note(f"{path}: {len(items) - _ITEMS_SHOWN} more items match; use a longer path")
    for reason in reasons:
        render.say(render.clean(reason))


def _inside(path: str, entries: Mapping[str, SourceEntry], source: str | None) -> dict[str, str]:
    """Return the sources whose root contains the path, with its locator in each."""
    from connectors.folders.file import to_locator

    file = _spelled(Path(os.path.abspath(expanded(Path(path)))))  # noqa: PTH100 - must not resolve a symbolic link
    inside = {}
    for name, entry in entries.items():
        root = getattr(entry.settings, "root", None)
        if root is not None and source in (None, name) and (below := _below(file, root)) is not None:
            inside[name] = to_locator(below.as_posix())
    return inside


def _below(path: Path, root: Path) -> Path | None:
    """Return the path relative to the root, also if either contains a symbolic link; None if it is outside."""
    for file, top in ((path, root), (path.parent.resolve() / path.name, root.resolve())):
        if file.is_relative_to(top):
            return file.relative_to(top)
    return None


def _spelled(path: Path) -> Path:
    """Return the path with accents encoded as on the disk, as far as it exists."""
    if str(path).isascii() or os.path.lexists(path):
        return path
    folder = _spelled(path.parent)
    with suppress(OSError):
        for file in folder.iterdir():
            if _composed(file.name) == _composed(path.name):
                return file
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


def _describe(ledger: Ledger, item: ItemRow) -> dict[str, Any]:
    events = ledger.history.of_item(item.id)
    job = ledger.queue.job(item.job) if item.job is not None else None
    sync = _sync(ledger, item)
    return {
        "item": item.locator,
        "source": item.source,
        "state": item.state,
        "because": because(ledger, item, render.when),
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
    """Return the consent to a source in words: of several scopes, one without consent first."""
    consents = ledger.consents.all(source)
    first = next((consent for consent in consents if consent.state != "given"), consents[0] if consents else None)
    if first is None or first.state != "given":
        return None if first is None else f"{first.state}: {first.scope}"
    ends = min((consent.expires for consent in consents if consent.expires), default=None)
    return f"given by {first.by}" + (f" until {render.local(ends)}" if ends else "")


def _sync(ledger: Ledger, item: ItemRow) -> SyncRow | None:
    recent = ledger.syncs.recent(ledger.sources.get(item.source).id, limit=500)
    return next((row for row in recent if row.id == item.sync_id), None)


def _print(item: Mapping[str, Any]) -> None:
    render.show_fields(
        {
            "item": item["item"],
            "source": item["source"],
            "status": item["because"],
            "consent": item["consent"],
            "first seen": item["first_seen"],
            "changed": item["changed"],
            "missing since": item["gone"],
            "attempts": item["attempts"],
            "next attempt": item["next_attempt"],
            "listed by sync": item["sync"],
            "run": session.run_address(item["run"]),
            "code version": item["code_version"],
            "content": item["content_hash"],
        }
    )
    render.say()


def _why_not(path: str, entries: Mapping[str, SourceEntry], inside: Mapping[str, str]) -> list[str]:
    """Return the reasons why a path is not in the library. Raises NotFound if it is unknown and does not exist."""
    file = _spelled(expanded(Path(path)))
    exists = os.path.lexists(file)
    if not exists and (hindrance := obstacle(file)):
        return [f"{path}: cannot look: {hindrance}"]
    if not inside:
        if not exists and (reasons := _lacking_consent(entries)):
            return reasons
        if not exists:
            raise NotFound(f"{path!r}: no such item or file; see `catchment jobs list`")
        names = ", ".join(entries) or "none configured"
        return [f"{path}: outside all sources ({names}); add its folder with `catchment sources add`"]
    reasons = []
    for name, locator in inside.items():
        reasons += _why_not_in(name, locator, entries[name], exists)
    return reasons


def _lacking_consent(entries: Mapping[str, SourceEntry]) -> list[str]:
    """Return a message for each source without consent: its items are unknown."""
    from catchment.actions import consents

    messages = []
    for entry in entries.values():
        try:
            consents.require(session.desk(), entry)
        except NoConsent as error:
            messages.append(str(error))
    return messages


def _why_not_in(name: str, locator: str, entry: SourceEntry, exists: bool) -> list[str]:
    """Return the reasons from the state of the source, its last sync and a new listing."""
    if reasons := _lacking_consent({name: entry}):
        return reasons
    known = last = None
    with suppress(NotFound), session.reading() as ledger:
        known = ledger.sources.get(name)
        last = ledger.syncs.last(known.id)
    if known and known.state in ("paused", "held"):
        reasons.append(f"{name}: {known.state}; resume with `catchment sources resume {name}`")
    if last is None:
        reasons.append(f"{name}: never synced; run `catchment sync {name}`")
    if not exists:
        reasons.append(_absent(entry, locator))
    else:
        reasons.append(_listed(entry, locator))
    return reasons


def obstacle(path: Path) -> str | None:
    """Return why this user cannot see whether a path exists; None if it can be seen."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        folder = next(above for above in path.absolute().parents if os.path.lexists(above))
        return f"{folder}: {os.strerror(error.errno or 0).lower()}; grant access to it, then ask again"
    return None


def _absent(entry: SourceEntry, locator: str) -> str:
    """Return the reason why a file that cannot be found was never listed."""
    from connectors import connector_class

    connector_class(entry.kind)(entry.settings).probe()
    with suppress(NotFound), session.reading() as ledger:
        for folder in _above(locator):
            for item in ledger.intake.find(folder, source=entry.name):
                if item.locator == folder and item.state == "present":
                    return f"{entry.name}: cannot look: {folder} was not listed; see `catchment why {folder}`"
    return f"{entry.name}: the file does not exist and was never listed"


def _listed(entry: SourceEntry, locator: str) -> str:
    """List the source again and return the connector's verdict on an item."""
    from connectors import connector_class
    from connectors.folders.file import to_path

    connector = connector_class(entry.kind)(entry.settings)
    # Only some kinds have rules about names. If their file is unreadable, the listing below reports it.
    with suppress(OSError):
        if (rules := getattr(connector, "why_not", None)) and (reason := rules(to_path(locator))):
            return f"{entry.name}: not read ({reason})"
    for change in connector.changes(_NoKnowledge()):
        match change:
            case Upsert(item=item) if item.locator == locator:
                return f"{entry.name}: new; add it with `catchment sync {entry.name}`"
            case Skip(item=item, reason=reason) if item.locator == locator:
                return f"{entry.name}: will be skipped ({plain(reason.value)})"
            case Failure(item=item, error=error) if item.locator in (locator, *_above(locator)):
                return f"{entry.name}: cannot be listed ({error})"
    return f"{entry.name}: not listed, because it is not a regular file or lies behind a symbolic link"


def _above(locator: str) -> list[str]:
    """Return the folders above an item, as a failed listing names them."""
    parts = locator.split("/")[:-1]
    return ["/".join(parts[: end + 1]) + "/" for end in range(len(parts))]


class _NoKnowledge:
    """Empty `Knowledge`, with which a connector lists everything."""

    def marks(self) -> Mapping[str, str]:
        return {}

    def roots(self) -> Mapping[str, str]:
        return {}

    def within(self, container: str) -> Mapping[str, KnownItem]:
        del container
        return {}

    def containers(self) -> frozenset[str]:
        return frozenset()
