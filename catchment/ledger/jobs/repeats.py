"""Jobs that no listing found: replays, repairs, and those by which an undo settles its items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from catchment.ledger.db.database import Writing
from catchment.ledger.db.job_states import SUCCEEDED, UNFINISHED
from catchment.ledger.db.schema import jobs
from catchment.model import JobState


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
