"""The job state machine: the permitted transitions, and the function that performs them and records the history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, literal_column, select, update

from catchment.errors import IllegalTransition, NotFound
from catchment.ledger.db.database import AnyRow, Reading, Writing
from catchment.ledger.db.schema import jobs
from catchment.model import JobState
from catchment.telemetry.catalogue import JOB_WAIT, JOBS

PENDING, RUNNING, RETRYING = JobState.PENDING, JobState.RUNNING, JobState.RETRYING
SUCCEEDED, QUARANTINED, SKIPPED = JobState.SUCCEEDED, JobState.QUARANTINED, JobState.SKIPPED
CANCELLED, SUPERSEDED = JobState.CANCELLED, JobState.SUPERSEDED

ARROWS: dict[JobState, frozenset[JobState]] = {
    PENDING: frozenset({RUNNING, CANCELLED, SUPERSEDED}),
    RUNNING: frozenset({SUCCEEDED, SKIPPED, RETRYING, QUARANTINED, PENDING, CANCELLED, SUPERSEDED}),
    RETRYING: frozenset({RUNNING, CANCELLED, SUPERSEDED}),
    QUARANTINED: frozenset({PENDING, CANCELLED, SUPERSEDED}),
    SUCCEEDED: frozenset(),
    SKIPPED: frozenset(),
    CANCELLED: frozenset(),
    SUPERSEDED: frozenset(),
}
"""The permitted target states for each state.

A quarantined job becomes pending on an operator's request, or when a condition relevant to its failure has changed.
"""

UNFINISHED = frozenset({PENDING, RUNNING, RETRYING})
LAST_DUE = 1 << 61
"""Due time of a job that a backfill added and no sync has claimed yet: ordinary syncs skip it."""
ORDINARY = jobs.c.due < LAST_DUE

_AT_ONCE = 2_000
_TEXT_AT_ONCE = 500_000


def in_parts(values: Iterable[Any], size: int = _AT_ONCE) -> Iterator[Sequence[Any]]:
    """Split values into lists that fit into one statement."""
    rest = list(values)
    for start in range(0, len(rest), size):
        yield rest[start : start + size]


def in_small_parts(sized: Iterable[tuple[Any, int]], most: int) -> Iterator[Sequence[Any]]:
    """Split values, each with the size of its text in characters, into lists that can be deleted quickly.

    Removing a text from the index takes as long as adding it.
    """
    part: list[Any] = []
    room = _TEXT_AT_ONCE
    for value, size in sized:
        part.append(value)
        room -= size
        if len(part) == most or room <= 0:
            yield part
            part, room = [], _TEXT_AT_ONCE
    if part:
        yield part


def states(expected: Iterable[JobState]) -> ColumnElement[bool]:
    """Return the condition that a job is in one of these states, as literals, so that partial indexes apply."""
    names = [f"'{state.value}'" for state in sorted(expected)]
    return literal_column(f"jobs.state = {names[0]}" if len(names) == 1 else f"jobs.state IN ({', '.join(names)})")


def move(
    writing: Writing,
    where: ColumnElement[bool],
    expected: Iterable[JobState],
    to: JobState,
    *,
    actor: str,
    reason: str | None = None,
    sync_id: int | None = None,
    **values: Any,
) -> Sequence[AnyRow]:
    """Move the jobs that match `where` and are in an `expected` state, and record the transitions.

    Returns (id, item_id, source_id, attempt, not_before) of the moved jobs. Raises IllegalTransition if the transition is not
    permitted.
    """
    expected = frozenset(expected)
    for state in expected:
        if to not in ARROWS[state]:
            raise IllegalTransition(f"A job cannot go from {state} to {to}; nothing was changed")
    if to not in UNFINISHED:
        values.setdefault("finished_at", writing.now)
    if to is not RUNNING:
        values.update(token=None, owner=None, lease_until=None)
    statement = (
        update(jobs)
        .where(where, states(expected))
        .values(state=to.value, reason=reason, **values)
        .returning(jobs.c.id, jobs.c.item_id, jobs.c.source_id, jobs.c.attempt, jobs.c.not_before)
    )
    moved = writing.execute(statement).all()
    for job_id, item_id, source_id, attempt, not_before in moved:
        if to is RUNNING:
            writing.tally.add(JOB_WAIT, max(0, writing.now - not_before) / 1e6, source_id)
        elif to is not PENDING:
            writing.tally.add(JOBS, 1, source_id, outcome=to)
        writing.record(
            to.value,
            actor=actor,
            source_id=source_id,
            item_id=item_id,
            job_id=job_id,
            sync_id=sync_id,
            attempt=attempt,
            reason=reason,
        )
    return moved


def refuse(reading: Reading, job_id: int, requested: str) -> Exception:
    """Return the reason that a job did not move: it does not exist or is in another state."""
    state = reading.execute(select(jobs.c.state).where(jobs.c.id == job_id)).scalar()
    if state is None:
        return NotFound(f"job {job_id}: not found; see `catchment jobs list`")
    return IllegalTransition(f"job {job_id}: {state}, so it cannot be {requested}; see `catchment jobs show {job_id}`")
