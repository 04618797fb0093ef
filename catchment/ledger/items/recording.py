"""The rules by which a listing updates items and jobs. `intake` provides the transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, bindparam, case, literal_column, select, update

from catchment.errors import FailureClass
from catchment.ledger.db.database import Writing, among, as_map
from catchment.ledger.db.job_states import (
    CANCELLED,
    LAST_DUE,
    ORDINARY,
    PENDING,
    QUARANTINED,
    RETRYING,
    SKIPPED,
    UNFINISHED,
    states,
)
from catchment.ledger.db.row_records import record
from catchment.ledger.db.schema import DELETED, MISSING, items, jobs
from catchment.ledger.items.matching import (
    LISTED_COLUMNS,
    MISSING_FROM_LISTING,
    MissingItems,
    RecordedItem,
    exchanged_locators,
    listed_values,
)
from catchment.ledger.jobs.endings import end, supersede
from catchment.ledger.jobs.failures import describe, quarantine_rows
from catchment.ledger.jobs.ready import AGEING
from catchment.ledger.library import withdraw
from catchment.model import PARTS, Failure, Item, JobState, Skip, Tombstone, Upsert
from catchment.records.rows import IntakeCounts

VERSIONED = "deleted in a later version of the source"
"""Reason of a missing item with a deletion that the source's history proves. The guard reads it from the history."""
_RELIST_AFTER = 300_000_000
"""Delay in microseconds before an item with a transient listing failure is tried again."""


class Recording:
    """One call of `Intake.record`. Collects rows while applying the rules and writes them at the end."""

    def __init__(
        self, writing: Writing, source_id: int, sync_id: int, actor: str, priority: str, backfill_id: int | None
    ) -> None:
        self._writing = writing
        self._source_id = source_id
        self._sync_id = sync_id
        self._actor = actor
        self._backfill_id = backfill_id
        self._tell = partial(writing.record, actor=actor, source_id=source_id, sync_id=sync_id)
        self._due = writing.now + AGEING[priority] if backfill_id is None else LAST_DUE
        self._counts: Counter[str] = Counter()
        self._new_items: list[dict[str, Any]] = []
        self._items: list[dict[str, Any]] = []
        self._jobs: list[dict[str, Any]] = []
        self._failures: list[tuple[dict[str, Any], Failure]] = []
        self._replaced: list[int] = []
        self._adopted: list[int] = []
        self._withdrawn: list[int] = []
        self._returned: list[int] = []
        self._moved: list[tuple[int, str, str]] = []
        self._back: list[tuple[RecordedItem, Upsert | Skip | Failure]] = []
        self._carriers: list[tuple[RecordedItem, Upsert | Skip | Failure]] = []
        self._of_source = items.c.source_id == source_id
        self._successor = partial(Recording, writing, source_id, sync_id, actor, priority, backfill_id)

    def take(self, changes: Sequence[Upsert | Tombstone | Skip | Failure]) -> IntakeCounts:
        """Apply the rules. Tombstones precede all others, because a move consists of a tombstone and an upsert."""
        latest = {c.locator if isinstance(c, Tombstone) else c.item.locator: c for c in changes}
        of_source = self._of_source
        origins = {c.item.locator: c.came_from for c in latest.values() if isinstance(c, Upsert) and c.came_from}
        places = {*latest, *origins.values()}
        # Of items that exchange places, each leaves its own before it enters that of the other.
        left = {*origins.values()}
        tombstones = {
            c.locator: c for c in changes if isinstance(c, Tombstone) and (c.locator in left or latest[c.locator] is c)
        }
        lost = self._load(of_source & (items.c.state == "present"), items.c.locator, tombstones)
        self._bury([(recorded, tombstones[recorded.locator].versioned) for recorded in lost])
        recorded = {
            item.locator: item for item in self._load(of_source & (items.c.state != "deleted"), items.c.locator, places)
        }
        self._counts["unchanged"] += sum(locator not in recorded for locator in tombstones)
        present = [c for c in latest.values() if not isinstance(c, Tombstone)]
        moves = {old: new for new, old in origins.items() if _is_missing(recorded.get(old))}
        while occupied := [old for old, new in moves.items() if new in recorded and new not in moves]:
            for old in occupied:
                del moves[old]
        moved_in = {new: recorded.pop(old) for old, new in moves.items()}
        vacate(self._writing, [mover.id for mover in moved_in.values() if mover.locator in moved_in])
        unknown = [c.item for c in present if c.item.locator not in recorded and c.item.locator not in moved_in]
        other = [c.item for c in present if (r := recorded.get(c.item.locator)) and r.identity != c.item.identity]
        missing = self._missing(
            [*unknown, *other], {c.item.locator for c in present} | {item.locator for item in moved_in.values()}
        )
        replacing = {item.identity for item in other}
        replaced_by = {item.locator: item for item in missing if item.identity in replacing}
        moving = exchanged_locators(replaced_by | recorded, [c.item for c in present if isinstance(c, Upsert)])
        vacate(self._writing, [mover.id for mover in moving.values()])
        for mover in moving.values():
            recorded.pop(mover.locator, None)
        recorded |= moving
        moved = {mover.id for mover in moving.values()}
        missing_items = MissingItems([item for item in missing if item.id not in moved], self._deleted(unknown))
        for change in present:
            match = recorded.get(place := change.item.locator) or moved_in.get(place) or missing_items.take(change.item)
            if match is None:
                self._add(change)
            else:
                self._update(match, change)
        self._repeat()
        along = self._along()
        self._write()
        if along:
            self._successor().take(along)
        return IntakeCounts(**self._counts)

    # Reading

    def _load(self, where: ColumnElement[bool], column: Any, values: Collection[Any]) -> Iterable[RecordedItem]:
        statement = select(
            items.c.id,
            items.c.state,
            *(items.c[fact] for fact in LISTED_COLUMNS),
            jobs.c.id,
            jobs.c.version,
            jobs.c.state,
            jobs.c.reason,
            jobs.c.attempt,
            case((jobs.c.replay_of.is_(None), jobs.c.backfill_id)),
        ).outerjoin_from(items, jobs, (jobs.c.item_id == items.c.id) & jobs.c.current)
        chosen = statement.where(where, among(self._writing, column, values)).order_by(items.c.id)
        for row in self._writing.execute(chosen).all():
            number, state, *listed, job, version, job_state, reason, attempt, window = row
            known = None if job_state is None else JobState(job_state)
            yield RecordedItem(number, state, tuple(listed), job, version, known, reason, attempt or 0, window)

    def _missing(self, listed: Sequence[Item], locators: set[str]) -> list[RecordedItem]:
        """Return the missing items with the identity of a listed one, except those at `locators`."""
        missing = (items.c.source_id == self._source_id) & literal_column(MISSING)
        return [i for i in self._load(missing, items.c.identity, _identities(listed)) if i.locator not in locators]

    def _deleted(self, unknown: Sequence[Item]) -> list[RecordedItem]:
        """Return the deleted items with the locator or the identity of an unknown one."""
        deleted = (items.c.source_id == self._source_id) & literal_column(DELETED)
        by_locator = self._load(deleted, items.c.locator, [item.locator for item in unknown])
        return [*by_locator, *self._load(deleted, items.c.identity, _identities(unknown))]

    def _along(self) -> list[Tombstone | Upsert | Skip]:
        """Return what happens to the parts of items that moved, returned, or are skipped now: the same as to these."""
        old = {recorded.locator + PARTS: (recorded, change) for recorded, change in self._carriers}
        if not old:
            return []
        numbers = among(self._writing, items.c.id, [recorded.id for recorded, _ in old.values()])
        gone_at = as_map(self._writing.execute(select(items.c.id, items.c.gone_at).where(numbers)))
        gone: list[Tombstone] = []
        changes: list[Upsert | Skip] = []
        inside = self._of_source & among(self._writing, items.c.container, old)
        for row in self._writing.execute(select(items).where(inside)).all():
            recorded, change = old[row.container]
            # Parts that had left before it are not there again.
            if row.gone_at != gone_at[recorded.id]:
                continue
            container = change.item.locator + PARTS
            locator = container + row.locator.removeprefix(row.container)
            item = record(Item, row, locator=locator, container=container)
            if isinstance(change, Skip):
                changes.append(Skip(item, change.reason))
            elif locator == row.locator:
                changes.append(Upsert(item))
            else:
                gone.append(Tombstone(row.locator))
                changes.append(Upsert(item, came_from=row.locator))
        return [*gone, *changes]

    # Rules

    def _bury(self, lost: Sequence[tuple[RecordedItem, bool]]) -> None:
        """Mark items as missing until the sync is settled, and cancel their jobs immediately."""
        self._counts["missing"] += len(lost)
        if not lost:
            return
        versions = {recorded.locator + PARTS: versioned for recorded, versioned in lost}
        inside = self._load(self._of_source & (items.c.state == "present"), items.c.container, versions)
        lost = [*lost, *((part, versions[part.container]) for part in inside)]
        of_lost = among(self._writing, items.c.id, [recorded.id for recorded, _ in lost])
        values = {"state": "missing", "gone_at": self._writing.now, "sync_id": self._sync_id}
        self._writing.execute(update(items).where(of_lost).values(values))
        unfinished = [recorded.job for recorded, _ in lost if recorded.job_state in UNFINISHED]
        if unfinished:
            how = {"reason": MISSING_FROM_LISTING, "resolution": MISSING_FROM_LISTING}
            those_jobs = among(self._writing, jobs.c.id, unfinished)
            end(self._writing, those_jobs, actor=self._actor, expected=UNFINISHED, sync_id=self._sync_id, **how)
        for recorded, versioned in lost:
            self._tell("missing", item_id=recorded.id, reason=VERSIONED if versioned else None)

    def _add(self, change: Upsert | Skip | Failure) -> None:
        row = dict(zip(LISTED_COLUMNS, listed_values(change.item), strict=True))
        self._new_items.append(row)
        self._counts["new"] += 1
        self._enqueue(row, change, "new")

    def _update(self, recorded: RecordedItem, change: Upsert | Skip | Failure) -> None:
        values = listed_values(change.item)
        moved = recorded.locator != change.item.locator
        returned = recorded.state != "present"
        job_reason = self._job_reason(recorded, change, moved=moved)
        if moved or returned or values != recorded.listed:
            row = {"item_id": recorded.id, **dict(zip(LISTED_COLUMNS, values, strict=True))}
            self._items.append(row)
        if moved or recorded.container != change.item.container:
            self._moved.append((recorded.id, recorded.locator, change.item.locator))
        if moved or returned or isinstance(change, Skip):
            self._carriers.append((recorded, change))
        if moved:
            self._tell("moved", item_id=recorded.id, was_at=recorded.locator)
        elif returned:
            self._tell("returned", item_id=recorded.id)
        if recorded.state == "deleted" and not job_reason and recorded.is_done:
            self._returned.append(recorded.id)
        if job_reason:
            if recorded.job is not None:
                self._replaced.append(recorded.job)
            # A message that its folder's server renumbered is as old as before: its job stays one of the window.
            window = recorded.window if job_reason == "moved" and not recorded.is_done else None
            self._enqueue({"id": recorded.id}, change, job_reason, window)
        elif recorded.job is not None and recorded.waits_for_window and self._backfill_id is None:
            # Items that the source itself lists must not wait for a backfill, or end with it.
            self._adopted.append(recorded.job)
            self._counts["enqueued"] += 1
        elif moved or returned:
            self._back.append((recorded, change))
        self._counts[_verdict(moved, returned, job_reason, values != recorded.listed)] += 1

    def _job_reason(self, recorded: RecordedItem, change: Upsert | Skip | Failure, *, moved: bool) -> str:
        """Return the reason for a new job, or "" if none is needed."""
        state = recorded.job_state
        document_adopted = recorded.state == "deleted" and not recorded.version
        if moved and isinstance(change, Upsert):
            is_settled = (recorded.is_done and not document_adopted) or recorded.stays_out
            return "" if is_settled and recorded.looks_like(change.item) else "moved"
        if change.item.version != (recorded.version or recorded.job_version):
            return "changed"
        match change:
            case Skip():
                return "" if state is SKIPPED and recorded.job_reason == change.reason else "skipped"
            case Failure():
                return "" if state in UNFINISHED or state is QUARANTINED else "failed"
            case Upsert():
                skipped_by_listing = state is SKIPPED and recorded.attempt == 0
                again = skipped_by_listing or recorded.was_stopped or recorded.has_vanished or document_adopted
                return "wanted again" if again else ""

    def _repeat(self) -> None:
        """Enqueue items that are back, if their replay was cancelled because they were missing."""
        if not self._back:
            return
        of_items = among(self._writing, jobs.c.item_id, [recorded.id for recorded, _ in self._back])
        stopped = select(jobs.c.replay_of).where(of_items, states({CANCELLED}), jobs.c.reason == MISSING_FROM_LISTING)
        repeated = frozenset(self._writing.execute(stopped.where(jobs.c.replay_of.is_not(None))).scalars())
        for recorded, change in self._back:
            if recorded.job is not None and recorded.job in repeated:
                self._replaced.append(recorded.job)
                self._enqueue({"id": recorded.id}, change, "wanted again")

    def _enqueue(
        self, item: dict[str, Any], change: Upsert | Skip | Failure, why: str, window: int | None = None
    ) -> None:
        """Create a job in the state known from the listing. A new `item` receives its ID later.

        `window`: the backfill that found the job which this one replaces.
        """
        now = self._writing.now
        job = {
            "source_id": self._source_id,
            "item": item,
            "version": change.item.version,
            "current": True,
            "state": PENDING.value,
            "reason": why,
            "attempt": 0,
            "due": self._due,
            "enqueued_at": now,
            "not_before": now,
            "failed_at": None,
            "finished_at": None,
            "error": None,
            "sync_id": self._sync_id,
            "backfill_id": self._backfill_id or window,
        }
        self._jobs.append(job)
        match change:
            case Skip():
                job |= {"state": SKIPPED.value, "reason": change.reason.value, "finished_at": now}
                self._counts["skipped"] += 1
                if "id" in item:
                    self._withdrawn.append(item["id"])
            case Failure():
                self._fail(job, change)
            case Upsert():
                self._counts["enqueued"] += 1

    def _fail(self, job: dict[str, Any], change: Failure) -> None:
        now = self._writing.now
        job |= {"attempt": 1, "failed_at": now, "error": f"{type(change.error).__name__}: {change.error}"}
        self._counts["failed"] += 1
        if change.error.failure_class is FailureClass.PERMANENT:
            job |= {"state": QUARANTINED.value, "reason": change.error.reason.value, "finished_at": now}
            self._failures.append((job, change))
        else:
            # A failed job of a backfill is retried by any sync, as all others.
            due = self._due if self._backfill_id is None else now
            later = {"not_before": now + _RELIST_AFTER, "due": due + _RELIST_AFTER}
            job |= {"state": RETRYING.value, "reason": change.error.reason.value, **later}

    # Writing

    def _write(self) -> None:
        writing, now = self._writing, self._writing.now
        if self._replaced:
            replaced = among(writing, jobs.c.id, self._replaced)
            supersede(writing, replaced, actor=self._actor, reason="a newer version", sync_id=self._sync_id)
        if self._adopted:
            # Jobs that waited for a backfill become ordinary ones.
            due = case((ORDINARY, jobs.c.due), else_=self._due)
            adopted = among(writing, jobs.c.id, self._adopted)
            writing.execute(update(jobs).where(adopted).values(backfill_id=None, due=due))
        if self._items:
            statement = update(items).where(items.c.id == bindparam("item_id"))
            values = {"state": "present", "gone_at": None, "changed_at": now, "sync_id": self._sync_id}
            writing.execute(statement, [row | values for row in self._items])
        if self._new_items:
            values = {
                "source_id": self._source_id,
                "state": "present",
                "content_hash": None,
                "first_seen_at": now,
                "changed_at": now,
                "gone_at": None,
                "sync_id": self._sync_id,
            }
            for number, row in zip(writing.ids("items", len(self._new_items)), self._new_items, strict=True):
                row["id"] = number
                row.update(values)
            writing.insert_named(items, self._new_items)
        self._write_jobs()
        withdraw.withdraw_items(writing, self._withdrawn)
        # A deleted document that returns elsewhere must not appear at its old path, where another may be by now.
        withdraw.rename(writing, self._moved)
        withdraw.restore_items(writing, self._returned)

    def _write_jobs(self) -> None:
        if not self._jobs:
            return
        for number, job in zip(self._writing.ids("jobs", len(self._jobs)), self._jobs, strict=True):
            job["id"] = number
            job["item_id"] = job.pop("item")["id"]
            about = {"item_id": job["item_id"], "job_id": number, "attempt": job["attempt"]}
            self._tell(job["state"], reason=job["reason"], **about)
        self._writing.insert_named(jobs, self._jobs)
        failed = [(job, describe(change.error)) for job, change in self._failures]
        quarantine_rows(self._writing, failed)


def vacate(writing: Writing, item_ids: Iterable[int]) -> None:
    """Move items to temporary locators, since no two items may share one at any time."""
    rows = [{"item_id": number, "place": f"on the move: {number}"} for number in item_ids]
    if rows:
        writing.execute(
            update(items).where(items.c.id == bindparam("item_id")).values(locator=bindparam("place")), rows
        )


def _identities(listed: Iterable[Item]) -> set[str]:
    return {item.identity for item in listed if item.identity is not None}


def _is_missing(recorded: RecordedItem | None) -> bool:
    return recorded is not None and recorded.state == "missing"


def _verdict(moved: bool, returned: bool, job_reason: str, different: bool) -> str:
    if moved:
        return "moved"
    if returned:
        return "revived"
    if job_reason:
        return "changed"
    return "attributes" if different else "unchanged"
