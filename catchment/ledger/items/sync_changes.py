"""What a sync changed in the library, by path: read from its before-images, so it is known as long as the sync can be undone.

A path is *added* if it had no document before the sync, *deleted* if it had none after it, and *changed* otherwise. A deleted
path whose document is at an added one is *moved*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, case, exists, func, literal, literal_column, select

from catchment.ledger.db.database import Reading, among
from catchment.ledger.db.pages import ListPage, cut
from catchment.ledger.db.schema import before_images as images
from catchment.ledger.db.schema import documents, history, items, moves

_PRESENT = "items.state <> 'deleted'"
_MOST = 5_000
"""Paths with a document before the sync that one query examines, in about 30 ms."""


class ChangeKind(StrEnum):
    """What happened at a path."""

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
        moved = len(self._moved())
        stays = self._had_document(None)
        statement = select(func.count(), func.coalesce(func.sum(stays.c.stays), 0)).select_from(stays)
        examined, changed = self._reading.execute(statement).one()
        return ChangeCounts(every - old - moved, changed, moved, examined - changed - moved, old <= _MOST)

    def page(self, kind: ChangeKind, after: str | None, limit: int) -> ListPage[PathChange]:
        """Return a part of the paths of one kind, in their order. A part may be shorter than `limit`."""
        counts = self.counts()
        total: int = getattr(counts, kind.value)
        moved = self._moved() if counts.moved else {}
        rows: Sequence[tuple[str, str | None]]
        match kind:
            case ChangeKind.MOVED:
                rows = sorted((path, None) for path in moved if after is None or path > after)[: limit + 1]
            case ChangeKind.ADDED:
                rows = self._new(after, limit, moved)
            case _:
                return self._old(kind, after, limit, total, set(moved.values()))
        return cut(rows, limit, total, self._shown([path for path, _ in rows], moved), lambda row: str(row[0]))

    def _new(self, after: str | None, limit: int, moved: Mapping[str, str]) -> list[tuple[str, str | None]]:
        own = self._own & images.c.content_id.is_(None) & ~among(self._reading, images.c.path, list(moved))
        statement = select(images.c.path).where(own if after is None else own & (images.c.path > after))
        paths = self._reading.execute(statement.order_by(images.c.path).limit(limit + 1)).scalars()
        return [(path, None) for path in paths]

    def _old(
        self, kind: ChangeKind, after: str | None, limit: int, total: int, moved_away: set[str]
    ) -> ListPage[PathChange]:
        """Return paths with a document before the sync. Examines a limited number of them."""
        own = self._had_document(after)
        mine = own.c.stays == (1 if kind is ChangeKind.CHANGED else 0)
        if kind is ChangeKind.DELETED:
            mine &= ~among(self._reading, own.c.path, moved_away)
        statement = select(own.c.path, own.c.title).where(mine).order_by(own.c.path).limit(limit + 1)
        rows = [(row.path, row.title) for row in self._reading.execute(statement)]
        page = cut(rows, limit, total, self._shown([path for path, _ in rows], {}), lambda row: str(row[0]))
        if page.next is not None:
            return page
        last = self._reading.execute(select(func.count(), func.max(own.c.path)).select_from(own)).one()
        return ListPage(page.rows, page.total, last[1] if last[0] == _MOST else None)

    def _had_document(self, after: str | None) -> Any:
        """Return a subquery of the first paths with a document before the sync, and whether (1, 0) one `stays` after it."""
        own = self._own & images.c.content_id.is_not(None)
        if after is not None:
            own &= images.c.path > after
        columns = images.c.path, images.c.title, images.c.content_id
        first = select(*columns).where(own).order_by(images.c.path).limit(_MOST).subquery()
        later = images.alias("later")
        next_state = (
            select(case((later.c.content_id.is_not(None), 1), else_=0))
            .where(later.c.source_id == self._source_id, later.c.path == first.c.path, later.c.sync_id > self._sync_id)
            .order_by(later.c.sync_id)
            .limit(1)
            .scalar_subquery()
        )
        live = case((exists(_live(self._source_id, first.c.path)), 1), else_=0)
        return select(first, func.coalesce(next_state, live).label("stays")).subquery()

    def _moved(self) -> dict[str, str]:
        """Return the path before the move by the path after it, of documents that a listing or their content shows as moved."""
        by_listing = (
            select(items.c.locator, moves.c.locator.label("old"))
            .join_from(moves, history, history.c.id == moves.c.history_id)
            .join(items, items.c.id == moves.c.item_id)
            .where(history.c.sync_id == self._sync_id)
        )
        gone = self._had_document(None)
        new = images.alias("new")
        by_content = (
            select(documents.c.path, gone.c.path.label("old"))
            .join_from(gone, documents, documents.c.content_id == gone.c.content_id)
            .join(new, _of(new, self._source_id, self._sync_id) & (new.c.path == documents.c.path))
            .where(gone.c.stays == 0, documents.c.source_id == self._source_id, documents.c.removed_at.is_(None))
            .where(new.c.content_id.is_(None))
        )
        away = set(self._reading.execute(select(gone.c.path).where(gone.c.stays == 0)).scalars())
        found: dict[str, str] = {}
        for statement in (by_listing, by_content):
            for path, old in self._reading.execute(statement):
                if old in away and path not in found:
                    found[path] = old
                    away.discard(old)
        return found

    def _shown(self, paths: Sequence[str], moved: Mapping[str, str]) -> Any:
        """Return a function that describes a row (path, title of the deleted document)."""
        columns = items.c.locator, documents.c.id, documents.c.title
        now = select(*columns).join_from(items, documents, documents.c.item_id == items.c.id)
        mine = (items.c.source_id == self._source_id) & among(self._reading, items.c.locator, paths)
        live = now.where(mine, literal_column(_PRESENT), documents.c.removed_at.is_(None))
        rows = {row.locator: row for row in self._reading.execute(live)}

        def shown(row: tuple[str, str | None]) -> PathChange:
            path, title = row
            there = rows.get(path)
            return PathChange(path, there.title if there else title, there.id if there else None, moved.get(path))

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
