"""Jobs that no listing found: replays, repairs, and those by which an undo settles its items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, exists, select, update

from catchment.errors import SkipReason
from catchment.ledger.db.database import AnyRow, Writing, among
from catchment.ledger.db.job_states import LAST_DUE, PENDING, SKIPPED, SUCCEEDED, UNFINISHED, states
from catchment.ledger.db.schema import documents, items, jobs
from catchment.model import JobState

RESTORED = "restored by an undo until it changes"
"""Reason of the finished job of an item after an undo restored its document. Replays skip it: its source has another text."""


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job that becomes the current job of its item. `replaces`: the job that it repeats or stands in for.

    `sync` and `backfill`: the sync and the backfill of the job.
    """

    item: int
    version: str
    state: JobState
    reason: str
    replaces: int | None = None
    sync: int | None = None
    backfill: int | None = None


def add(
    writing: Writing,
    source_id: int,
    new: Sequence[NewJob],
    *,
    actor: str,
    sync_id: int | None = None,
    due: int | None = None,
    why: str | None = None,
) -> None:
    """Add jobs to items without a current one. `sync_id`: the sync that acts. `why`: the reason in the history, if another."""
    numbers = writing.ids("jobs", len(new)) if new else range(0)
    rows: list[dict[str, Any]] = [
        {
            "id": number,
            "source_id": source_id,
            "item_id": job.item,
            "version": job.version,
            "current": True,
            "state": job.state.value,
            "reason": job.reason,
            "attempt": int(job.state is SUCCEEDED),
            "due": writing.now if due is None else due,
            "enqueued_at": writing.now,
            "not_before": writing.now,
            "finished_at": None if job.state in UNFINISHED else writing.now,
            "sync_id": job.sync,
            "backfill_id": job.backfill,
            "replay_of": job.replaces,
        }
        for number, job in zip(numbers, new, strict=True)
    ]
    writing.insert_named(jobs, rows)
    for row in rows:
        about = {"item_id": row["item_id"], "job_id": row["id"], "attempt": row["attempt"]}
        reason = row["reason"] if why is None else why or None
        writing.record(row["state"], actor=actor, source_id=source_id, sync_id=sync_id, reason=reason, **about)


def can_be_repeated() -> ColumnElement[bool]:
    """Return the condition that a job made the document of its item from the item's present version."""
    made = states({SUCCEEDED}) & jobs.c.reason.is_distinct_from(RESTORED)
    return made | (states({SKIPPED}) & (jobs.c.reason == SkipReason.UNCHANGED.value))


def unsupported_by(code: str) -> str:
    """Return what the job of an item says that no reader of this version reads. `code`: as `normalizer.extractor`."""
    return f"unsupported by version {code.partition('.')[0]}"


def was_unsupported(code: str | None = None) -> ColumnElement[bool]:
    """Return the condition that no reader could read the item of a job. `code`: by another version than this one."""
    skipped = states({SKIPPED}) & (jobs.c.reason == SkipReason.UNSUPPORTED.value) & (jobs.c.attempt > 0)
    return skipped if code is None else skipped & jobs.c.error.is_distinct_from(unsupported_by(code))


def repeat(
    writing: Writing, source: int, rows: Sequence[AnyRow], reason: str, actor: str, sync: int | None, replay: int | None
) -> None:
    """Add a job for each item, as its current one, unless another one took that place or its document left meanwhile.

    An item that was unsupported has no document.

    `rows`: with the `id` and `version` of the items, and their present `job`. `sync`, `replay`: the IDs of the sync and the
    backfill that add the jobs, which start after all others then.
    """
    live = select(documents.c.id).where(documents.c.item_id == jobs.c.item_id, documents.c.removed_at.is_(None))
    present = select(items.c.id).where(items.c.id == jobs.c.item_id, items.c.state == "present")
    ready = exists(present) & (exists(live) | was_unsupported())
    retired = (
        update(jobs)
        .where(among(writing, jobs.c.id, [row.job for row in rows]), jobs.c.current, ready)
        .values(current=False)
        .returning(jobs.c.id)
    )
    there = set(writing.execute(retired).scalars())
    enqueued = [row for row in rows if row.job in there]
    new = [NewJob(row.id, row.version, PENDING, reason, row.job, sync, replay) for row in enqueued]
    add(writing, source, new, actor=actor, sync_id=sync, due=LAST_DUE if replay else None)
