"""The job queue: claims under a lease, and their release, failure and recovery. Delivery is in `delivery`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, case, false, func, literal_column, select, true, update

from catchment.errors import FailureClass, Reason, StaleLease
from catchment.ledger.db import schema
from catchment.ledger.db.database import (
    Reading,
    Store,
    Writing,
    among,
    maybe_time,
    to_micros,
)
from catchment.ledger.db.job_states import (
    ORDINARY,
    PENDING,
    QUARANTINED,
    RETRYING,
    RUNNING,
    UNFINISHED,
    move,
    refuse,
    states,
)
from catchment.ledger.db.lookup import find_open_sync
from catchment.ledger.db.monotonic_clock import MonotonicClock
from catchment.ledger.db.schema import FRESH, TRIED, jobs, sources
from catchment.ledger.jobs import delivery, failures
from catchment.ledger.jobs.endings import end
from catchment.ledger.jobs.failures import quarantine_rows
from catchment.ledger.jobs.job_lists import JobLists
from catchment.ledger.jobs.ready import claimed, first_ready, ready_in
from catchment.ledger.limits.throttles import Quota
from catchment.model import JobState
from catchment.records.rows import (
    Acks,
    Batch,
    Delivered,
    FailureInfo,
    Recovered,
    SkippedOutcome,
    Waiting,
)
from catchment.telemetry.catalogue import LIMITED, RETRY_DELAY

LEASE = timedelta(minutes=5)
RUNNER_LOST = "runner lost"
"""History reason for an attempt that was not counted."""

_KILLED = FailureInfo(
    Reason.PROCESS_KILLED,
    FailureClass.TRANSIENT,
    "ProcessKilled",
    "the process died at every attempt at the item",
    retry_helps=True,
)


class Queue(JobLists):
    """The jobs of all sources."""

    def __init__(self, store: Store, monotonic: MonotonicClock) -> None:
        super().__init__(store)
        self._monotonic = monotonic

    def claim(
        self,
        source_id: int,
        limit: int,
        *,
        owner: str,
        lease: timedelta = LEASE,
        fresh: bool | None = None,
        attempts: int | None = None,
        jobs: Sequence[int] | None = None,
        most_bytes: int | None = None,
        sync_id: int | None = None,
        backfill: int | None = None,
    ) -> Batch:
        """Claim up to `limit` ready jobs, longest due first, under a new token. Counts an attempt for each.

        Two claims never share a job. The batch is empty if no job is ready or the quotas permit none.

        Args:
            fresh: Only new jobs (True), only failed ones (False), or both (None).
            attempts: Only jobs with fewer claims.
            jobs: Only these jobs.
            most_bytes: Stop after the item that reaches this total size.
            sync_id: The sync that claims. Raises StaleLease if it is closed.
            backfill: Only the jobs of this backfill, which no other claim takes.
        """
        with self._store.write() as writing:
            if sync_id is not None:
                find_open_sync(writing, sync_id)
            # Adjusts waiting times if the clock was set back.
            self._monotonic.now(writing)
            quota = Quota(writing, self._monotonic, source_id)
            requested, limit = limit, quota.left(limit)
            token = writing.ids("token")[0]
            until = writing.now + lease // timedelta(microseconds=1)
            move(
                writing,
                first_ready(writing, source_id, limit, fresh, jobs, attempts, most_bytes, backfill),
                {PENDING, RETRYING},
                RUNNING,
                actor=owner,
                attempt=_jobs.attempt + 1,
                token=token,
                owner=owner,
                lease_until=until,
            )
            batch = Batch(token, tuple(claimed(writing, token)))
            quota.spend(len(batch.jobs))
            if requested > limit == len(batch.jobs) and _is_ready(writing, source_id):
                writing.tally.add(LIMITED, 1, source_id, limit="quota")
            return batch

    def to_process_alone(
        self, source_id: int, limit: int, attempts: int, backfill: int | None = None
    ) -> dict[int, Reason]:
        """Return the ready jobs to be processed separately, by reason: failed ones, then those claimed `attempts` times.

        `backfill`: as in `claim`.
        """
        with self._store.read() as reading:
            failed = ready_in(TRIED, source_id, reading.now, None, backfill).add_columns(_jobs.reason)
            worn = ready_in(FRESH, source_id, reading.now, None, backfill).where(_jobs.attempt >= attempts)
            first, then = (reading.execute(each.order_by("due", "id").limit(limit)) for each in (failed, worn))
            return {row.id: Reason(row.reason) for row in first} | {row.id: _KILLED.reason for row in then}

    def waiting(self, source_id: int) -> Waiting:
        """Return the number of jobs that a source still has to do, apart from its backfills."""
        fresh = select(func.count()).where(_jobs.source_id == source_id, literal_column(FRESH), ORDINARY)
        with self._store.read() as reading:
            is_later = _jobs.not_before > reading.now
            tried, later, next_at = reading.execute(
                select(
                    func.count(),
                    func.count().filter(is_later),
                    func.min(_jobs.not_before).filter(is_later),
                ).where(_jobs.source_id == source_id, literal_column(TRIED))
            ).one()
            return Waiting(reading.execute(fresh).scalar_one() + tried - later, later, maybe_time(next_at))

    def left(self, source_id: int) -> int:
        """Return the number of new and running jobs of a source, apart from its backfills. Cheap for any size of queue."""
        of_source = (_jobs.source_id == source_id) & ORDINARY
        with self._store.read() as reading:
            return sum(
                reading.execute(select(func.count()).where(of_source, literal_column(state))).scalar_one()
                for state in (FRESH, schema.RUNNING)
            )

    def unfinished(self, job_ids: Collection[int]) -> list[int]:
        """Return which of these jobs may still be processed. Includes quarantined ones."""
        may_go_on = states(UNFINISHED | {QUARANTINED})
        with self._store.read() as reading:
            statement = select(_jobs.id).where(among(reading, _jobs.id, job_ids), may_go_on)
            return list(reading.execute(statement).scalars())

    def released(self, times: int) -> list[tuple[str, int]]:
        """Return the pending jobs with at least this many claims, as (source, job), ordered."""
        statement = (
            select(sources.c.name, _jobs.id)
            .join(sources, sources.c.id == _jobs.source_id)
            .where(states({PENDING}), _jobs.attempt >= times)
            .order_by(sources.c.name, _jobs.id)
        )
        return [(name, job) for name, job in self._store.execute(statement)]

    def renew(self, token: int, job_ids: Sequence[int], lease: timedelta) -> int:
        """Extend the lease of the jobs still held by this token. Return their number."""
        with self._store.write() as writing:
            until = writing.now + lease // timedelta(microseconds=1)
            held = _jobs.id.in_(job_ids) & (_jobs.token == token) & (_jobs.state == RUNNING.value)
            return writing.execute(update(jobs).where(held).values(lease_until=until)).rowcount

    def deliver(self, token: int, outcomes: Sequence[Delivered | SkippedOutcome]) -> Acks:
        """Store results in the library and acknowledge the jobs, in one transaction.

        Results of jobs no longer held by this token are discarded, and the jobs listed as stale.
        """
        with self._store.write() as writing:
            return delivery.deliver(writing, token, outcomes)

    def fail(self, token: int, job_id: int, failure: FailureInfo, *, retry_at: datetime | None) -> JobState:
        """Record a failed attempt: retry at `retry_at`, or quarantine if that is None.

        Raises StaleLease if the job is no longer held by this token.
        """
        with self._store.write() as writing:
            held = (_jobs.id == job_id) & (_jobs.token == token)
            values: dict[str, Any] = {
                "error": f"{failure.error}: {failure.message}",
                "failed_at": func.coalesce(_jobs.failed_at, writing.now),
            }
            if retry_at is None:
                to = QUARANTINED
            else:
                to, moment = RETRYING, to_micros(retry_at)
                # A failed job of a backfill is retried by any sync, as all others.
                due = case((ORDINARY, moment + _jobs.due - _jobs.not_before), else_=moment)
                values |= {"not_before": moment, "due": due}
            actor = self._owner(writing, job_id)
            moved = move(writing, held, {RUNNING}, to, actor=actor, reason=failure.reason.value, **values)
            if not moved:
                raise StaleLease(f"Job {job_id} was taken over by another claim; nothing was changed")
            if retry_at is None:
                _quarantine(writing, [job_id], failure)
                return to
            failures.count(writing, moved[0].source_id, failure)
            delay = max(0, moved[0].not_before - writing.now) / 1e6
            writing.tally.add(RETRY_DELAY, delay, moved[0].source_id, reason=failure.reason.value)
            return to

    def _owner(self, reading: Reading, job_id: int) -> str:
        return reading.execute(select(_jobs.owner).where(_jobs.id == job_id)).scalar() or "nobody"

    def release(self, token: int) -> int:
        """Release the unfinished jobs of a token. Their attempts remain counted. Return their number."""
        with self._store.write() as writing:
            held = _jobs.token == token
            owner = writing.execute(select(_jobs.owner).where(held, literal_column(schema.RUNNING)).limit(1)).scalar()
            return len(move(writing, held, {RUNNING}, PENDING, actor=owner or "nobody", reason="released"))

    def cancel(self, job_id: int, actor: str, reason: str) -> None:
        """Cancel an unfinished job. Only a new version of the item creates another job. Raises IllegalTransition.

        If it repeats another job, that one counts again.
        """
        with self._store.write() as writing:
            chosen = _jobs.id == job_id
            if not end(writing, chosen, actor=actor, reason=reason, resolution="cancelled", expected=UNFINISHED):
                raise refuse(writing, job_id, "cancelled")

    def prioritize(self, job_id: int, actor: str, reason: str) -> None:
        """Let a waiting job be the next of its source. A job that waits for a retry is due now. Raises IllegalTransition."""
        with self._store.write() as writing:
            waits = states({PENDING, RETRYING})
            row = writing.execute(select(_jobs.source_id, _jobs.item_id).where(_jobs.id == job_id, waits)).first()
            if row is None:
                raise refuse(writing, job_id, "prioritized")
            first = [
                select(func.min(_jobs.due)).where(_jobs.source_id == row.source_id, literal_column(which))
                for which in (FRESH, TRIED)
            ]
            due = min(moment for query in first if (moment := writing.execute(query).scalar()) is not None)
            values = {"due": min(due, writing.now) - 1, "not_before": writing.now}
            writing.execute(update(jobs).where(_jobs.id == job_id).values(values))
            ids = {"source_id": row.source_id, "item_id": row.item_id, "job_id": job_id}
            writing.record("prioritized", actor=actor, reason=reason or None, **ids)

    def recover(
        self, source_id: int | None, alive: Callable[[str], bool], max_attempts: Mapping[str, int] | int
    ) -> Recovered:
        """Requeue running jobs with a dead owner or an expired lease.

        A job that was claimed alone is quarantined if it is out of attempts (in total or by kind of source). In a batch, the
        job that caused the crash is unknown.
        """
        of_source = true() if source_id is None else _jobs.source_id == source_id
        with self._store.read() as reading:
            running = select(_jobs.owner, func.min(_jobs.lease_until).label("lease_until"))
            owners = reading.execute(
                running.where(of_source, literal_column(schema.RUNNING)).group_by(_jobs.owner)
            ).all()
            dead = [row.owner for row in owners if not alive(row.owner or "")]
            if not dead and all(row.lease_until > reading.now for row in owners):
                return Recovered(0, 0)
        with self._store.write() as writing:
            lost = of_source & (_jobs.owner.in_(dead) | (_jobs.lease_until <= writing.now))
            alone = (
                select(_jobs.token)
                .where(literal_column(schema.RUNNING))
                .group_by(_jobs.token)
                .having(func.count() == 1)
            )
            used_up = lost & _jobs.token.in_(alone) & _used_up(writing, max_attempts)
            failed = move(
                writing,
                used_up,
                {RUNNING},
                QUARANTINED,
                actor="recovery",
                reason=_KILLED.reason.value,
                error=f"{_KILLED.error}: {_KILLED.message}",
                failed_at=func.coalesce(_jobs.failed_at, writing.now),
            )
            _quarantine(writing, [row.id for row in failed], _KILLED)
            freed = move(writing, lost, {RUNNING}, PENDING, actor="recovery", reason="its worker died")
            return Recovered(len(freed), len(failed))

    def give_back(self, owner: str, culprit: str | None) -> int:
        """Release a dead owner's running jobs, except those of `culprit`, without counting the attempt. Return their number."""
        with self._store.write() as writing:
            lost = _jobs.owner == owner
            if culprit is not None:
                lost &= _jobs.source_id.not_in(select(sources.c.id).where(sources.c.name == culprit))
            uncounted = _jobs.attempt - 1
            freed = move(writing, lost, {RUNNING}, PENDING, actor="recovery", reason=RUNNER_LOST, attempt=uncounted)
            return len(freed)


_jobs = jobs.c


def _is_ready(reading: Reading, source_id: int) -> bool:
    ready = (ready_in(which, source_id, reading.now, None).limit(1) for which in (FRESH, TRIED))
    return any(reading.execute(statement).first() is not None for statement in ready)


def _quarantine(writing: Writing, job_ids: Sequence[int], failure: FailureInfo) -> None:
    columns = _jobs.id, _jobs.source_id, _jobs.failed_at
    rows = writing.execute(select(*columns).where(among(writing, _jobs.id, job_ids))).all()
    quarantine_rows(writing, [(row._asdict(), failure) for row in rows])


def _used_up(reading: Reading, max_attempts: Mapping[str, int] | int) -> ColumnElement[bool]:
    if isinstance(max_attempts, int):
        return _jobs.attempt >= max_attempts
    spent: ColumnElement[bool] = false()
    for number, kind in reading.execute(select(sources.c.id, sources.c.kind)):
        if kind in max_attempts:
            spent |= (_jobs.source_id == number) & (_jobs.attempt >= max_attempts[kind])
    return spent
