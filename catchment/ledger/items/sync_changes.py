"""The changes of a sync in the library, by path. Read from its before-images, so they are known while it can be undone.

A path is *added* if it had no document before the sync, *deleted* if it had none after it, and *changed* otherwise. If the item
of a deleted path moved to an added path, the path is *moved*.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from sqlalchemy import ColumnElement, case, exists, func, literal, literal_column, select

from catchment.ledger.db.database import Reading, among, as_map
from catchment.ledger.db.lookup import cut
from catchment.ledger.db.schema import before_images as images
from catchment.ledger.db.schema import documents, history, items, moves
from catchment.ledger.library.mail_relations import shown_title
from catchment.records.standing import ListPage

_PRESENT = "items.state <> 'deleted'"
_MOST = 5_000
"""Paths with a document before the sync that one query examines, in about 30 ms."""


class ChangeKind(StrEnum):
    """Kind of a change at a path."""

    ADDED = "added"
    CHANGED = "changed"
    MOVED = "moved"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class PathChange:
    """A path that a sync changed. `document` and `title`: of its present document, or of the deleted one.

    `moved_from`: the path before a move.
    """

    path: str
    title: str | None
    document: int | None
    moved_from: str | None = None


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """Number of paths by kind. Unless `is_exact`, the changed and deleted ones are those of the first 5,000 paths."""

    added: int
    changed: int
    moved: int
    deleted: int
    is_exact: bool = True


class SyncChanges:
    """The changes of one sync, which may be running."""

    def __init__(self, reading: Reading, source_id: int, sync_id: int) -> None:
        self._reading = reading
        self._source_id = source_id
        self._sync_id = sync_id
        self._own = _of(images, source_id, sync_id)

    def counts(self) -> ChangeCounts:
        """Return the number of paths by kind."""
        columns = func.count(), func.count(images.c.content_id)
        every, old = self._reading.execute(select(*columns).where(self._own)).one()
        if not old:
            return ChangeCounts(every, 0, 0, 0)
        moved, removed = len(self._moved), len(self._gone)
        return ChangeCounts(every - old - moved, min(old, _MOST) - removed, moved, removed - moved, old <= _MOST)

    def page(self, kind: ChangeKind, after: str | None, limit: int) -> ListPage[PathChange]:
        """Return a part of the paths of one kind, in their order. A part may be shorter than `limit`."""
        total: int = getattr(self.counts(), kind.value)
        rest = None
        match kind:
            case ChangeKind.MOVED:
                paths: Sequence[str] = sorted(path for path in self._moved if after is None or path > after)[
                    : limit + 1
                ]
            case ChangeKind.ADDED:
                paths = self._new(after, limit)
            case _:
                paths, rest = self._old(after, limit, 1 if kind is ChangeKind.CHANGED else 0)
        page = cut(paths, limit, total, self._shown(paths), str)
        return page if page.next is not None or rest is None else replace(page, next=rest)

    def _new(self, after: str | None, limit: int) -> Sequence[str]:
        own = (
            self._own
            & images.c.content_id.is_(None)
            & among(self._reading, images.c.path, list(self._moved)).is_(False)
        )
        statement = select(images.c.path).where(own if after is None else own & (images.c.path > after))
        return self._reading.execute(statement.order_by(images.c.path).limit(limit + 1)).scalars().all()

    def _old(self, after: str | None, limit: int, stays: int) -> tuple[Sequence[str], str | None]:
        """Return paths with a document before the sync, and the last path that was examined, unless it was the last of all."""
        own = self._had_document(after)
        is_old = (own.c.stays == stays) & among(self._reading, own.c.path, list(self._moved.values())).is_(False)
        statement = select(own.c.path).where(is_old).order_by(own.c.path).limit(limit + 1)
        examined, last = self._reading.execute(select(func.count(), func.max(own.c.path)).select_from(own)).one()
        return self._reading.execute(statement).scalars().all(), last if examined == _MOST else None

    @cached_property
    def _gone(self) -> Collection[str]:
        """The first paths that have no document after the sync."""
        own = self._had_document(None)
        return set(self._reading.execute(select(own.c.path).where(own.c.stays == 0)).scalars())

    def _had_document(self, after: str | None) -> Any:
        """Return a subquery of the first paths with a document before the sync, and whether (1, 0) one `stays` after it."""
        own = self._own & images.c.content_id.is_not(None)
        if after is not None:
            own &= images.c.path > after
        first = select(images.c.path).where(own).order_by(images.c.path).limit(_MOST).subquery()
        later = images.alias("later")
        next_state = (
            select(case((later.c.content_id.is_not(None), 1), else_=0))
            .where(later.c.source_id == self._source_id, later.c.path == first.c.path, later.c.sync_id > self._sync_id)
            .order_by(later.c.sync_id)
            .limit(1)
            .scalar_subquery()
        )
        live = case((exists(_live(self._source_id, first.c.path)), 1), else_=0)
        return select(first.c.path, func.coalesce(next_state, live).label("stays")).subquery()

    @cached_property
    def _moved(self) -> Mapping[str, str]:
        """The path before the move by the path after it."""
        if not self._gone:
            return {}
        new = images.alias("new")
        is_new = _of(new, self._source_id, self._sync_id) & new.c.content_id.is_(None)
        moved = (
            select(new.c.path, moves.c.locator)
            .join_from(moves, history, history.c.id == moves.c.history_id)
            .join(items, items.c.id == moves.c.item_id)
            .join(new, is_new & (new.c.path == items.c.locator))
            .where(history.c.sync_id == self._sync_id)
        )
        return {path: old for path, old in self._reading.execute(moved) if old in self._gone}

    def _shown(self, paths: Sequence[str]) -> Callable[[str], PathChange]:
        """Return a function that describes a path."""
        columns = items.c.locator, documents.c.id, documents.c.title
        now = select(*columns).join_from(items, documents, documents.c.item_id == items.c.id)
        at_paths = (items.c.source_id == self._source_id) & among(self._reading, items.c.locator, paths)
        live = now.where(at_paths, literal_column(_PRESENT), documents.c.removed_at.is_(None))
        rows = {row.locator: row for row in self._reading.execute(live)}
        before = select(images.c.path, images.c.title).where(self._own & among(self._reading, images.c.path, paths))
        titles = as_map(self._reading.execute(before))

        def shown(path: str) -> PathChange:
            there = rows.get(path)
            title = there.title if there else titles.get(path)
            return PathChange(
                path, title and shown_title(title, path), there.id if there else None, self._moved.get(path)
            )

        return shown


def _of(table: Any, source_id: int, sync_id: int) -> ColumnElement[bool]:
    of_sync: ColumnElement[bool] = (table.c.source_id == source_id) & (table.c.sync_id == sync_id)
    return of_sync


def _live(source_id: int, path: ColumnElement[str]) -> Any:
    """Select the document at a path, correlated with the query that has the path."""
    return (
        select(literal(1))
        .join_from(items, documents, documents.c.item_id == items.c.id)
        .where(items.c.source_id == source_id, items.c.locator == path, literal_column(_PRESENT))
        .where(documents.c.removed_at.is_(None))
    )
