"""The changes of an act in the library, and the part that an undo reverts. An act is a sync with its parts, or a backfill.

The changes of a sync are at the paths of its before-images. The changes of a backfill are found by its jobs: any sync may have
delivered a job that failed before, and its item may have moved since. Such items are followed along their moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

from sqlalchemy import select

from catchment.errors import NotFound
from catchment.ledger.db.database import AnyRow, Reading, among
from catchment.ledger.db.job_states import SKIPPED, SUCCEEDED
from catchment.ledger.db.schema import documents, history, items, jobs, moves, sources, syncs
from catchment.ledger.library import before_images
from catchment.records.standing import UndoAction

_DELIVERED = (SUCCEEDED.value, SKIPPED.value)
_MOVED = "moved"


@dataclass(frozen=True, slots=True)
class _Trail:
    """The places of an item since an act, as of `before_images.along`, and the syncs that delivered its jobs of that act."""

    places: Sequence[tuple[str, int, int]]
    syncs: frozenset[int]


@dataclass(frozen=True, slots=True)
class UndoScope:
    """A sync and its earlier parts, or all syncs of a backfill, with the paths that they changed.

    `sync_id`: the latest of `parts`. `kept`: the parts with complete undo data. `trails`: by their present paths, the items
    that have moved since, or that another sync delivered. `moved`: by their paths before a sync, the present paths of the
    items that it moved.
    """

    source_id: int
    source: str
    sync_id: int
    backfill: int | None
    is_undo: bool
    parts: frozenset[int]
    kept: frozenset[int]
    paths: Sequence[str]
    trails: Mapping[str, _Trail]
    moved: Mapping[str, str]

    def connected(self, part: Sequence[str]) -> list[str]:
        """Return these paths and all that items moved to or from, directly or by a chain of moves."""
        left = {new: old for old, new in self.moved.items()}
        paths, rest = set(part), list(part)
        while rest:
            path = rest.pop()
            added = {moves[path] for moves in (self.moved, left) if path in moves} - paths
            paths |= added
            rest += added
        return sorted(paths)


@dataclass(frozen=True, slots=True)
class Place:
    """A path with the before-image to restore there and its present item, including the item's document, if any."""

    path: str
    before: AnyRow
    item: AnyRow | None
    action: UndoAction


def scope_of_sync(reading: Reading, sync_id: int) -> UndoScope:
    """Return a sync with the syncs that it continues and the paths to restore. Raises NotFound."""
    row = reading.execute(
        select(sources.c.id, sources.c.name, syncs.c.backfill_id, syncs.c.undoes)
        .join(syncs, syncs.c.source_id == sources.c.id)
        .where(syncs.c.id == sync_id, sources.c.state != "removed")
    ).first()
    if row is None:
        raise NotFound(f"sync {sync_id}: not found; see `catchment sources show NAME`")
    parts = frozenset(parts_of(reading, sync_id))
    paths, undoable = before_images.paths_of(reading, row.id, parts)
    if not paths:
        raise _nothing_kept(sync_id, row.name)
    moved, is_undo = _moved(reading, parts, set(paths)), row.undoes is not None
    return UndoScope(row.id, row.name, sync_id, row.backfill_id, is_undo, parts, undoable, paths, {}, moved)


def scope_of_backfill(reading: Reading, number: int) -> UndoScope:
    """Return a backfill with its syncs and the paths to restore. Raises NotFound without undo data."""
    its_syncs = (
        select(syncs.c.id, syncs.c.source_id, sources.c.name)
        .join(sources)
        .where(syncs.c.backfill_id == number, sources.c.state != "removed")
        .order_by(syncs.c.id)
    )
    rows = reading.execute(its_syncs).all()
    parts = frozenset(row.id for row in rows)
    trails = _trails(reading, number, parts) if rows else {}
    elsewhere = frozenset[int]().union(*(trail.syncs for trail in trails.values())) - parts
    paths, undoable = before_images.paths_of(reading, rows[0].source_id, parts) if rows else ([], frozenset())
    undoable |= before_images.kept_whole(reading, elsewhere)
    left = {place for trail in trails.values() for place, *_ in trail.places}
    every = sorted({path for path in paths if path not in left} | trails.keys())
    if not every or not undoable:
        raise NotFound(f"backfill {number}: cannot be undone; it changed nothing, or its undo data expired")
    return UndoScope(rows[0].source_id, rows[0].name, rows[-1].id, number, False, parts, undoable, every, trails, {})


def _trails(reading: Reading, number: int, parts: frozenset[int]) -> dict[str, _Trail]:
    """Return the trails of the items of a backfill that have moved since its first sync, or that another sync delivered."""
    its_items = select(jobs.c.item_id).where(jobs.c.backfill_id == number)
    is_own = (jobs.c.backfill_id == number) & history.c.event.in_(_DELIVERED)
    events = (
        select(history.c.item_id, history.c.sync_id, items.c.locator.label("present"), moves.c.locator)
        .join_from(history, items, items.c.id == history.c.item_id)
        .outerjoin(jobs, jobs.c.id == history.c.job_id)
        .outerjoin(moves, moves.c.history_id == history.c.id)
        .where(history.c.item_id.in_(its_items), history.c.sync_id >= min(parts))
        .where(is_own | ((history.c.event == _MOVED) & moves.c.locator.is_not(None)))
        .order_by(history.c.item_id, history.c.id)
    )
    trails = {}
    for _, rows in groupby(reading.execute(events), attrgetter("item_id")):
        of_item = list(rows)
        moved = [row for row in of_item if row.locator is not None]
        delivered = frozenset(row.sync_id for row in of_item if row.locator is None)
        if moved or delivered - parts:
            present = of_item[0].present
            trails[present] = _Trail(list(before_images.places(moved, present)), delivered)
    return trails


def _moved(reading: Reading, parts: frozenset[int], paths: Set[str]) -> dict[str, str]:
    """Return the present paths of the items that these syncs moved, by their paths before. The first item of a path counts."""
    rows = reading.execute(
        select(moves.c.item_id, moves.c.locator, items.c.locator.label("present"))
        .join_from(moves, history, history.c.id == moves.c.history_id)
        .join(items, items.c.id == moves.c.item_id)
        .where(history.c.sync_id.in_(parts))
        .order_by(moves.c.history_id.desc())
    )
    first = {row.item_id: (row.locator, row.present) for row in rows}
    return {old: new for old, new in first.values() if old != new and {old, new} <= paths}


def parts_of(reading: Reading, sync_id: int) -> list[int]:
    """Return the sync and the syncs that it continues, latest first."""
    parts: list[int] = []
    number: int | None = sync_id
    while number is not None:
        parts.append(number)
        number = reading.execute(select(syncs.c.continues).where(syncs.c.id == number)).scalar()
    return parts


def _nothing_kept(sync_id: int, source: str) -> NotFound:
    return NotFound(f"sync {sync_id} of {source}: cannot be undone; it changed nothing, or its undo data expired")


def places(reading: Reading, act: UndoScope, paths: Sequence[str]) -> list[Place]:
    """Return those of the act's paths that it changed and that differ from the state before it. Raises NotFound."""
    plain = [path for path in paths if path not in act.trails]
    changes = before_images.since(reading, act.source_id, min(act.kept), plain)
    now = present_items(reading, act.source_id, paths)
    changed = []
    for path in paths:
        item, trail, own = now.get(path), act.trails.get(path), act.kept & act.parts
        if trail is not None:
            own |= act.kept & trail.syncs
            changes[path] = _along(reading, act, trail, own)
        before, is_left = _before(changes.get(path, ()), own, item)
        if before is None and trail is not None:
            continue  # No job of the backfill has changed it, or its undo data expired.
        if before is None:
            raise _nothing_kept(act.sync_id, act.source)
        action = UndoAction.LEFT if is_left else _action(before, item)
        if action is not None:
            changed.append(Place(path, before, item, action))
    return changed


def _along(reading: Reading, act: UndoScope, trail: _Trail, own: frozenset[int]) -> list[AnyRow]:
    """Return the before-images of an item since its first own change, without those of its arrivals by other syncs."""
    rows = before_images.along(reading, act.source_id, trail.places)
    first = min(own, default=0)
    return [row for row, is_arrival in rows if row.sync_id >= first and (row.sync_id in own or not is_arrival)]


def _before(changes: Sequence[AnyRow], parts: frozenset[int], item: AnyRow | None) -> tuple[AnyRow | None, bool]:
    """Return the state of a path before the changes by `parts`, and whether it must be left, because of another change.

    The changes are taken back one by one, latest first, each if the path is as this change left it: another sync may have
    changed the path between two parts, and that change may have been undone.
    """
    before, is_left = None, False
    present = after = content_of(item) if is_live(item) else None
    state = present
    for image in reversed(changes):
        was = None if image.content_id is None else content_of(image)
        if image.sync_id in parts:
            if after == state:
                before, state = image, was
            elif was != state:
                is_left = True
            before = before or image
        after = was
    return before, is_left and state == present


def present_items(reading: Reading, source_id: int, paths: Sequence[str]) -> dict[str, AnyRow]:
    """Return the items at these paths with their jobs and documents. An item that is not deleted takes precedence."""
    earlier = jobs.alias("earlier")
    statement = (
        select(
            items.c.id,
            items.c.locator,
            items.c.version,
            items.c.state,
            jobs.c.id.label("job"),
            jobs.c.state.label("job_state"),
            jobs.c.reason.label("job_reason"),
            jobs.c.sync_id.label("job_sync"),
            jobs.c.backfill_id.label("job_backfill"),
            earlier.c.id.label("earlier"),
            earlier.c.state.label("earlier_state"),
            earlier.c.reason.label("earlier_reason"),
            documents.c.id.label("document"),
            documents.c.removed_at,
            *(documents.c[name] for name in before_images.DOCUMENT_COLUMNS),
        )
        .outerjoin(jobs, (jobs.c.item_id == items.c.id) & jobs.c.current)
        .outerjoin(earlier, earlier.c.id == jobs.c.replay_of)
        .outerjoin(documents, documents.c.item_id == items.c.id)
        .order_by(items.c.id)
    )
    present: dict[str, AnyRow] = {}
    # Separate queries, because each condition has its own index.
    for state in (items.c.state == "deleted", items.c.state != "deleted"):
        condition = (items.c.source_id == source_id) & among(reading, items.c.locator, paths)
        present |= {row.locator: row for row in reading.execute(statement.where(condition, state))}
    return present


def _action(before: AnyRow, item: AnyRow | None) -> UndoAction | None:
    """Return the action that restores a path, or None if it matches its before-image."""
    if before.content_id is None:
        return UndoAction.TAKE_OUT if is_live(item) else None
    if not is_live(item):
        return UndoAction.BRING_BACK
    return None if content_of(item) == content_of(before) else UndoAction.SET_BACK


def is_live(item: AnyRow | None) -> bool:
    """Return whether an item has a document in the library."""
    return item is not None and item.document is not None and item.removed_at is None


def content_of(row: Any) -> tuple[Any, ...]:
    """Return the content of the document of an item or of a before-image."""
    return tuple(getattr(row, name) for name in before_images.DOCUMENT_COLUMNS)
