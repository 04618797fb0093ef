"""Undo: bringing the library back to what it was before a sync, place by place, from the formers that were kept.

What lies at the source is the source's to say: items keep their versions, so that the next sync finds nothing to do about
what was undone until it changes again there. A document of a place where nothing is at the source is *kept* there. An undo
has a number among the syncs, and can be undone in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import bindparam, insert, select, update

from catchment import __version__
from catchment.errors import NotFound, TryAgain
from catchment.ledger.db.database import AnyRow, Reading, Store, Writing, among, from_json, to_json
from catchment.ledger.db.job_states import CANCELLED, SKIPPED, SUCCEEDED, in_parts, in_small_parts
from catchment.ledger.db.monotonic_clock import Timeline
from catchment.ledger.db.schema import documents, items, jobs, sources, syncs
from catchment.ledger.db.schema import formers as formers_table
from catchment.ledger.jobs.delivery import set_hashes
from catchment.ledger.library import before_images, withdraw, word_index
from catchment.model import JobState
from catchment.runtime import process

_READ_AT_ONCE = 50_000
_ROWS_AT_ONCE = 1_000


class UndoAction(StrEnum):
    """What undoing a sync does at a place; `LEFT`: nothing, for it is not as the sync left it."""

    TAKE_OUT = "take out"
    BRING_BACK = "bring back"
    SET_BACK = "set back"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Undone:
    """What undoing a sync did, or would do, at each place that it does something about.

    `number` is the undo's own; None where none was done.
    """

    source: str
    sync_id: int
    number: int | None
    deeds: Mapping[str, UndoAction]

    def count(self, deed: UndoAction) -> int:
        """How many places of this kind there are."""
        return sum(one is deed for one in self.deeds.values())


@dataclass(frozen=True, slots=True)
class _Place:
    """A place before the sync (`before`: its former), and now: the item there, and its document's row, live or not."""

    before: AnyRow
    item: AnyRow | None
    deed: UndoAction


class Undo:
    """Undoing what syncs did to the library."""

    def __init__(self, store: Store, timeline: Timeline) -> None:
        self._store = store
        self._timeline = timeline

    def preview(self, sync_id: int) -> Undone:
        """What undoing a sync would do. Raises NotFound when there is nothing kept that it changed."""
        with self._store.read() as reading:
            source, before = _found(reading, sync_id)
            places = _places(reading, source.id, sync_id, before)
            return Undone(source.name, sync_id, None, {place.before.path: place.deed for place in places})

    def undo(self, sync_id: int, actor: str, reason: str, alive: Callable[[str], bool]) -> Undone:
        """Undo what a sync did, as far as nothing later changed it again. Of one that went on in parts: of all up to this.

        No sync of the source begins meanwhile. After a kill a part of it is undone; done again, it goes on with the rest.

        Raises NotFound when there is nothing kept that it changed, TryAgain while a sync of the source runs.
        """
        with self._store.read() as reading:
            source, before = _found(reading, sync_id)
            is_needed = any(_places(reading, source.id, sync_id, part) for part in in_parts(before, _ROWS_AT_ONCE))
        with self._store.write() as writing:
            _close_open(writing, source, alive)
            number = _begin(writing, source.id, sync_id, is_needed)
            if number is None:
                return Undone(source.name, sync_id, None, {})
            _Undoing(writing, source.id, number, actor, reason).tell("undone")
        deeds: dict[str, UndoAction] = {}
        for part in in_parts([row.path for row in before], _ROWS_AT_ONCE):
            with self._store.write() as writing:
                # Some may be something else meanwhile, and what was kept may be let go of.
                places = _places(writing, source.id, sync_id, _found(writing, sync_id, part)[1])
                done = _Undoing(writing, source.id, number, actor, reason)
                done.take_out([p for p in places if p.deed is UndoAction.TAKE_OUT])
                done.put_back([p for p in places if p.deed in (UndoAction.BRING_BACK, UndoAction.SET_BACK)])
            deeds |= {place.before.path: place.deed for place in places}
            self._store.give_way()
        with self._store.write() as writing:
            values = {"outcome": "completed", "ended_at": writing.now}
            writing.execute(update(syncs).where(syncs.c.id == number).values(values))
        return Undone(source.name, sync_id, number, deeds)

    def purge(self, older_than: timedelta, most: int) -> int:
        """Let go of what was kept to undo syncs of this age, or beyond so many characters of text in all; how many syncs.

        After a kill nothing of them is undone, and the next one goes on.
        """
        with self._store.write() as writing:
            self._timeline.now(writing)
            before_images.none_ahead(writing)
        with self._store.read() as reading:
            numbers = before_images.too_many(reading, older_than, most)
        with self._store.write() as writing:
            before_images.let_go(writing, numbers)
        while True:
            with self._store.read() as reading:
                rows = before_images.next_to_go(reading, numbers, _READ_AT_ONCE)
            if not rows:
                break
            for part in in_small_parts(((row[:3], row[3]) for row in rows), _ROWS_AT_ONCE):
                with self._store.write() as writing:
                    _forget(writing, part)
                self._store.give_way()
        return len(numbers)


def _forget(writing: Writing, rows: Sequence[tuple[int, int, str]]) -> None:
    """Let go of what was kept of these syncs, sources and places."""
    for (number, source_id), its in groupby(rows, key=itemgetter(0, 1)):
        mine = (formers_table.c.source_id == source_id) & (formers_table.c.sync_id == number)
        withdraw.forget_formers(writing, mine & among(writing, formers_table.c.path, [path for *_, path in its]))


def _found(reading: Reading, sync_id: int, paths: Sequence[str] | None = None) -> tuple[AnyRow, list[AnyRow]]:
    """The source of a sync, and what was before it at each place, or each of these, that it changed. Raises NotFound."""
    source = reading.execute(
        select(sources.c.id, sources.c.name)
        .join(syncs, syncs.c.source_id == sources.c.id)
        .where(syncs.c.id == sync_id, sources.c.state != "removed")
    ).first()
    if source is None:
        raise NotFound(f"There is no sync {sync_id}; `catchment sources show NAME` lists the syncs of a source")
    before = before_images.of_syncs(reading, source.id, _parts(reading, source.id, sync_id), paths)
    if not before or (paths is not None and len(before) < len(paths)):
        raise NotFound(
            f"Nothing is kept that sync {sync_id} of {source.name} changed: it changed nothing, or too long ago"
        )
    return source, before


def _places(reading: Reading, source_id: int, sync_id: int, before: Sequence[AnyRow]) -> list[_Place]:
    """Those of the places that a sync changed that are not as they were before."""
    paths = [row.path for row in before]
    after = before_images.after(reading, source_id, sync_id, paths)
    now = _now(reading, source_id, paths)
    places = []
    for row in before:
        item = now.get(row.path)
        deed = _deed(row, item)
        if deed is not None:
            # Where what later syncs did was undone, it is again as this one left it.
            changed = row.path in after and _deed(after[row.path], item) is not None
            places.append(_Place(row, item, UndoAction.LEFT if changed else deed))
    return places


def _close_open(writing: Writing, source: AnyRow, alive: Callable[[str], bool]) -> None:
    """Raises TryAgain while a sync of the source runs. One that was killed is closed; the next sync takes its jobs back."""
    is_open = (syncs.c.source_id == source.id) & syncs.c.outcome.is_(None)
    owner = writing.execute(select(syncs.c.owner).where(is_open)).scalar()
    if owner is not None and alive(owner):
        raise TryAgain(f"A sync of {source.name} is running; try again when it has ended")
    writing.execute(update(syncs).where(is_open).values(outcome="crashed", ended_at=writing.now))


def _begin(writing: Writing, source_id: int, sync_id: int, is_needed: bool) -> int | None:
    """Open the undo of a sync among the syncs, if it is needed; the same again where the latest was killed at that."""
    mine = syncs.c.source_id == source_id
    latest = writing.execute(
        select(syncs.c.id, syncs.c.outcome, syncs.c.summary).where(mine).order_by(syncs.c.id.desc()).limit(1)
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
    """A sync, and those right before it that it went on with."""
    parts = [sync_id]
    earlier = select(syncs.c.id, syncs.c.outcome).where(syncs.c.source_id == source_id, syncs.c.id < sync_id)
    for number, outcome in reading.execute(earlier.order_by(syncs.c.id.desc())):
        if outcome != "yielded":
            break
        parts.append(number)
    return parts


def _now(reading: Reading, source_id: int, paths: Sequence[str]) -> dict[str, AnyRow]:
    """The items at these places, with their current job and their document; of several the one that is not deleted."""
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
            *(documents.c[name] for name in before_images.SAID),
        )
        .outerjoin(jobs, (jobs.c.item_id == items.c.id) & jobs.c.current)
        .outerjoin(documents, documents.c.item_id == items.c.id)
        .order_by(items.c.id)
    )
    found: dict[str, AnyRow] = {}
    # Each of the two has an index of its own.
    for state in (items.c.state == "deleted", items.c.state != "deleted"):
        for part in in_parts(paths):
            mine = (items.c.source_id == source_id) & among(reading, items.c.locator, part)
            found |= {row.locator: row for row in reading.execute(statement.where(mine, state))}
    return found


def _deed(before: AnyRow, item: AnyRow | None) -> UndoAction | None:
    """What makes a place what it was; None where it is that already."""
    live = _live(item)
    if before.content_id is None:
        return UndoAction.TAKE_OUT if live else None
    if not live:
        return UndoAction.BRING_BACK
    same = all(getattr(item, name) == getattr(before, name) for name in before_images.SAID)
    return None if same else UndoAction.SET_BACK


def _live(item: AnyRow | None) -> bool:
    return item is not None and item.document is not None and item.removed_at is None


_WHY = {CANCELLED: "taken out by an undo until it changes", SUCCEEDED: "brought back by an undo"}


class _Undoing:
    """What an undo does in one transaction."""

    def __init__(self, writing: Writing, source_id: int, number: int, actor: str, reason: str) -> None:
        self._number = number
        self._writing = writing
        self._source_id = source_id
        self._actor = actor
        self._reason = reason or None

    def take_out(self, places: Sequence[_Place]) -> None:
        """Withdraw documents; an item that is at the source stands with a job that is not done until it changes."""
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
        """Give places the documents that they had."""
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
        """Items for places that the source does not have."""
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
        """Items (id, version) get a job that has ended in this state."""
        for part in in_parts([number for number, _ in made]):
            mine = jobs.c.item_id.in_(part) & jobs.c.current
            self._writing.execute(update(jobs).where(mine).values(current=False))
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
        """Have the history tell it."""
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
        before_images.keep(writing, live)
        before_images.keep_absent(writing, [(self._source_id, p.before.path) for _, p in places if not _live(p.item)])
        word_index.forget_names(writing, live)
        rows = [
            {"item_id": number, "path": p.before.path, "source_id": self._source_id, "removed_at": None}
            | {name: getattr(p.before, name) for name in before_images.SAID}
            for number, p in places
        ]
        changed = [{**row, "document": old[row["item_id"]]} for row in rows if row["item_id"] in old]
        if changed:
            writing.execute(update(documents).where(documents.c.id == bindparam("document")), changed)
        added = [row for row in rows if row["item_id"] not in old]
        numbers = writing.ids("documents", len(added)) if added else range(0)
        writing.insert_named(documents, [{"id": n, **row} for n, row in zip(numbers, added, strict=True)])
        mine = among(writing, documents.c.item_id, [number for number, _ in places])
        word_index.learn_names(writing, mine)
        set_hashes(writing, [number for number, _ in places])
