"""The versions of a document: its before-images and its present state, each from one sync until the next.

They follow the moves of its item, and end where undo data has expired.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlalchemy import select

from catchment.errors import NotFound
from catchment.ledger.db.database import AnyRow, Reading, Store, from_micros, maybe_time
from catchment.ledger.db.schema import before_images as images
from catchment.ledger.db.schema import documents, history, items, moves, sources
from catchment.ledger.library import before_images
from catchment.ledger.library.documents import before_image, present
from catchment.model import JobState
from catchment.records.rows import Shown

_MOVED = "moved"
_CHANGES = (JobState.SUCCEEDED.value, _MOVED, "returned", "brought back")
"""Events after which an item may have another document than before."""


@dataclass(frozen=True, slots=True)
class Version:
    """A state of a document in the library.

    Attributes:
        since: When the library got it; None if unknown.
        until: When it was replaced; None if it is the present state.
        sync, replaced_by: The syncs, or undos, that did so; None likewise.
        is_there: Whether there was a document.
        state: Equal for documents that differ only in their date.
    """

    since: datetime | None
    until: datetime | None
    sync: int | None
    replaced_by: int | None
    path: str
    is_there: bool
    state: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions of the document of an item, oldest first. The last one is the present state.

    Attributes:
        document: Its number, also if it was deleted; None if another item has it now.
        is_complete: Whether no older version has expired.
    """

    item_id: int
    source_id: int
    source: str
    document: int | None
    all: tuple[Version, ...]
    is_complete: bool


class VersionHistory:
    """The earlier versions of documents."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of(self, item_id: int) -> Versions:
        """Return the versions of the document of an item, in any state. Raises NotFound."""
        with self._store.read() as reading:
            item = reading.execute(
                select(items.c.source_id, items.c.locator, sources.c.name, documents.c.id, documents.c.removed_at)
                .add_columns(*(documents.c[name] for name in before_images.DOCUMENT_COLUMNS))
                .join(sources, sources.c.id == items.c.source_id)
                .outerjoin(documents, documents.c.item_id == items.c.id)
                .where(items.c.id == item_id)
            ).first()
            if item is None:
                raise NotFound(f"item {item_id}: not found")
            events = _events(reading, item_id)
            rows = before_images.along(reading, item.source_id, before_images.places(events, item.locator))
        versions = [*_replaced(rows), _now(item)]
        for place, version in enumerate(versions[:-1], 1):
            versions[place] = replace(versions[place], since=version.until, sync=version.replaced_by)
        earlier = [event for event in events if not rows or event.at < rows[0][0].kept_at]
        if versions[0].is_there:
            versions[0] = replace(versions[0], since=maybe_time(max((event.at for event in earlier), default=None)))
        stored = {event.at for event in earlier if event.event != _MOVED}
        # The document was transferred from another item, with events that are not known here.
        is_taken = any(event.at in stored for event in earlier if event.event == _MOVED)
        is_complete = len(stored) == versions[0].is_there and not is_taken
        known = versions if versions[0].is_there else versions[1:]
        return Versions(item_id, item.source_id, item.name, item.id, tuple(_merged(known)), is_complete)

    def read(self, versions: Versions, version: Version) -> Shown:
        """Return the document of a version, without its relations to others. Raises NotFound if it has expired meanwhile."""
        with self._store.read() as reading:
            if version.replaced_by is None:
                return present(reading, versions.item_id)
            at_path = (images.c.source_id == versions.source_id) & (images.c.path == version.path)
            image = at_path & (images.c.sync_id == version.replaced_by)
            return before_image(reading, image, versions.document or 0, versions.item_id, versions.source)


def _events(reading: Reading, item_id: int) -> list[AnyRow]:
    """Return the changes of the document of an item, oldest first, also those before the item took it from another one."""
    columns = history.c.id, history.c.at, history.c.event, history.c.sync_id, history.c.reason, moves.c.locator
    changes = select(*columns).outerjoin(moves, moves.c.history_id == history.c.id).where(history.c.event.in_(_CHANGES))
    events: list[AnyRow] = []
    number: int | None = item_id
    while number is not None:
        own = changes.where(history.c.item_id == number)
        if events:
            own = own.where(history.c.id < events[0].id)
        rows = reading.execute(own.order_by(history.c.id)).all()
        starts = [place for place, row in enumerate(rows) if (row.reason or "").startswith(before_images.TAKEN)]
        start = starts[-1] if starts else 0
        events = [*rows[start:], *events]
        number = int(rows[start].reason.removeprefix(before_images.TAKEN)) if starts else None
    return events


def _replaced(rows: Sequence[tuple[AnyRow, bool]]) -> Iterator[Version]:
    """Yield the versions in before-images. Without one at the old path, a moved document was not in the library before."""
    replaced_by = None
    for row, is_arrival in rows:
        if not is_arrival:
            yield _before(row)
        elif replaced_by != row.sync_id:
            yield replace(_before(row), is_there=False, state=())
        replaced_by = row.sync_id


def _before(image: AnyRow) -> Version:
    there = image.content_id is not None
    return Version(None, from_micros(image.kept_at), None, image.sync_id, image.path, there, _state(image))


def _now(item: AnyRow) -> Version:
    there = item.content_id is not None and item.removed_at is None
    return Version(None, None, None, None, item.locator, there, _state(item) if there else ())


def _state(row: AnyRow) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in before_images.DOCUMENT_COLUMNS if name != "modified")


def _merged(versions: Sequence[Version]) -> Iterator[Version]:
    """Yield the versions, with equal neighbours as one."""
    for _, equal in groupby(
        versions, lambda version: (version.is_there, version.is_there and (version.path, version.state))
    ):
        same = list(equal)
        yield replace(same[-1], since=same[0].since, sync=same[0].sync)
