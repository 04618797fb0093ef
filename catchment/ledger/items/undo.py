"""Undo: restore the library to the state before a sync, path by path, from before-images.

The source itself is unaffected: items keep their versions, so the next sync leaves the restored state alone until an item
changes. Documents restored at paths that the source no longer has are marked *kept*. An undo is recorded as a sync and can be
undone too. A moved document returns to its former path with its number; a new item then stands for its file, at the new path.

Each undone item gets a finished job, which stands in for the one before: neither a sync nor a replay delivers the item then,
unless it changes at the source. The undo of the undo lets the earlier job count again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import itemgetter

from sqlalchemy import bindparam, func, insert, select, update

from catchment import __version__
from catchment.errors import CatchmentError, SkipReason, TryAgain
from catchment.ledger.db.database import AnyRow, Reading, Store, Writing, among, from_json
from catchment.ledger.db.job_states import (
    CANCELLED,
    PENDING,
    RETRYING,
    SKIPPED,
    SUCCEEDED,
    in_parts,
    in_small_parts,
    states,
)
from catchment.ledger.db.joined_hosts import JoinedHosts
from catchment.ledger.db.lookup import find_open_sync
from catchment.ledger.db.monotonic_clock import MonotonicClock
from catchment.ledger.db.schema import BEING_DELETED, documents, items, jobs, sources, syncs
from catchment.ledger.db.schema import before_images as images
from catchment.ledger.items.matching import LISTED_COLUMNS, TAKEN_OUT
from catchment.ledger.items.recording import vacate
from catchment.ledger.items.syncs import close_crashed, interrupted
from catchment.ledger.items.undo_scope import (
    Place,
    UndoScope,
    content_of,
    is_live,
    parts_of,
    places,
    present_items,
    scope_of_backfill,
    scope_of_sync,
)
from catchment.ledger.jobs.delivery import complete
from catchment.ledger.jobs.endings import WAITING, count_again, end, supersede
from catchment.ledger.jobs.repeats import RESTORED, NewJob, add
from catchment.ledger.library import before_images, withdraw, word_index
from catchment.model import JobState
from catchment.records.standing import UndoAction
from catchment.runtime import heartbeat, process

_EFFECTS = ("succeeded", "moved", "deleted")
"""Figures of a summary that stand for changes of documents."""
_UNDONE = "undone"
"""Why a waiting job of an undone item was cancelled."""
_REPLAY_UNDONE = "a replay was undone"
_READ_AT_ONCE = 50_000
_ROWS_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Undone:
    """Result of an undo, or of its preview, by path.

    `number` is the sync ID of the undo, None if it changed no documents. `waiting`: items that the sync found and has not
    stored; a later sync stores them.
    """

    source: str
    sync_id: int
    number: int | None
    actions: Mapping[str, UndoAction]
    waiting: int = 0

    def count(self, action: UndoAction) -> int:
        """Return the number of paths with this action."""
        return sum(planned is action for planned in self.actions.values())


class Undo:
    """Undo of syncs."""

    def __init__(self, store: Store, monotonic: MonotonicClock) -> None:
        self._store = store
        self._monotonic = monotonic

    def preview(self, sync_id: int) -> Undone:
        """Return the effects of undoing a sync. Raises NotFound without before-images."""
        with self._store.read() as reading:
            act = scope_of_sync(reading, sync_id)
            actions = {place.path: place.action for place in places(reading, act, act.paths)}
            return Undone(act.source, sync_id, None, actions, _count_waiting(reading, act))

    def refusal(self, sync_id: int) -> str | None:
        """Return why a sync cannot be undone now, in words; None if it can."""
        with self._store.read() as reading:
            row = reading.execute(
                select(syncs.c.source_id, syncs.c.undoes, syncs.c.summary).where(syncs.c.id == sync_id)
            ).first()
            if row is None:
                return "not found"
            is_open = (syncs.c.source_id == row.source_id) & syncs.c.outcome.is_(None)
            if reading.execute(select(syncs.c.id).where(is_open)).first() is not None:
                return "a sync of the source is running"
            own = (images.c.source_id == row.source_id) & images.c.sync_id.in_(parts_of(reading, sync_id))
            first = reading.execute(select(func.min(images.c.kept_at)).where(own)).scalar()
            had_effect = row.undoes is not None or any(from_json(row.summary).get(name) for name in _EFFECTS)
            if first is None and not had_effect:
                return "it changed nothing"
            return "its undo data expired" if first in (None, BEING_DELETED) else None

    def undone_by(self, sync_id: int) -> int | None:
        """Return the latest completed undo of a sync, or of a sync that continues it; None without an undo."""
        undo: int | None = None
        number: int | None = sync_id
        with self._store.read() as reading:
            while number is not None:
                which = (syncs.c.undoes == number) & (syncs.c.outcome == "completed")
                latest = reading.execute(select(func.max(syncs.c.id)).where(which)).scalar()
                undo = max(undo or 0, latest or 0) or None
                number = reading.execute(select(func.min(syncs.c.id)).where(syncs.c.continues == number)).scalar()
        return undo

    def require_idle(self, source: str, alive: Callable[[str], bool]) -> None:
        """Raise TryAgain while a sync of the source is running."""
        is_open = (sources.c.name == source) & syncs.c.outcome.is_(None)
        owner = self._store.execute(select(syncs.c.owner).join(sources).where(is_open)).scalar()
        if owner is not None and alive(owner):
            raise _running(source)

    def undo(self, sync_id: int, actor: str, reason: str, alive: Callable[[str], bool]) -> Undone:
        """Undo a sync, except at paths that have changed since. Includes the yielded syncs that it continues.

        Cancels the waiting jobs of the undone items, unless a later sync found a change. Locks out syncs of the source. Works
        in several transactions; after a kill, repeat it to finish. Raises NotFound without before-images, TryAgain while a sync
        of the source is running, StaleLease if another process took the undo for dead.
        """
        return self._undo(lambda reading: scope_of_sync(reading, sync_id), actor, reason, alive)

    def undo_backfill(self, number: int, actor: str, reason: str, alive: Callable[[str], bool]) -> Undone:
        """Undo the changes of the jobs of a backfill, in any sync, except at items that have changed since.

        Follows items that have moved. Otherwise as `undo`; `Undone.sync_id` is the latest sync of the backfill.
        """
        return self._undo(lambda reading: scope_of_backfill(reading, number), actor, reason, alive)

    def _undo(
        self, find: Callable[[Reading], UndoScope], actor: str, reason: str, alive: Callable[[str], bool]
    ) -> Undone:
        JoinedHosts(self._store).beat_for_command()
        with self._store.read() as reading:
            act = find(reading)
            is_needed = any(places(reading, act, part) for part in in_parts(act.paths, _ROWS_AT_ONCE))
        with self._store.write() as writing:
            _close_open(writing, act, alive)
            number = _begin(writing, act, is_needed)
            if number is None:
                return Undone(act.source, act.sync_id, None, {}, _count_waiting(writing, act))
            _Undoing(writing, act, number, actor, reason).tell("undone")
        try:
            actions = self._carry_out(act, number, actor, reason)
        except CatchmentError:
            # A process that lives on would otherwise lock the source.
            with self._store.write() as writing:
                close_crashed(writing, act.source_id, number, process.identity())
            raise
        with self._store.write() as writing:
            find_open_sync(writing, number)
            values = {"outcome": "completed", "ended_at": writing.now}
            writing.execute(update(syncs).where(syncs.c.id == number).values(values))
            waiting = _count_waiting(writing, act)
        return Undone(act.source, act.sync_id, number, actions, waiting)

    def _carry_out(self, act: UndoScope, number: int, actor: str, reason: str) -> dict[str, UndoAction]:
        actions: dict[str, UndoAction] = {}
        for number_of_part, part in enumerate(in_parts(act.paths, _ROWS_AT_ONCE), 1):
            with self._store.write() as writing:
                find_open_sync(writing, number)
                undoing = _Undoing(writing, act, number, actor, reason)
                # Some paths may have changed, or their before-images may have expired.
                paths = act.connected(part)
                states = places(writing, act, paths)
                if undoing.end_waiting(states):
                    states = places(writing, act, paths)
                states = undoing.move_back(states)
                undoing.take_out([p for p in states if p.action is UndoAction.TAKE_OUT])
                undoing.put_back([p for p in states if p.action in (UndoAction.BRING_BACK, UndoAction.SET_BACK)])
            actions |= {place.path: place.action for place in states}
            heartbeat.report("undoing", min(number_of_part * _ROWS_AT_ONCE, len(act.paths)), len(act.paths))
            self._store.let_others_write()
        return actions

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
    for (number, source_id), group in groupby(rows, key=itemgetter(0, 1)):
        condition = (images.c.source_id == source_id) & (images.c.sync_id == number)
        withdraw.forget_before_images(writing, condition & among(writing, images.c.path, [path for *_, path in group]))


def _running(source: str) -> TryAgain:
    return TryAgain(f"{source}: a sync is running; try again later")


def _count_waiting(reading: Reading, act: UndoScope) -> int:
    """Return the number of waiting jobs that an act found for paths that it has not changed."""
    of_sync = (jobs.c.source_id == act.source_id) & jobs.c.sync_id.in_(act.parts)
    changed = before_images.exists_at(reading, act.source_id, items.c.locator, images.c.sync_id.in_(act.parts))
    every = select(func.count()).select_from(jobs).join(items, items.c.id == jobs.c.item_id)
    unchanged = every.where(of_sync, ~changed)
    # Separate queries, because each state has its own index.
    return sum(reading.execute(unchanged.where(states({state}))).scalar_one() for state in (PENDING, RETRYING))


def _close_open(writing: Writing, act: UndoScope, alive: Callable[[str], bool]) -> None:
    """Close the open sync of a dead owner. Raises TryAgain while a sync is running."""
    is_open = (syncs.c.source_id == act.source_id) & syncs.c.outcome.is_(None)
    open_sync = writing.execute(select(syncs.c.id, syncs.c.owner).where(is_open)).first()
    if open_sync is None:
        return
    if alive(open_sync.owner):
        raise _running(act.source)
    close_crashed(writing, act.source_id, open_sync.id, open_sync.owner)


def _begin(writing: Writing, act: UndoScope, is_needed: bool) -> int | None:
    """Open a sync for the undo, if needed. It continues the latest one of the same sync if a kill interrupted that."""
    continues = interrupted(writing, syncs.c.undoes == act.sync_id, "crashed")
    if not is_needed and continues is None:
        return None
    number = writing.ids("syncs")[0]
    about = {"source_id": act.source_id, "code_version": __version__, "owner": process.identity()}
    of_undo = {"undoes": act.sync_id, "continues": continues, "began_at": writing.now}
    writing.execute(insert(syncs).values(id=number, **about, **of_undo))
    return number


_DONE = (SUCCEEDED, SKIPPED)


def _is_waiting(item: AnyRow) -> bool:
    return item.job_state in WAITING


def _is_its_own(place: Place) -> bool:
    """Return whether the current job of a path's item made the document that is restored, or skips the item."""
    item = place.item
    if item is None or place.action is not UndoAction.BRING_BACK:
        return False
    if item.job_state == SKIPPED and item.job_reason != SkipReason.UNCHANGED:
        return True
    return item.job_state in _DONE and item.document is not None and content_of(item) == content_of(place.before)


class _Undoing:
    """The changes of an undo within one transaction."""

    def __init__(self, writing: Writing, act: UndoScope, number: int, actor: str, reason: str) -> None:
        self._number = number
        self._writing = writing
        self._act = act
        self._source_id = act.source_id
        self._actor = actor
        self._reason = reason
        self.tell = partial(writing.record, actor=actor, source_id=act.source_id, sync_id=number, reason=reason or None)

    def end_waiting(self, places: Sequence[Place]) -> bool:
        """Cancel the waiting jobs of these paths that repeat another job or that the undone sync found. Return whether any.

        A job that a later sync found stays: the item has changed at the source.
        """
        chosen = [
            place.item.job
            for place in places
            if place.action is not UndoAction.LEFT
            and place.item is not None
            and _is_waiting(place.item)
            and (place.item.earlier is not None or place.item.job_sync in self._act.parts)
        ]
        unstarted = among(self._writing, jobs.c.id, chosen)
        ended = end(
            self._writing, unstarted, actor=self._actor, reason=_UNDONE, resolution="undone", sync_id=self._number
        )
        return bool(ended)

    def move_back(self, places: list[Place]) -> list[Place]:
        """Return moved items with their documents to their former paths. The items there, or new ones, take their places."""
        writing = self._writing
        free = {p.path: p for p in places if p.action is not UndoAction.LEFT and not (p.item and _is_waiting(p.item))}
        moves = {
            old: new
            for old, place in free.items()
            if (new := self._act.moved.get(old)) in free and place.before.content_id and is_live(free[new].item)
        }
        if not moves:
            return places
        there = {path: p.item.id for path, p in free.items() if p.item is not None and p.item.state != "deleted"}
        made = self._make_items([old for old in moves if old not in there])
        there |= made
        target = {there[new]: old for old, new in moves.items()}
        for old in moves.keys() - set(moves.values()):
            end = old
            while end in moves:
                end = moves[end]
            target[there[old]] = end
        places_of = {number: path for path, number in there.items()}
        columns = (*(items.c[name] for name in LISTED_COLUMNS), items.c.state, items.c.gone_at)
        of_items = among(writing, items.c.id, list(target))
        listed = {row.locator: dict(row._mapping) for row in writing.execute(select(*columns).where(of_items))}
        vacate(writing, target)
        values = {"sync_id": self._number, "changed_at": writing.now}
        rows = [{"item": number, **listed[path], **values} for number, path in target.items()]
        writing.execute(update(items).where(items.c.id == bindparam("item")), rows)
        withdraw.rename(writing, [(number, places_of[number], path) for number, path in target.items()])
        for number in target.keys() - set(made.values()):
            self.tell("moved", item_id=number, was_at=places_of[number])
        now = present_items(writing, self._source_id, [place.path for place in places])
        return [replace(place, item=now.get(place.path)) for place in places]

    def take_out(self, places: Sequence[Place]) -> None:
        """Withdraw documents. Items at the source get a cancelled job, so that they stay out until they change."""
        there = [place.item for place in places if place.item is not None]
        withdraw.withdraw_items(self._writing, [item.id for item in there])
        ids = [item.id for item in there if item.state == "kept"]
        values = {"state": "deleted", "gone_at": self._writing.now, "sync_id": self._number}
        self._writing.execute(update(items).where(among(self._writing, items.c.id, ids)).values(values))
        self._settle([item for item in there if item.state != "kept"], CANCELLED)
        for item in there:
            self.tell("taken out", item_id=item.id)

    def put_back(self, places: Sequence[Place]) -> None:
        """Restore the documents of these paths. Items at the source get a finished job, so that they stay until they change."""
        nowhere = [place for place in places if place.item is None]
        made = self._make_items([place.path for place in nowhere])
        known = {**{p.path: p.item.id for p in places if p.item is not None}, **made}
        deleted = [p.item for p in places if p.item is not None and p.item.state == "deleted"]
        values = {"state": "kept", "sync_id": self._number, "changed_at": self._writing.now}
        of_deleted = among(self._writing, items.c.id, [item.id for item in deleted])
        self._writing.execute(update(items).where(of_deleted).values(values))
        # These versions were never read: a file that returns there must be read even if it is unchanged.
        unread = among(self._writing, items.c.id, [item.id for item in deleted if item.job_state not in _DONE])
        self._writing.execute(update(items).where(unread).values(version=""))
        self._put_documents([(known[p.path], p) for p in places])
        self._settle([p.item for p in places if p.item is not None and not _is_its_own(p)], SUCCEEDED)
        for number in known.values():
            self.tell("brought back", item_id=number)

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
        self._add_jobs([NewJob(number, "", SUCCEEDED, RESTORED, sync=self._number) for number in numbers.values()])
        return numbers

    def _settle(self, changed: Sequence[AnyRow], state: JobState) -> None:
        """Let the current jobs of these items agree with their documents. A job that waits for a later version stays.

        The undo of an undo makes the earlier jobs current again, and lets the jobs cancelled by the first undo wait again.
        """
        idle = [item for item in changed if not _is_waiting(item)]
        own_jobs = [item for item in idle if self._act.is_undo and item.job_sync in self._act.parts and item.earlier]
        waited = {item.id for item in own_jobs if item.earlier_reason == _UNDONE and item.state == "present"}
        fit = [
            item.job
            for item in own_jobs
            if item.id not in waited and (state is CANCELLED or item.earlier_state in _DONE)
        ]
        restored = count_again(self._writing, fit)
        replaced = [item for item in idle if item.job not in restored]
        their_jobs = among(self._writing, jobs.c.id, [item.job for item in replaced])
        supersede(self._writing, their_jobs, actor=self._actor, reason=_UNDONE)
        self._add_jobs([self._stand_in(item, state, item.id in waited) for item in replaced])

    def _stand_in(self, item: AnyRow, state: JobState, waited: bool) -> NewJob:
        if waited:
            return NewJob(item.id, item.version, PENDING, "wanted again", sync=self._number)
        if state is CANCELLED:
            return NewJob(item.id, item.version, state, TAKEN_OUT, item.job, self._number)
        # The undo of an undo may have let the job of a replay count again.
        is_of_replay = item.job_backfill is not None and (self._act.is_undo or item.job_backfill == self._act.backfill)
        version = item.version if item.state != "deleted" or item.job_state in _DONE else ""
        return NewJob(item.id, version, state, _REPLAY_UNDONE if is_of_replay else RESTORED, item.job, self._number)

    def _add_jobs(self, made: Sequence[NewJob]) -> None:
        add(self._writing, self._source_id, made, actor=self._actor, sync_id=self._number, why=self._reason)

    def _put_documents(self, places: Sequence[tuple[int, Place]]) -> None:
        writing = self._writing
        old = {number: p.item.document for number, p in places if p.item is not None and p.item.document is not None}
        live = among(writing, documents.c.id, list(old.values())) & documents.c.removed_at.is_(None)
        before_images.save(writing, live)
        before_images.save_absent(writing, [(self._source_id, p.path) for _, p in places if not is_live(p.item)])
        word_index.forget_names(writing, live)
        rows = [
            {"item_id": number, "path": p.path, "source_id": self._source_id, "removed_at": None}
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
