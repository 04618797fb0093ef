"""Syncs: each is one flow run for one source. A source has at most one open sync."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, func, insert, select, update

from catchment.errors import NotFound, NotNow, TryAgain
from catchment.ledger.db.database import (
    AnyRow,
    Reading,
    Store,
    Writing,
    from_json,
    from_micros,
    maybe_micros,
    maybe_time,
    to_json,
    to_micros,
)
from catchment.ledger.db.job_states import PENDING, RUNNING, move
from catchment.ledger.db.joined_hosts import JoinedHosts
from catchment.ledger.db.lookup import before, cut, find_open_sync, key_of
from catchment.ledger.db.row_records import record
from catchment.ledger.db.schema import jobs, sources, syncs
from catchment.ledger.items.sync_changes import ChangeCounts, ChangeKind, PathChange, SyncChanges
from catchment.ledger.jobs import job_lists
from catchment.model import JobState
from catchment.records.rows import Outcome, Sync, SyncRow
from catchment.records.standing import ListPage
from catchment.telemetry.catalogue import SYNC_DURATION


@dataclass(frozen=True, slots=True)
class SyncWork:
    """The jobs that a sync found, by state; when it found the first and the last; and when the last finished. Aware UTC."""

    jobs: Mapping[JobState, int]
    first_found: datetime | None
    last_found: datetime | None
    finished: datetime | None


class Syncs:
    """The syncs of all sources and their results."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._hosts = JoinedHosts(store)

    def begin(
        self,
        source_id: int,
        *,
        run: str | None,
        owner: str,
        code_version: str,
        alive: Callable[[str], bool],
        circumstances: Mapping[str, str] | None = None,
        backfill: int | None = None,
    ) -> Sync:
        """Open a sync. An open one of a dead owner is closed as crashed, and its jobs are released.

        Args:
            alive: Returns whether an owner is still running.
            backfill: The backfill that it works for; its jobs are those.
            circumstances: Stored with the sync and with the items that it quarantines (see `Quarantine.auto_retry`).

        It continues the latest sync of the same backfill, or of none, if that one yielded: an undo includes both.

        Raises TryAgain if another sync of the source is running, NotNow if the source was paused, held or removed.
        """
        self._hosts.beat_for_command()
        with self._store.read() as reading:
            open_sync = syncs.c.outcome.is_(None) & (syncs.c.source_id == source_id)
            old = reading.execute(select(syncs.c.id, syncs.c.owner).where(open_sync)).first()
        if old is not None and alive(old.owner):
            raise TryAgain("a sync of this source is already running; try again later")
        with self._store.write() as writing:
            its_state = select(sources.c.name, sources.c.state).where(sources.c.id == source_id)
            name, state = writing.execute(its_state).one()
            if state != "active":
                raise NotNow(f"{name}: {state}; see `catchment sources list`")
            now_open = writing.execute(select(syncs.c.id, syncs.c.owner).where(open_sync)).first()
            if now_open is not None:
                if old is None or now_open.id != old.id:
                    raise TryAgain("a sync of this source has just started; try again later")
                close_crashed(writing, source_id, old.id, old.owner)
            of_source = (syncs.c.source_id == source_id) & syncs.c.undoes.is_(None)
            continues = interrupted(writing, of_source & (syncs.c.backfill_id == backfill), "yielded")
            number = writing.ids("syncs")[0]
            writing.execute(
                insert(syncs).values(
                    id=number,
                    source_id=source_id,
                    run=run,
                    owner=owner,
                    code_version=code_version,
                    began_at=writing.now,
                    circumstances=to_json(circumstances or {}),
                    backfill_id=backfill,
                    continues=continues,
                )
            )
            return Sync(number, source_id, from_micros(writing.now))

    def close_dead(
        self, alive: Callable[[str], bool], has_ended: Callable[[str, str | None], bool] = lambda *_: False
    ) -> int:
        """Close open syncs of dead owners as crashed and release their jobs. Return the number of syncs. Idempotent.

        `has_ended(owner, run)` returns whether a live owner no longer executes the run.
        """
        is_open = syncs.c.outcome.is_(None)
        open_syncs = self._store.execute(
            select(syncs.c.id, syncs.c.source_id, syncs.c.owner, syncs.c.run).where(is_open)
        ).all()
        dead = [row for row in open_syncs if not alive(row.owner) or has_ended(row.owner, row.run)]
        if dead:
            with self._store.write() as writing:
                for row in dead:
                    close_crashed(writing, row.source_id, row.id, row.owner)
        return len(dead)

    def expect(self, sync_id: int, moment: datetime | None) -> None:
        """Store the ETA of an open sync. Idempotent. Raises StaleLease if the sync is closed."""
        with self._store.write() as writing:
            find_open_sync(writing, sync_id)
            writing.execute(update(syncs).where(syncs.c.id == sync_id).values(expected_at=maybe_micros(moment)))

    def end(
        self,
        sync_id: int,
        outcome: Outcome,
        summary: Mapping[str, int],
        error: str | None = None,
        cause: str | None = None,
    ) -> None:
        """Close a sync with its result; `quarantined` also holds its source. Raises StaleLease if it is already closed."""
        with self._store.write() as writing:
            open_sync = find_open_sync(writing, sync_id)
            _measure(writing, open_sync.source_id, sync_id, open_sync.began_at, outcome)
            ended = {"outcome": outcome, "ended_at": writing.now}
            values = ended | {"summary": to_json(summary), "error": error, "cause": cause}
            writing.execute(update(syncs).where(syncs.c.id == sync_id).values(values))
            of_source = sources.c.id == open_sync.source_id
            if outcome == "completed":
                writing.execute(update(sources).where(of_source, sources.c.failures != 0).values(failures=0))
            elif outcome in ("failed", "quarantined"):
                writing.execute(update(sources).where(of_source).values(failures=sources.c.failures + 1))
            if outcome == "quarantined":
                # A source that an operator paused meanwhile stays paused: a hold ends by itself after a new login.
                held = update(sources).where(of_source, sources.c.state == "active")
                if writing.execute(held.values(state="held", state_reason=error)).rowcount:
                    writing.record("held", actor=f"sync:{sync_id}", source_id=open_sync.source_id, reason=error)
        # Nothing may write for long after the first sync of a source, and its log has up to 64 MB.
        self._store.cut_log()

    def is_open(self, sync_id: int) -> bool:
        """Return whether the sync is still open."""
        with self._store.read() as reading:
            row = reading.execute(select(syncs.c.id).where(syncs.c.id == sync_id, syncs.c.outcome.is_(None)))
            return row.first() is not None

    def circumstances(self, source_id: int) -> Mapping[str, str]:
        """Return the circumstances of the source's last sync that has any; empty without one."""
        of_source = (syncs.c.source_id == source_id) & syncs.c.circumstances.is_not(None)
        with self._store.read() as reading:
            statement = select(syncs.c.circumstances).where(of_source).order_by(syncs.c.id.desc()).limit(1)
            circumstances: Mapping[str, str] = from_json(reading.execute(statement).scalar())
            return circumstances

    def recent(self, source_id: int | None = None, limit: int = 20, *, since: datetime | None = None) -> list[SyncRow]:
        """Return the latest syncs, newest first. `since`: only syncs that were open at this time, or started later."""
        statement = _rows(source_id).limit(limit)
        if since is not None:
            ended = func.coalesce(syncs.c.ended_at, syncs.c.began_at) >= to_micros(since)
            statement = statement.where(syncs.c.outcome.is_(None) | ended)
        return [_row(row) for row in self._store.execute(statement)]

    def page(self, source_id: int | None = None, *, after: str | None = None, limit: int = 50) -> ListPage[SyncRow]:
        """Return the syncs of a source or of all in parts, newest first."""
        counted = select(func.count()).select_from(syncs)
        if source_id is not None:
            counted = counted.where(syncs.c.source_id == source_id)
        with self._store.read() as reading:
            rows = reading.execute(_rows(source_id).where(before(after, syncs.c.id)).limit(limit + 1)).all()
            return cut(rows, limit, reading.execute(counted).scalar_one(), _row, lambda row: key_of(row.id))

    def get(self, sync_id: int) -> SyncRow:
        """Return a sync, also of a removed source. Raises NotFound."""
        row = self._store.execute(_rows().where(syncs.c.id == sync_id)).first()
        if row is None:
            raise NotFound(f"sync {sync_id}: not found; see `catchment sources show NAME`")
        return _row(row)

    def last_good(self, source_id: int) -> SyncRow | None:
        """Return the latest completed sync of a source that listed it: not an undo, and not a backfill."""
        listed = syncs.c.backfill_id.is_(None) & syncs.c.undoes.is_(None)
        which = (syncs.c.outcome == "completed") & listed
        row = self._store.execute(_rows(source_id).where(which).limit(1)).first()
        return None if row is None else _row(row)

    def work(self, sync_id: int) -> SyncWork:
        """Return the jobs that a sync found, by their present state, and when they were found and finished."""
        times = func.min(jobs.c.enqueued_at), func.max(jobs.c.enqueued_at), func.max(jobs.c.finished_at)
        statement = select(*times, *job_lists.by_state()).where(jobs.c.sync_id == sync_id)
        first, last, finished, *by_state = self._store.execute(statement).one()
        return SyncWork(job_lists.numbers(by_state), maybe_time(first), maybe_time(last), maybe_time(finished))

    def change_counts(self, sync_id: int) -> ChangeCounts:
        """Return the number of paths that a sync changed, by kind. All are 0 once its undo data has expired."""
        with self._store.read() as reading:
            return _changes(reading, sync_id).counts()

    def changes(
        self, sync_id: int, kind: ChangeKind, *, after: str | None = None, limit: int = 50
    ) -> ListPage[PathChange]:
        """Return a part of the paths that a sync changed, in their order. It may be shorter than `limit`."""
        with self._store.read() as reading:
            return _changes(reading, sync_id).page(kind, after, limit)

    def moment(self) -> tuple[int, tuple[int, ...]]:
        """Return the number of the latest sync, and the open ones: they differ after a start and after an end."""
        with self._store.read() as reading:
            latest = reading.execute(select(func.max(syncs.c.id))).scalar() or 0
            still_open = select(syncs.c.id).where(syncs.c.outcome.is_(None)).order_by(syncs.c.id)
            return latest, tuple(reading.execute(still_open).scalars())

    def last(self, source_id: int) -> SyncRow | None:
        """Return the latest sync of a source, open or closed."""
        return next(iter(self.recent(source_id, 1)), None)


def _changes(reading: Reading, sync_id: int) -> SyncChanges:
    source_id = reading.execute(select(syncs.c.source_id).where(syncs.c.id == sync_id)).scalar()
    return SyncChanges(reading, source_id or 0, sync_id)


def _rows(source_id: int | None = None) -> Select[Any]:
    statement = (
        select(syncs, sources.c.name.label("source"))
        .join(sources, sources.c.id == syncs.c.source_id)
        .order_by(syncs.c.id.desc())
    )
    return statement if source_id is None else statement.where(syncs.c.source_id == source_id)


def _row(row: AnyRow) -> SyncRow:
    summary = from_json(row.summary) if row.undoes is None else {"undoes": row.undoes}
    return record(SyncRow, row, summary=summary, backfill=row.backfill_id)


def _measure(writing: Writing, source_id: int, sync_id: int, began: int, outcome: Outcome) -> None:
    """Count a sync that ends now. The first that completes is apart: it reads everything, unlike the others."""
    earlier = select(syncs.c.id).where(
        syncs.c.source_id == source_id, syncs.c.outcome == "completed", syncs.c.id < sync_id
    )
    is_first = outcome == "completed" and writing.execute(earlier.limit(1)).first() is None
    writing.tally.add(SYNC_DURATION, (writing.now - began) / 1e6, source_id, outcome="first" if is_first else outcome)


def interrupted(writing: Writing, which: ColumnElement[bool], outcome: Outcome) -> int | None:
    """Return the latest of these syncs if it ended with this outcome, so that the next one continues it."""
    latest = select(syncs.c.id, syncs.c.outcome).where(which).order_by(syncs.c.id.desc()).limit(1)
    row = writing.execute(latest).first()
    return row.id if row is not None and row.outcome == outcome else None


def close_crashed(writing: Writing, source_id: int, sync_id: int, owner: str) -> None:
    """Close a sync of this owner as crashed and release its jobs, unless it has ended."""
    is_open = (syncs.c.id == sync_id) & (syncs.c.owner == owner) & syncs.c.outcome.is_(None)
    closed = update(syncs).where(is_open).values(outcome="crashed", ended_at=writing.now).returning(syncs.c.began_at)
    if (began := writing.execute(closed).scalar()) is None:
        # Its owner may hold jobs of the source's next sync.
        return
    _measure(writing, source_id, sync_id, began, "crashed")
    of_owner = (jobs.c.source_id == source_id) & (jobs.c.owner == owner)
    move(
        writing,
        of_owner,
        {RUNNING},
        PENDING,
        actor=owner,
        reason="sync crashed",
        sync_id=sync_id,
        not_before=writing.now,
    )
