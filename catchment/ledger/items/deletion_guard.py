"""Deletion of items that are missing from a listing, with a guard: an unmounted disk looks like an empty folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import ColumnElement, delete, func, insert, literal_column, select, update

from catchment.errors import NotFound
from catchment.ledger.db.database import AnyRow, Reading, Store, Writing, among, from_json, to_json
from catchment.ledger.db.job_states import in_parts, in_small_parts
from catchment.ledger.db.lookup import cut, find_open_sync
from catchment.ledger.db.monotonic_clock import MonotonicClock
from catchment.ledger.db.row_records import record
from catchment.ledger.db.schema import DELETED, MISSING, documents, history, holds, items, jobs, marks, sources, syncs
from catchment.ledger.items.recording import VERSIONED
from catchment.ledger.jobs.endings import end
from catchment.ledger.jobs.repeats import repeat
from catchment.ledger.library import withdraw
from catchment.ledger.library.before_images import kept_from
from catchment.ledger.library.mail_relations import shown_title
from catchment.model import PARTS
from catchment.records.rows import Hold, Settled
from catchment.records.standing import ListPage

_FEW = 10
_SHARE = 0.1
_LONG = timedelta(hours=1) // timedelta(microseconds=1)
"""Time after which an item that a torn listing lacks counts as deleted."""
_FORGOTTEN_AT_ONCE = 500
_DELETED_AT_ONCE = 5_000
"""Transaction size. Larger ones would block other writers for seconds: 20,000 purged items, or 50,000 deleted ones."""


@dataclass(frozen=True, slots=True)
class HeldFolder:
    """A folder with held deletions, and their number."""

    folder: str
    deletions: int


@dataclass(frozen=True, slots=True)
class HeldItem:
    """An item whose deletion is held. `document` and `title`: what would be deleted; None without a document."""

    id: int
    item: str
    modified: datetime | None
    document: int | None
    title: str | None


class Deletions:
    """The guard against mass deletion, and the deletion itself."""

    def __init__(self, store: Store, monotonic: MonotonicClock) -> None:
        self._store = store
        self._monotonic = monotonic

    def settle(self, sync_id: int, *, changed_roots: Sequence[str] = (), torn: bool = False) -> Settled:
        """Delete the missing items, or hold the deletions if they are suspiciously many.

        Versioned deletions are applied. The others are all held if a root changed, or if they are more than 10 items and more
        than a tenth of the source. After a torn listing (see `Checkpoint`), only items missing for an hour count. Raises
        StaleLease if the sync is closed.
        """
        with self._store.write() as writing:
            sync = find_open_sync(writing, sync_id)
            missing = _missing(writing, sync.source_id)
            if torn and not (missing := _missing_for_long(writing, missing)):
                return Settled(0, 0)  # An open hold stays open.
            versioned = [] if torn else _versioned(writing, sync.source_id)
            # A container is one deletion, whatever is inside.
            parts = _inside_missing(writing, sync.source_id)
            unproven = len({*missing} - {*versioned} - parts)
            why = _suspicion(unproven, _stayed(writing, sync.source_id), changed_roots) if unproven else ""
            if why:
                _hold(writing, sync.source_id, sync_id, unproven, why, sync.owner)
                missing = versioned
            else:
                _close_hold(writing, sync.source_id, "few enough" if unproven else "came back")
                _accept_seen_root(writing, sync.source_id)

        def delete_part(writing: Writing, ids: Sequence[int]) -> None:
            find_open_sync(writing, sync_id)
            _delete(writing, ids, sync.source_id, sync.owner, sync_id, "gone")

        deleted = self._in_parts(missing, sync.source_id, delete_part)
        return Settled(deleted - len(parts & {*missing}), unproven if why else 0)

    def _in_parts(
        self, missing: Sequence[int], source_id: int, action: Callable[[Writing, Sequence[int]], None]
    ) -> int:
        """Apply `action` to the items that are still missing. Return their number. May be repeated after a kill."""
        count = 0
        for part in in_parts(missing, _DELETED_AT_ONCE):
            with self._store.write() as writing:
                still = _missing(writing, source_id, part)
                action(writing, still)
                count += len(still)
            if len(part) == _DELETED_AT_ONCE:
                self._store.let_others_write()
        return count

    def holds(self, source_id: int | None = None) -> list[Hold]:
        """Return the deletions that wait for an operator's decision."""
        statement = (
            select(holds, sources.c.name.label("source"))
            .join(sources, sources.c.id == holds.c.source_id)
            .where(holds.c.resolved_at.is_(None))
            .order_by(holds.c.id)
        )
        if source_id is not None:
            statement = statement.where(holds.c.source_id == source_id)
        return [record(Hold, row, count=row.number) for row in self._store.execute(statement)]

    def held_folders(self, source_id: int, limit: int = 50) -> ListPage[HeldFolder]:
        """Return the first folders with missing items, by name. These are the held deletions, if there is a hold."""
        folder = items.c.container
        counted = select(folder, func.count().label("number")).where(_is_missing(source_id)).group_by(folder)
        part = counted.order_by(folder).limit(limit + 1)
        with self._store.read() as reading:
            rows = reading.execute(part).all()
            folders = select(func.count(folder.distinct())).where(_is_missing(source_id))
            total = reading.execute(folders).scalar_one()
        return cut(rows, limit, total, lambda row: HeldFolder(row.container, row.number), lambda row: row.container)

    def held_items(
        self, source_id: int, folder: str | None = None, *, after: str | None = None, limit: int = 50
    ) -> ListPage[HeldItem]:
        """Return the missing items, by path, optionally of one folder without those inside it."""
        which = _is_missing(source_id)
        if folder is not None:
            which &= items.c.container == folder
        part = (
            select(items.c.id, items.c.locator, items.c.modified, documents.c.id.label("document"), documents.c.title)
            .outerjoin(documents, (documents.c.item_id == items.c.id) & documents.c.removed_at.is_(None))
            .where(which)
            .order_by(items.c.locator)
            .limit(limit + 1)
        )
        with self._store.read() as reading:
            rows = reading.execute(part if after is None else part.where(items.c.locator > after)).all()
            total = reading.execute(select(func.count()).select_from(items).where(which)).scalar_one()
        return cut(rows, limit, total, _held_item, lambda row: row.locator)

    def apply_hold(self, source_id: int, actor: str, reason: str) -> int:
        """Carry out held deletions and accept the present root. Return the number of items. Raises NotFound without a hold."""
        return self._resolve(source_id, actor, reason, "applied", partial(_delete, reason=reason))

    def drop_hold(self, source_id: int, actor: str, reason: str) -> int:
        """Keep the items until the next listing decides again. Return the number of items. Raises NotFound without a hold."""
        return self._resolve(source_id, actor, reason, "dropped", _keep)

    def _resolve(self, source_id: int, actor: str, reason: str, how: str, action: Callable[..., None]) -> int:
        with self._store.read() as reading:
            sync_id = _held(reading, source_id)
            missing = _missing(reading, source_id)
        count = self._in_parts(missing, source_id, lambda w, ids: action(w, ids, source_id, actor, sync_id))
        with self._store.write() as writing:
            _close_hold(writing, source_id, how, count if how == "applied" else 0)
            if how == "applied":
                _accept_seen_root(writing, source_id)
            writing.record(f"hold {how}", actor=actor, source_id=source_id, sync_id=sync_id, reason=reason)
        return count

    def purge(self) -> int:
        """Purge items that were deleted longer ago than their source keeps them, and their documents. Return their number."""
        with self._store.write() as writing:
            self._monotonic.now(writing)
            # Times recorded while the clock was ahead: the true age is unknown, so count from now.
            ahead = literal_column(DELETED) & (items.c.gone_at > writing.now)
            writing.execute(update(items).where(ahead).values(gone_at=writing.now))
            old = select(items.c.id).join(sources, sources.c.id == items.c.source_id)
            old = old.where(literal_column(DELETED), items.c.gone_at <= kept_from(writing))
        with self._store.read() as reading:
            sized = list(withdraw.sizes_of_items(reading, reading.execute(old).scalars().all()))
        count = 0
        for part in in_small_parts(sized, _FORGOTTEN_AT_ONCE):
            with self._store.write() as writing:
                # Some may have been restored since.
                still = writing.execute(old.where(items.c.id.in_(part))).scalars().all()
                withdraw.forget_items(writing, still)
                count += len(still)
            self._store.let_others_write()
        return count


def _is_missing(source_id: int) -> ColumnElement[bool]:
    return (items.c.source_id == source_id) & literal_column(MISSING)


def _missing(reading: Reading, source_id: int, among_ids: Sequence[int] | None = None) -> Sequence[int]:
    """Return the missing items that are not deleted, optionally among `among_ids`."""
    statement = select(items.c.id).where(items.c.source_id == source_id, literal_column(MISSING))
    if among_ids is not None:
        statement = statement.where(among(reading, items.c.id, among_ids))
    return reading.execute(statement.order_by(items.c.id)).scalars().all()


def _inside_missing(reading: Reading, source_id: int) -> set[int]:
    """Return the missing parts of missing items."""
    missing = select(items.c.id, items.c.locator, items.c.container).where(_is_missing(source_id))
    rows = reading.execute(missing).all()
    carriers = {row.locator + PARTS for row in rows}
    return {row.id for row in rows if row.container in carriers}


def _missing_for_long(writing: Writing, ids: Sequence[int]) -> Sequence[int]:
    statement = select(items.c.id).where(among(writing, items.c.id, ids), items.c.gone_at <= writing.now - _LONG)
    return writing.execute(statement.order_by(items.c.id)).scalars().all()


def _versioned(reading: Reading, source_id: int) -> Sequence[int]:
    """Return the missing items with a deletion that the source's history proves."""
    as_lost = (
        (history.c.item_id == items.c.id) & (history.c.sync_id == items.c.sync_id) & (history.c.event == "missing")
    )
    statement = select(items.c.id).join(history, as_lost).where(items.c.source_id == source_id, literal_column(MISSING))
    return (
        reading.execute(statement.where(history.c.reason == VERSIONED).distinct().order_by(items.c.id)).scalars().all()
    )


def _stayed(reading: Reading, source_id: int) -> int:
    """Return the number of present items. Items added after a hold do not count, since they do not confirm its deletions."""
    there = (items.c.source_id == source_id) & (items.c.state == "present")
    held_at = reading.execute(select(holds.c.held_at).where(_is_open(source_id))).scalar()
    if held_at is not None:
        there &= items.c.first_seen_at <= held_at
    return int(reading.execute(select(func.count()).where(there)).scalar_one())


def _suspicion(missing: int, stayed: int, changed_roots: Sequence[str]) -> str:
    if changed_roots:
        first, more = changed_roots[0] or "the root", len(changed_roots) - 1
        return f"{first} is another one than before" + (f", and {more} more" if more else "")
    if missing > max(_FEW, _SHARE * (missing + stayed)):
        return f"{missing} of {missing + stayed} items are gone"
    return ""


def _is_open(source_id: int) -> ColumnElement[bool]:
    return (holds.c.source_id == source_id) & holds.c.resolved_at.is_(None)


def _hold(writing: Writing, source_id: int, sync_id: int, count: int, reason: str, actor: str) -> None:
    condition = _is_open(source_id)
    values = {"sync_id": sync_id, "number": count, "reason": reason}
    known = writing.execute(select(holds.c.number).where(condition)).scalar()
    if known is None:
        row = {"id": writing.ids("holds")[0], "source_id": source_id, "held_at": writing.now}
        writing.execute(insert(holds).values(row | values))
    else:
        writing.execute(update(holds).where(condition).values(values))
    if known != count:
        writing.record("deletions held", actor=actor, source_id=source_id, sync_id=sync_id, reason=reason)


def _held(reading: Reading, source_id: int) -> int:
    condition = _is_open(source_id)
    sync_id = reading.execute(select(holds.c.sync_id).where(condition)).scalar()
    if sync_id is None:
        name = reading.execute(select(sources.c.name).where(sources.c.id == source_id)).scalar()
        raise NotFound(f"{name}: no held deletions; see `catchment deletions list`")
    return int(sync_id)


def _close_hold(writing: Writing, source_id: int, how: str, deleted: int = 0) -> None:
    """Close the hold, and correct the results of the syncs that held the deletions; the latest of them `deleted` some."""
    condition = _is_open(source_id)
    hold = writing.execute(select(holds.c.sync_id, holds.c.held_at).where(condition)).first()
    if hold is None:
        return
    writing.execute(update(holds).where(condition).values(resolved_at=writing.now, resolution=how))
    holding = (syncs.c.source_id == source_id) & (syncs.c.ended_at >= hold.held_at)
    for number, text in writing.execute(select(syncs.c.id, syncs.c.summary).where(holding)).all():
        if held := (figures := from_json(text)).pop("held", 0):
            is_applied = bool(deleted) and number == hold.sync_id
            figures |= {"deleted": figures.get("deleted", 0) + deleted} if is_applied else {"decided": held}
            writing.execute(update(syncs).where(syncs.c.id == number).values(summary=to_json(figures)))


def _accept_seen_root(writing: Writing, source_id: int) -> None:
    changed = (sources.c.id == source_id) & (sources.c.seen_root != sources.c.root)
    writing.execute(update(sources).where(changed).values(root=sources.c.seen_root))


def _delete(writing: Writing, item_ids: Sequence[int], source_id: int, actor: str, sync_id: int, reason: str) -> None:
    """Delete items and withdraw their documents. Tombstones and document rows remain for a retention period."""
    current = among(writing, jobs.c.item_id, item_ids) & jobs.c.current
    end(writing, current, actor=actor, reason="deleted", resolution="deleted", sync_id=sync_id)
    withdraw.withdraw_items(writing, item_ids, sync_id)
    writing.execute(update(items).where(among(writing, items.c.id, item_ids)).values(state="deleted"))
    for item_id in item_ids:
        writing.record("deleted", actor=actor, source_id=source_id, item_id=item_id, sync_id=sync_id, reason=reason)


def _keep(writing: Writing, item_ids: Sequence[int], source_id: int, actor: str, sync_id: int) -> None:
    """Restore items without a version and delete the marks, so that the next listing checks them again."""
    values = {"state": "present", "version": "", "gone_at": None}
    writing.execute(update(items).where(among(writing, items.c.id, item_ids)).values(values))
    writing.execute(delete(marks).where(marks.c.source_id == source_id))
    _list_again(writing, among(writing, items.c.id, item_ids), source_id, actor)
    for item_id in item_ids:
        writing.record("kept", actor=actor, source_id=source_id, item_id=item_id, sync_id=sync_id)


def _list_again(writing: Writing, parts: ColumnElement[bool], source_id: int, actor: str) -> None:
    """Have the files read again that these parts are in: only reading them tells whether the parts are there."""
    inside = select(items.c.container).where(parts, items.c.container.endswith(PARTS)).distinct()
    carriers = {container.removesuffix(PARTS) for container in writing.execute(inside).scalars()}
    statement = (
        select(items.c.id, items.c.version, jobs.c.id.label("job"))
        .join_from(items, jobs, (jobs.c.item_id == items.c.id) & jobs.c.current)
        .where(items.c.source_id == source_id, among(writing, items.c.locator, carriers))
    )
    repeat(writing, source_id, writing.execute(statement).all(), "deletions inside dropped", actor, None, None)


def _held_item(row: AnyRow) -> HeldItem:
    return record(HeldItem, row, item=row.locator, title=row.title and shown_title(row.title, row.locator))
