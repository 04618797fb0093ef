"""The versions of a document, the changes between them, and a version as of a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

from catchment.errors import NotFound
from catchment.ledger import ItemRow, Ledger, Shown, Version, Versions
from catchment.model import EntityKind
from catchment.records import record_of
from catchment.views.versions.text_diff import DiffLine, counts, unified


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A change outside the text: of the title, the path, the tags or a property. None: it was not there."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class DocumentVersion:
    """A version of a document.

    Attributes:
        since, until: When the library got it and replaced it; None if unknown, and if it is the present one.
        sync: The sync, or undo, that made it; None if unknown.
        title, modified: As it was then. `modified`: its own date.
        is_there: False while the document was deleted.
        what: What changed since the version before, in words.
        added, removed: Number of lines.
        fields: The changes outside the text.
    """

    since: datetime | None
    until: datetime | None
    sync: int | None
    path: str
    title: str
    modified: datetime | None
    is_there: bool
    what: str = ""
    added: int = 0
    removed: int = 0
    fields: tuple[FieldChange, ...] = ()


@dataclass(frozen=True, slots=True)
class DocumentHistory:
    """The versions of a document, newest first.

    Attributes:
        document: Its number, also if it was deleted.
        has_more: Whether older versions are kept than those in the list.
        expired: Why older versions are not kept, in words; None if there were none.
    """

    document: int | None
    source: str
    path: str
    versions: tuple[DocumentVersion, ...]
    has_more: bool
    expired: str | None


@dataclass(frozen=True, slots=True)
class DocumentDiff:
    """What changed from one version of a document, `before`, to a later one. `after.what` has it in words."""

    document: int | None
    source: str
    before: DocumentVersion
    after: DocumentVersion
    lines: tuple[DiffLine, ...]


_State = tuple[Version, Shown | None]


def item_of(ledger: Ledger, document: int) -> ItemRow:
    """Return the item of a document, which may be deleted. Raises NotFound."""
    item = ledger.intake.of_document(document)
    if item is None:
        raise NotFound(f"document {document}: not found; `catchment search` shows document IDs")
    return item


def history(ledger: Ledger, item: int, limit: int = 50) -> DocumentHistory:
    """Return the latest versions of the document of an item. Raises NotFound if none is kept."""
    known = _known(ledger, item)
    states = [_read(ledger, known, row) for row in known.all[-limit - 1 :]]
    has_more = len(states) > limit
    shown = [] if has_more else [_version(states[0], None, "added" if known.is_complete else "")]
    for before, after in pairwise(states):
        version = _version(after, before)
        if version.what:
            shown.append(version)
        elif shown:
            # The same text, read again.
            shown[-1] = replace(shown[-1], until=version.until)
    expired = None if known.is_complete else _expired(ledger, known)
    return DocumentHistory(known.document, known.source, known.all[-1].path, tuple(reversed(shown)), has_more, expired)


def as_of(ledger: Ledger, item: int, moment: datetime) -> tuple[DocumentVersion, Shown]:
    """Return the version of a document at a time, and the document as it was. Raises NotFound, with the reason."""
    known = _known(ledger, item)
    state = _read(ledger, known, _at(ledger, known, moment))
    if state[1] is None:
        remedy = f"see catchment history {known.document or state[0].path}"
        raise NotFound(f"{state[0].path}: not in the library at {_iso(moment)}; {remedy}")
    return _version(state, None), state[1]


def diff(ledger: Ledger, item: int, since: datetime | None = None, until: datetime | None = None) -> DocumentDiff:
    """Return the changes from a time, or only the last change, until another time, or now. Raises NotFound."""
    known = _known(ledger, item)
    after = _read(ledger, known, known.all[-1] if until is None else _at(ledger, known, until))
    if since is not None:
        return _diff(known, _read(ledger, known, _at(ledger, known, since)), after)
    for row in reversed(known.all[: known.all.index(after[0])]):
        difference = _diff(known, _read(ledger, known, row), after)
        if difference.after.what:
            return difference
    if known.is_complete:
        return _diff(known, (replace(known.all[0], is_there=False), None), after)
    raise NotFound(f"{after[0].path}: no earlier version; {_expired(ledger, known)}")


def _known(ledger: Ledger, item: int) -> Versions:
    known = ledger.versions.of(item)
    if not known.all:
        raise NotFound("no version of this document is kept; `catchment why PATH` explains it")
    return known


def _at(ledger: Ledger, known: Versions, moment: datetime) -> Version:
    for row in reversed(known.all):
        # People give times in seconds, as they see them.
        since = row.since if moment.microsecond or not row.since else row.since.replace(microsecond=0)
        if since is not None and since <= moment:
            return row
    first = known.all[0]
    if not known.is_complete:
        raise NotFound(f"{first.path}: no version of {_iso(moment)}; {_expired(ledger, known)}")
    return replace(first, since=None, until=first.since, sync=None, is_there=False)


def _expired(ledger: Ledger, known: Versions) -> str:
    first, days = known.all[0].since, ledger.sources.get(known.source).keep_days
    before = f"older versions than that of {_iso(first)}" if first else "older versions"
    return f"{before} are gone: {known.source} keeps them for at most {days} days (setting keep_days)"


def _read(ledger: Ledger, known: Versions, version: Version) -> _State:
    return version, ledger.versions.read(known, version) if version.is_there else None


def _version(state: _State, before: _State | None, what: str = "") -> DocumentVersion:
    version, shown = state
    modified = shown.modified or shown.content.modified if shown else None
    result = record_of(DocumentVersion, version, title=shown.title if shown else "", modified=modified, what=what)
    if before is None:
        return result
    old, new = (_lines(shown) for shown in (before[1], shown))
    added, removed = counts(old, new)
    fields = tuple(_fields(before[1], shown)) if before[1] and shown else ()
    result = replace(result, added=added, removed=removed, fields=fields)
    if before[0].is_there == version.is_there:
        return replace(result, what=", ".join(_words(result)))
    return replace(result, what="deleted" if not shown else "restored" if before[0].since else "added")


def _words(version: DocumentVersion) -> Iterator[str]:
    others = []
    for field in version.fields:
        if field.name == "path":
            yield f"moved from {field.before}"
        else:
            others.append(field.name)
    if version.added or version.removed:
        yield f"+{version.added} -{version.removed} lines"
    yield from others


def _fields(before: Shown, after: Shown) -> Iterator[FieldChange]:
    old, new = _facts(before), _facts(after)
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            yield FieldChange(name, old.get(name), new.get(name))


def _facts(shown: Shown) -> dict[str, str]:
    """Return everything of a document but its text, in words."""
    tags = sorted({entity.value for entity in shown.entities if entity.kind is EntityKind.TAG})
    facts = {**shown.content.properties, **shown.metadata, "path": shown.item, "title": shown.title, "tags": tags}
    return {name: text for name, value in facts.items() if (text := _text(value))}


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return "" if value is None else str(value)


def _diff(known: Versions, before: _State, after: _State) -> DocumentDiff:
    lines = tuple(unified(_lines(before[1]), _lines(after[1])))
    return DocumentDiff(known.document, known.source, _version(before, None), _version(after, before), lines)


def _lines(shown: Shown | None) -> list[str]:
    return shown.content.text.removesuffix("\n").split("\n") if shown and shown.content.text else []


def _iso(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
