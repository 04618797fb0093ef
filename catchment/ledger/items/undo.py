"""Undo: restore the library to the state before a sync, path by path, from before-images.

The source itself is unaffected: items keep their versions, so the next sync leaves the restored state alone until an item
changes. Documents restored at paths that the source no longer has are marked *kept*. An undo is recorded as a sync and can be
undone too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import bindparam, func, insert, select, update

from catchment import __version__
from catchment.errors import NotFound, TryAgain
from catchment.ledger.db.database import AnyRow, Reading, Store, Writing, among, from_json, to_json
from catchment.ledger.db.job_states import CANCELLED, SKIPPED, SUCCEEDED, in_parts, in_small_parts
from catchment.ledger.db.joined_hosts import JoinedHosts
from catchment.ledger.db.lookup import find_open_sync
from catchment.ledger.db.monotonic_clock import MonotonicClock
from catchment.ledger.db.schema import BEING_DELETED, documents, items, jobs, sources, syncs
from catchment.ledger.db.schema import before_images as images
from catchment.ledger.items.syncs import close_crashed
from catchment.ledger.jobs.delivery import complete
from catchment.ledger.library import before_images, withdraw, word_index
from catchment.model import JobState
from catchment.runtime import heartbeat, process

_EFFECTS = ("succeeded", "moved", "deleted", "undoes")
"""Figures of a summary that stand for changes of documents."""
_READ_AT_ONCE = 50_000
_ROWS_AT_ONCE = 1_000


class UndoAction(StrEnum):
    """Effect of an undo at a path. `LEFT`: none, because the path has changed since the sync."""

    TAKE_OUT = "take out"
    BRING_BACK = "bring back"
    SET_BACK = "set back"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Undone:
    """Result of an undo, or of its preview, by path.

    `number` is the undo's own sync ID, None if nothing was done.
    """

    source: str
    sync_id: int
    number: int | None
    actions: Mapping[str, UndoAction]

    def count(self, action: UndoAction) -> int:
        """Return the number of paths with this action."""
        return sum(planned is action for planned in self.actions.values())


@dataclass(frozen=True, slots=True)
class _Place:
    """A path with its before-image and its present item, including the item's document, if any."""

    before: AnyRow
    item: AnyRow | None
    action: UndoAction


class Undo:
    """Undo of syncs."""

    def __init__(self, store: Store, monotonic: MonotonicClock) -> None:
        self._store = store
        self._monotonic = monotonic

    def preview(self, sync_id: int) -> Undone:
        """Return the effects of undoing a sync. Raises NotFound without before-images."""
        with self._store.read() as reading:
            source, before = _found(reading, sync_id)
            places = _places(reading, source.id, sync_id, before)
            return Undone(source.name, sync_id, None, {place.before.path: place.action for place in places})

    def refusal(self, sync_id: int) -> str | None:
        """Return why a sync cannot be undone now, in words; None if it can."""
        with self._store.read() as reading:
            row = reading.execute(select(syncs.c.source_id, syncs.c.summary).where(syncs.c.id == sync_id)).first()
            if row is None:
                return "not found"
            is_open = (syncs.c.source_id == row.source_id) & syncs.c.outcome.is_(None)
            if reading.execute(select(syncs.c.id).where(is_open)).first() is not None:
                return "a sync of the source is running"
            parts = _parts(reading, row.source_id, sync_id)
            own = (images.c.source_id == row.source_id) & images.c.sync_id.in_(parts)
            first = reading.execute(select(func.min(images.c.kept_at)).where(own)).scalar()
            if first is None and not any(from_json(row.summary).get(name) for name in _EFFECTS):
                return "it changed nothing"
            return "its undo data expired" if first in (None, BEING_DELETED) else None

    def undone_by(self, sync_id: int) -> int | None:
        """Return the latest completed undo of a sync; None without one."""
        which = (syncs.c.summary == to_json({"undoes": sync_id})) & (syncs.c.outcome == "completed")
        with self._store.read() as reading:
            number: int | None = reading.execute(select(func.max(syncs.c.id)).where(which)).scalar()
            return number

    def undo(self, sync_id: int, actor: str, reason: str, alive: Callable[[str], bool]) -> Undone:
        """Undo a sync, except at paths that have changed since. Includes the preceding yielded syncs that it continued.

        Locks out syncs of the source. Works in several transactions; after a kill, repeat it to finish. Raises NotFound without
        before-images, TryAgain while a sync of the source is running, StaleLease if another process took the undo for dead.
        """
        JoinedHosts(self._store).beat_for_command()
        with self._store.read() as reading:
            source, before = _found(reading, sync_id)
            is_needed = any(_places(reading, source.id, sync_id, part) for part in in_parts(before, _ROWS_AT_ONCE))
        with self._store.write() as writing:
            _close_open(writing, source, alive)
            number = _begin(writing, source.id, sync_id, is_needed)
            if number is None:
                return Undone(source.name, sync_id, None, {})
            _Undoing(writing, source.id, number, actor, reason).tell("undone")
        actions: dict[str, UndoAction] = {}
        for number_of_part, part in enumerate(in_parts([row.path for row in before], _ROWS_AT_ONCE), 1):
            with self._store.write() as writing:
                find_open_sync(writing, number)
                # Some paths may have changed, or their before-images may have expired.
                places = _places(writing, source.id, sync_id, _found(writing, sync_id, part)[1])
                done = _Undoing(writing, source.id, number, actor, reason)
                done.take_out([p for p in places if p.action is UndoAction.TAKE_OUT])
                done.put_back([p for p in places if p.action in (UndoAction.BRING_BACK, UndoAction.SET_BACK)])
            actions |= {place.before.path: place.action for place in places}
            heartbeat.report("undoing", min(number_of_part * _ROWS_AT_ONCE, len(before)), len(before))
            self._store.let_others_write()
        with self._store.write() as writing:
            find_open_sync(writing, number)
            values = {"outcome": "completed", "ended_at": writing.now}
            writing.execute(update(syncs).where(syncs.c.id == number).values(values))
        return Undone(source.name, sync_id, number, actions)

    def purge(self, most: int) -> int:
        """Delete undo data older than its source keeps it, and beyond `most` characters in total. Return the number of syncs.

        May be repeated after a kill; the affected syncs can no longer be undone.
        """
        with self._store.write() as writing:
            self._monotonic.now(writing)
            before_images.clamp_future_times(writing)
        with self._store.read() as reading:
            numbers = before_images.expired_syncs(reading, most)
        with self._store.write() as writing:
            before_images.mark_for_deletion(writing, numbers)
        while True:
            with self._store.read() as reading:
                rows = before_images.next_deletions(reading, numbers, _READ_AT_ONCE)
            if not rows:
                break
            for part in in_small_parts(((row[:3], row[3]) for row in rows), _ROWS_AT_ONCE):
                with self._store.write() as writing:
                    _forget(writing, part)
                self._store.let_others_write()
        return len(numbers)


def _forget(writing: Writing, rows: Sequence[tuple[int, int, str]]) -> None:
    """Delete the before-images of these syncs, sources and paths."""
    for (number, source_id), its in groupby(rows, key=itemgetter(0, 1)):
        condition = (images.c.source_id == source_id) & (images.c.sync_id == number)
        withdraw.forget_before_images(writing, condition & among(writing, images.c.path, [path for *_, path in its]))


def _found(reading: Reading, sync_id: int, paths: Sequence[str] | None = None) -> tuple[AnyRow, list[AnyRow]]:
    """Return the source of a sync and the before-images of its paths, or of `paths`. Raises NotFound."""
    source = reading.execute(
        select(sources.c.id, sources.c.name)
        .join(syncs, syncs.c.source_id == sources.c.id)
        .where(syncs.c.id == sync_id, sources.c.state != "removed")
    ).first()
    if source is None:
        raise NotFound(f"sync {sync_id}: not found; see `catchment sources show NAME`")
    before = before_images.of_syncs(reading, source.id, _parts(reading, source.id, sync_id), paths)
    if not before or (paths is not None and len(before) < len(paths)):
        raise NotFound(
            f"sync {sync_id} of {source.name}: cannot be undone; it changed nothing, or its undo data expired"
        )
    return source, before


def _places(reading: Reading, source_id: int, sync_id: int, before: Sequence[AnyRow]) -> list[_Place]:
    """Return the paths changed by a sync that differ from their before-images."""
    paths = [row.path for row in before]
    after = before_images.after(reading, source_id, sync_id, paths)
    now = _now(reading, source_id, paths)
    places = []
    for row in before:
        item = now.get(row.path)
        action = _action(row, item)
        if action is not None:
            # If later changes were undone, the path is again as this sync left it.
            changed = row.path in after and _action(after[row.path], item) is not None
            places.append(_Place(row, item, UndoAction.LEFT if changed else action))
    return places


def _close_open(writing: Writing, source: AnyRow, alive: Callable[[str], bool]) -> None:
    """Close the open sync of a dead owner. Raises TryAgain while a sync is running."""
    is_open = (syncs.c.source_id == source.id) & syncs.c.outcome.is_(None)
    found = writing.execute(select(syncs.c.id, syncs.c.owner).where(is_open)).first()
    if found is None:
        return
    if alive(found.owner):
        raise TryAgain(f"{source.name}: a sync is running; try again later")
    close_crashed(writing, source.id, found.id, found.owner)


def _begin(writing: Writing, source_id: int, sync_id: int, is_needed: bool) -> int | None:
    """Open a sync for the undo, if needed. Reuses the latest one if it is the same undo, interrupted by a kill."""
    condition = syncs.c.source_id == source_id
    latest = writing.execute(
        select(syncs.c.id, syncs.c.outcome, syncs.c.summary).where(condition).order_by(syncs.c.id.desc()).limit(1)
    ).one()
    summary = {"undoes": sync_id}
    values = {"owner": process.identity(), "outcome": None, "ended_at": None}
    if latest.outcome == "crashed" and from_json(latest.summary) == summary:
        writing.execute(update(syncs).where(syncs.c.id == latest.id).values(values))
        return int(latest.id)
    if not is_needed:
        return None
    number = writing.ids("syncs")[0]
    row = {"id": number, "source_id": source_id, "code_version": __version__, "began_at": writing.now}
    writing.execute(insert(syncs).values(row | values | {"summary": to_json(summary)}))
    return number


def _parts(reading: Reading, source_id: int, sync_id: int) -> list[int]:
    """Return the sync and the yielded syncs directly before it."""
    parts = [sync_id]
    earlier = select(syncs.c.id, syncs.c.outcome).where(syncs.c.source_id == source_id, syncs.c.id < sync_id)
    with reading.execute(earlier.order_by(syncs.c.id.desc())) as rows:
        for number, outcome in rows:
            if outcome != "yielded":
                break
            parts.append(number)
    return parts


def _now(reading: Reading, source_id: int, paths: Sequence[str]) -> dict[str, AnyRow]:
    """Return the items at these paths with their jobs and documents. An item that is not deleted takes precedence."""
    statement = (
        select(
            items.c.id,
            items.c.locator,
            items.c.version,
            items.c.state,
            jobs.c.id.label("job"),
            jobs.c.state.label("job_state"),
            documents.c.id.label("document"),
            documents.c.removed_at,
            *(documents.c[name] for name in before_images.DOCUMENT_COLUMNS),
        )
        .outerjoin(jobs, (jobs.c.item_id == items.c.id) & jobs.c.current)
        .outerjoin(documents, documents.c.item_id == items.c.id)
        .order_by(items.c.id)
    )
    found: dict[str, AnyRow] = {}
    # Separate queries, because each condition has its own index.
    for state in (items.c.state == "deleted", items.c.state != "deleted"):
        for part in in_parts(paths):
            condition = (items.c.source_id == source_id) & among(reading, items.c.locator, part)
            found |= {row.locator: row for row in reading.execute(statement.where(condition, state))}
    return found


def _action(before: AnyRow, item: AnyRow | None) -> UndoAction | None:
    """Return the action that restores a path, or None if it matches its before-image."""
    live = _live(item)
    if before.content_id is None:
        return UndoAction.TAKE_OUT if live else None
    if not live:
        return UndoAction.BRING_BACK
    same = all(getattr(item, name) == getattr(before, name) for name in before_images.DOCUMENT_COLUMNS)
    return None if same else UndoAction.SET_BACK


def _live(item: AnyRow | None) -> bool:
    return item is not None and item.document is not None and item.removed_at is None


_WHY = {CANCELLED: "taken out by an undo until it changes", SUCCEEDED: "brought back by an undo"}


class _Undoing:
    """The changes of an undo within one transaction."""

    def __init__(self, writing: Writing, source_id: int, number: int, actor: str, reason: str) -> None:
        self._number = number
        self._writing = writing
        self._source_id = source_id
        self._actor = actor
        self._reason = reason or None

    def take_out(self, places: Sequence[_Place]) -> None:
        """Withdraw documents. Items at the source get a cancelled job, so that they stay out until they change."""
        there = [place.item for place in places if place.item is not None]
        withdraw.withdraw_items(self._writing, [item.id for item in there])
        kept = [item.id for item in there if item.state == "kept"]
        gone = {"state": "deleted", "gone_at": self._writing.now, "sync_id": self._number}
        for part in in_parts(kept):
            self._writing.execute(update(items).where(items.c.id.in_(part)).values(gone))
        settled = [i for i in there if i.state != "kept" and i.job_state in (SUCCEEDED, SKIPPED)]
        self._replace_jobs([(item.id, item.version) for item in settled], CANCELLED)
        for item in there:
            self.tell("taken out", item.id)

    def put_back(self, places: Sequence[_Place]) -> None:
        """Restore the documents of these paths."""
        nowhere = [place for place in places if place.item is None]
        made = self._make_items([place.before.path for place in nowhere])
        known = {**{p.before.path: p.item.id for p in places if p.item is not None}, **made}
        stopped = [p.item for p in places if p.item is not None and p.item.job_state == CANCELLED]
        self._replace_jobs([(item.id, item.version) for item in stopped], SUCCEEDED)
        deleted = [p.item.id for p in places if p.item is not None and p.item.state == "deleted"]
        for part in in_parts(deleted):
            values = {"state": "kept", "sync_id": self._number, "changed_at": self._writing.now}
            self._writing.execute(update(items).where(items.c.id.in_(part)).values(values))
        for part in in_parts(places):
            self._put_documents([(known[p.before.path], p) for p in part])
        for number in known.values():
            self.tell("brought back", number)

    def _make_items(self, paths: Sequence[str]) -> dict[str, int]:
        """Create items for paths that the source does not have."""
        numbers = dict(zip(paths, self._writing.ids("items", len(paths)), strict=True)) if paths else {}
        now = self._writing.now
        moments = {"first_seen_at": now, "changed_at": now, "gone_at": now}
        rows = [
            {"id": number, "source_id": self._source_id, "locator": path, "container": path.rpartition("/")[0]}
            | {"version": "", "state": "kept", "sync_id": self._number, **moments}
            for path, number in numbers.items()
        ]
        self._writing.insert_named(items, rows)
        self._replace_jobs([(number, "") for number in numbers.values()], SUCCEEDED)
        return numbers

    def _replace_jobs(self, made: Sequence[tuple[int, str]], state: JobState) -> None:
        """Give items (ID, version) a new job that has ended in this state."""
        for part in in_parts([number for number, _ in made]):
            condition = jobs.c.item_id.in_(part) & jobs.c.current
            self._writing.execute(update(jobs).where(condition).values(current=False))
        now, tried = self._writing.now, int(state is SUCCEEDED)
        moments = dict.fromkeys(("due", "enqueued_at", "not_before", "finished_at"), now)
        about = {"source_id": self._source_id, "current": True, "state": state.value, "reason": _WHY[state]}
        numbers = self._writing.ids("jobs", len(made)) if made else range(0)
        rows: list[dict[str, Any]] = [
            {
                "id": job,
                "item_id": item,
                "version": version,
                "attempt": tried,
                "sync_id": self._number,
                **about,
                **moments,
            }
            for job, (item, version) in zip(numbers, made, strict=True)
        ]
        self._writing.insert_named(jobs, rows)
        for row in rows:
            self.tell(state.value, row["item_id"], row["id"], tried)

    def tell(self, event: str, item: int | None = None, job: int | None = None, attempt: int | None = None) -> None:
        """Record an event in the history."""
        self._writing.record(
            event,
            actor=self._actor,
            source_id=self._source_id,
            item_id=item,
            job_id=job,
            sync_id=self._number,
            attempt=attempt,
            reason=self._reason,
        )

    def _put_documents(self, places: Sequence[tuple[int, _Place]]) -> None:
        writing = self._writing
        old = {number: p.item.document for number, p in places if p.item is not None and p.item.document is not None}
        live = among(writing, documents.c.id, list(old.values())) & documents.c.removed_at.is_(None)
        before_images.save(writing, live)
        before_images.save_absent(writing, [(self._source_id, p.before.path) for _, p in places if not _live(p.item)])
        word_index.forget_names(writing, live)
        rows = [
            {"item_id": number, "path": p.before.path, "source_id": self._source_id, "removed_at": None}
            | {name: getattr(p.before, name) for name in before_images.DOCUMENT_COLUMNS}
            for number, p in places
        ]
        changed = [{**row, "document": old[row["item_id"]]} for row in rows if row["item_id"] in old]
        if changed:
            writing.execute(update(documents).where(documents.c.id == bindparam("document")), changed)
        added = [row for row in rows if row["item_id"] not in old]
        numbers = writing.ids("documents", len(added)) if added else range(0)
        writing.insert_named(documents, [{"id": n, **row} for n, row in zip(numbers, added, strict=True)])
        complete(writing, [number for number, _ in places])
        word_index.learn_names(writing, among(writing, documents.c.item_id, [number for number, _ in places]))
