"""The end of jobs that may still deliver: cancelled, or superseded by another job of their item. All of them end here.

The job that a cancelled one repeats becomes the current job of its item again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import ColumnElement, exists, select, update

from catchment.ledger.db.database import AnyRow, Writing, among
from catchment.ledger.db.job_states import (
    CANCELLED,
    QUARANTINED,
    SUCCEEDED,
    SUPERSEDED,
    UNFINISHED,
    move,
    states,
)
from catchment.ledger.db.schema import documents, jobs
from catchment.ledger.jobs.failures import resolve
from catchment.model import JobState

WAITING = UNFINISHED | {QUARANTINED}
"""The states of jobs that may still deliver."""


def end(
    writing: Writing,
    which: ColumnElement[bool],
    *,
    actor: str,
    reason: str,
    resolution: str,
    expected: Collection[JobState] = WAITING,
    sync_id: int | None = None,
) -> Sequence[AnyRow]:
    """Cancel the given jobs that are in an `expected` state, and close their quarantine entries as `resolution`.

    Returns the cancelled jobs as `move` does.
    """
    ended = move(writing, which, expected, CANCELLED, actor=actor, reason=reason, sync_id=sync_id)
    numbers = [row.id for row in ended]
    resolve(writing, numbers, resolution)
    count_again(writing, numbers)
    return ended


def supersede(
    writing: Writing, which: ColumnElement[bool], *, actor: str, reason: str, sync_id: int | None = None
) -> None:
    """Let these jobs, waiting or finished, make room for new ones of their items. Closes their quarantine entries."""
    ended = move(writing, which, WAITING, SUPERSEDED, actor=actor, reason=reason, sync_id=sync_id)
    resolve(writing, [row.id for row in ended], reason)
    writing.execute(update(jobs).where(which).values(current=False))


def count_again(writing: Writing, job_ids: Collection[int]) -> set[int]:
    """Let the jobs that these finished ones repeat be current again. Return those of `job_ids` that gave way.

    A succeeded job needs a document in the library: without it, the present job stays.
    """
    earlier = jobs.alias("earlier")
    live = exists(select(documents.c.id).where(documents.c.item_id == jobs.c.item_id, documents.c.removed_at.is_(None)))
    fits = exists(
        select(earlier.c.id).where(
            earlier.c.id == jobs.c.replay_of, (earlier.c.state != SUCCEEDED.value) | live.correlate(jobs)
        )
    )
    waiting = among(writing, jobs.c.id, job_ids) & jobs.c.current & ~states(WAITING) & fits
    retired = update(jobs).where(waiting).values(current=False).returning(jobs.c.id, jobs.c.replay_of)
    rows = writing.execute(retired).all()
    earlier_jobs = among(writing, jobs.c.id, [row.replay_of for row in rows])
    writing.execute(update(jobs).where(earlier_jobs).values(current=True))
    return {row.id for row in rows}
