"""The sources: their state and last known root."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, delete, func, insert, literal_column, select, update

from catchment.errors import Refused
from catchment.ledger.db.database import Store, Writing, among, to_json
from catchment.ledger.db.job_states import UNFINISHED
from catchment.ledger.db.lookup import find_open_sync, find_source
from catchment.ledger.db.row_records import record
from catchment.ledger.db.schema import (
    FRESH,
    RUNNING,
    TRIED,
    before_images,
    holds,
    items,
    jobs,
    marks,
    sources,
    syncs,
    throttles,
)
from catchment.ledger.items import consents
from catchment.ledger.items.known import accepted_roots
from catchment.ledger.items.matching import SOURCE_REMOVED
from catchment.ledger.items.purge import Purging
from catchment.ledger.jobs.endings import end
from catchment.ledger.library import withdraw
from catchment.ledger.limits import breakers
from catchment.model import HOST, AwayHost, Priority
from catchment.records.rows import Source, SourceState

_BEING_REMOVED = "being removed; finish an interrupted removal with `catchment sources remove`"

_JOBS_AT_ONCE = 5_000


class Sources:
    """The configured sources and their states."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def away(self, source_id: int) -> list[AwayHost]:
        """Return the hosts of a source with several that do not answer, by name."""
        its = (marks.c.source_id == source_id) & marks.c.key.startswith(HOST, autoescape=True)
        rows = self._store.execute(select(marks.c.key, marks.c.value).where(its).order_by(marks.c.key))
        return [AwayHost.of(key.removeprefix(HOST), value) for key, value in rows]

    def put(
        self,
        name: str,
        kind: str,
        priority: Priority,
        actor: str = "configuration",
        reason: str | None = None,
        *,
        keep_days: int | None = None,
    ) -> Source:
        """Add a source, update its priority and `keep_days`, or reactivate a removed one. Idempotent.

        Raises Refused if the name belongs to a source of another kind.
        """
        with self._store.write() as writing:
            old = writing.execute(select(sources).where(sources.c.name == name)).first()
            values: dict[str, Any] = {"kind": kind, "priority": priority.value}
            if keep_days is not None:
                values["keep_days"] = keep_days
            if old is None:
                number = writing.ids("sources")[0]
                writing.execute(insert(sources).values(id=number, name=name, state="active", **values))
                writing.record("added", actor=actor, source_id=number, reason=reason or None)
            elif old.state != "removed" and old.kind != kind:
                raise Refused(f"{name}: exists as a source of kind {old.kind}; remove it first, or choose another name")
            else:
                if old.state == "removed":
                    values |= {"state": "active", "state_reason": None, "failures": 0, "root": None}
                    writing.record("added", actor=actor, source_id=old.id, reason=reason or None)
                writing.execute(update(sources).where(sources.c.id == old.id).values(values))
        return self.get(name)

    def get(self, name: str) -> Source:
        """Return the source with this name. Raises NotFound, with similar names."""
        with self._store.read() as reading:
            return record(Source, find_source(reading, name))

    def all(self) -> list[Source]:
        """Return all sources except removed ones, by name."""
        with self._store.read() as reading:
            rows = reading.execute(select(sources).where(sources.c.state != "removed").order_by(sources.c.name))
            return [record(Source, row) for row in rows]

    def size(self, source_id: int) -> int:
        """Return the total bytes of a source's present items. Items without a reported size do not count."""
        # Reading the table in its order is four times as fast as by the index of a large source.
        present = (items.c.source_id + 0 == source_id) & (items.c.state == "present")
        return int(self._store.execute(select(func.coalesce(func.sum(items.c.size), 0)).where(present)).scalar_one())

    def pause(self, name: str, actor: str, reason: str) -> None:
        """Pause a source until it is resumed. Idempotent."""
        self._set_state(name, "paused", actor, reason)

    def resume(self, name: str, actor: str, reason: str | None = None) -> None:
        """Resume a paused or held source, and reset its failures and its circuit breaker."""
        self._set_state(name, "active", actor, reason or None, failures=0)

    def hold(self, name: str, actor: str, reason: str) -> None:
        """Hold a failing source until an operator resumes it. A paused source stays paused."""
        self._set_state(name, "held", actor, reason, only_from="active")

    def release(self, name: str, actor: str) -> None:
        """Resume a held source as `resume` does. A paused source stays paused."""
        self._set_state(name, "active", actor, None, only_from="held", failures=0)

    def _set_state(
        self,
        name: str,
        state: SourceState,
        actor: str,
        reason: str | None,
        *,
        only_from: SourceState | None = None,
        **values: Any,
    ) -> None:
        with self._store.write() as writing:
            source = find_source(writing, name)
            if only_from is not None and source.state != only_from:
                return
            writing.execute(
                update(sources)
                .where(sources.c.id == source.id)
                .values(state=state, state_reason=None if state == "active" else reason, **values)
            )
            if state == "active":
                breakers.reset(writing, breakers.of_source(name), actor)
            if source.state != state:
                event = "resumed" if state == "active" else state
                writing.record(event, actor=actor, source_id=source.id, reason=reason)

    def note(self, name: str, event: str, actor: str, reason: str | None = None, *, fact: str = "") -> None:
        """Add an operator's action on a source, outside the ledger, to the history. Raises NotFound."""
        with self._store.write() as writing:
            source_id = find_source(writing, name).id
            writing.record(event, actor=actor, source_id=source_id, fact=fact, reason=reason or None)

    def remove(self, name: str, actor: str, reason: str) -> None:
        """Delete a source with its jobs, documents and cursor. Only the history remains.

        Ends a running sync first. Works in several transactions: an interrupted removal leaves the source paused and without a
        cursor, and can be repeated.
        """
        self.begin_removal(name, actor)
        source_id = self.get(name).id
        with self._store.write() as writing:
            _end_sync(writing, source_id)
        self._end_jobs(source_id, actor)
        for _ in Purging(self._store).items(source_id, lambda _: True):
            continue
        with self._store.write() as writing:
            source = find_source(writing, name)
            _end_sync(writing, source.id)
            _end(writing, jobs.c.source_id == source.id, actor)
            numbers = writing.execute(select(items.c.id).where(items.c.source_id == source.id)).scalars().all()
            withdraw.forget_items(writing, numbers)
            withdraw.forget_before_images(writing, before_images.c.source_id == source.id)
            breakers.reset(writing, breakers.of_source(name), actor)
            writing.execute(delete(throttles).where(throttles.c.scope == f"source:{name}"))
            consents.forget(writing, source.id)
            writing.execute(
                update(holds)
                .where(holds.c.source_id == source.id, holds.c.resolved_at.is_(None))
                .values(resolved_at=writing.now, resolution="source removed")
            )
            writing.execute(
                update(sources).where(sources.c.id == source.id).values(state="removed", state_reason=reason, root=None)
            )
            writing.record("removed", actor=actor, source_id=source.id, reason=reason)
        # The file contains the deleted texts until the checkpoint, which a running system may do much later.
        self._store.settle()

    def _end_jobs(self, source_id: int, actor: str) -> None:
        for which in (FRESH, TRIED, RUNNING):
            some = select(jobs.c.id).where(jobs.c.source_id == source_id, literal_column(which)).limit(_JOBS_AT_ONCE)
            ended = _JOBS_AT_ONCE
            while ended == _JOBS_AT_ONCE:
                with self._store.write() as writing:
                    unfinished = among(writing, jobs.c.id, writing.execute(some).scalars().all())
                    ended = _end(writing, unfinished, actor)
                self._store.let_others_write()

    def begin_removal(self, name: str, actor: str) -> None:
        """Pause a source before its removal. `is_being_removed` is true until `remove` has finished. Idempotent."""
        self.pause(name, actor, _BEING_REMOVED)

    def is_being_removed(self, name: str) -> bool:
        """Return whether a removal of this source is in progress or was interrupted."""
        is_paused = (sources.c.name == name) & (sources.c.state == "paused")
        return self._store.execute(select(sources.c.state_reason).where(is_paused)).scalar() == _BEING_REMOVED

    def changed_roots(self, sync_id: int, roots: Mapping[str, str]) -> list[str]:
        """Return the roots with another identity than the accepted one. Accepts new roots, but not different ones.

        Raises StaleLease if the sync is closed.
        """
        with self._store.write() as writing:
            source_id = find_open_sync(writing, sync_id).source_id
            accepted = accepted_roots(writing, source_id)
            values = {"seen_root": to_json(roots), "root": to_json({**roots, **accepted})}
            writing.execute(update(sources).where(sources.c.id == source_id).values(values))
        return sorted(name for name, identity in roots.items() if accepted.get(name, identity) != identity)


def _end(writing: Writing, which: ColumnElement[bool], actor: str) -> int:
    """Cancel unfinished jobs. Return their number."""
    return len(end(writing, which, actor=actor, reason=SOURCE_REMOVED, resolution=SOURCE_REMOVED, expected=UNFINISHED))


def _end_sync(writing: Writing, source_id: int) -> None:
    """Close the running sync, which notices before its next write, and delete the marks, so that a later one lists all."""
    writing.execute(delete(marks).where(marks.c.source_id == source_id))
    # Before noticing, the old sync might otherwise write to a new source of the same name.
    open_one = (syncs.c.source_id == source_id) & syncs.c.outcome.is_(None)
    closed = {"outcome": "cancelled", "ended_at": writing.now, "error": "its source was removed"}
    writing.execute(update(syncs).where(open_one).values(closed))
