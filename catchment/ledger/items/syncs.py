"""Syncs: one flow run that brings one source up to date. A source has at most one that is open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from sqlalchemy import insert, select, update

from catchment.errors import IllegalTransition, TryAgain
from catchment.ledger.db.database import Store, Writing, from_json, from_micros, maybe_micros, maybe_time, to_json
from catchment.ledger.db.job_states import PENDING, RUNNING, move
from catchment.ledger.db.records import Outcome, Sync, SyncRow
from catchment.ledger.db.schema import jobs, sources, syncs


class Syncs:
    """When each source was brought up to date, and how that went."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def begin(
        self,
        source_id: int,
        *,
        run: str | None,
        owner: str,
        code_version: str,
        alive: Callable[[str], bool],
        circumstances: Mapping[str, str] | None = None,
    ) -> Sync:
        """Open a sync of a source. `alive` tells whether the owner of an open one still runs.

        `circumstances` are kept with it, and with what it quarantines (see `Quarantine.heal`).

        Raises TryAgain when it does; else that one is closed as crashed and the jobs it was doing are released.
        """
        with self._store.read() as reading:
            open_sync = syncs.c.outcome.is_(None) & (syncs.c.source_id == source_id)
            old = reading.execute(select(syncs.c.id, syncs.c.owner).where(open_sync)).first()
        if old is not None and alive(old.owner):
            raise TryAgain("A sync of this source is already running; try again when it has ended")
        with self._store.write() as writing:
            now_open = writing.execute(select(syncs.c.id, syncs.c.owner).where(open_sync)).first()
            if now_open is not None:
                if old is None or now_open.id != old.id:
                    raise TryAgain("A sync of this source has just begun; try again when it has ended")
                self._close_crashed(writing, source_id, old.id, old.owner)
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
                )
            )
            return Sync(number, source_id, from_micros(writing.now))

    def close_dead(
        self, alive: Callable[[str], bool], has_ended: Callable[[str, str | None], bool] = lambda *_: False
    ) -> int:
        """Close as crashed every open sync whose owner is gone, and let its jobs wait again; how many. May be called again.

        `has_ended(owner, run)`: whether the owner, though alive, does not execute the run any more.
        """
        is_open = syncs.c.outcome.is_(None)
        with self._store.read() as reading:
            found = reading.execute(
                select(syncs.c.id, syncs.c.source_id, syncs.c.owner, syncs.c.run).where(is_open)
            ).all()
        dead = [row for row in found if not alive(row.owner) or has_ended(row.owner, row.run)]
        if dead:
            with self._store.write() as writing:
                for row in dead:
                    self._close_crashed(writing, row.source_id, row.id, row.owner)
        return len(dead)

    def _close_crashed(self, writing: Writing, source_id: int, sync_id: int, owner: str) -> None:
        is_open = (syncs.c.id == sync_id) & syncs.c.outcome.is_(None)
        if not writing.execute(update(syncs).where(is_open).values(outcome="crashed", ended_at=writing.now)).rowcount:
            # It ended meanwhile; its owner may have jobs of the next sync of the source.
            return
        mine = (jobs.c.source_id == source_id) & (jobs.c.owner == owner)
        move(
            writing,
            mine,
            {RUNNING},
            PENDING,
            actor=owner,
            reason="sync crashed",
            sync_id=sync_id,
            not_before=writing.now,
        )

    def expect(self, sync_id: int, moment: datetime | None) -> None:
        """Say when a sync that is open will be done, as far as it is known; may be called again."""
        with self._store.write() as writing:
            writing.execute(update(syncs).where(syncs.c.id == sync_id).values(expected_at=maybe_micros(moment)))

    def end(self, sync_id: int, outcome: Outcome, summary: Mapping[str, int], error: str | None = None) -> None:
        """Close a sync and say how it went. Raises IllegalTransition when it is closed already."""
        with self._store.write() as writing:
            closed = writing.execute(
                update(syncs)
                .where(syncs.c.id == sync_id, syncs.c.outcome.is_(None))
                .values(outcome=outcome, ended_at=writing.now, summary=to_json(summary), error=error)
                .returning(syncs.c.source_id)
            ).scalar()
            if closed is None:
                raise IllegalTransition(f"Sync {sync_id} is not open; nothing was changed")
            mine = sources.c.id == closed
            if outcome == "completed":
                writing.execute(update(sources).where(mine, sources.c.failures != 0).values(failures=0))
            elif outcome in ("failed", "quarantined"):
                writing.execute(update(sources).where(mine).values(failures=sources.c.failures + 1))

    def is_open(self, sync_id: int) -> bool:
        """Whether nobody has closed it yet."""
        with self._store.read() as reading:
            found = reading.execute(select(syncs.c.id).where(syncs.c.id == sync_id, syncs.c.outcome.is_(None)))
            return found.first() is not None

    def circumstances(self, source_id: int) -> Mapping[str, str]:
        """Those of the last sync of a source that began with any; empty where there is none."""
        mine = (syncs.c.source_id == source_id) & syncs.c.circumstances.is_not(None)
        with self._store.read() as reading:
            statement = select(syncs.c.circumstances).where(mine).order_by(syncs.c.id.desc()).limit(1)
            found: Mapping[str, str] = from_json(reading.execute(statement).scalar())
            return found

    def recent(self, source_id: int | None = None, limit: int = 20) -> list[SyncRow]:
        """The latest syncs, newest first."""
        statement = (
            select(syncs, sources.c.name.label("source"))
            .join(sources, sources.c.id == syncs.c.source_id)
            .order_by(syncs.c.id.desc())
            .limit(limit)
        )
        if source_id is not None:
            statement = statement.where(syncs.c.source_id == source_id)
        with self._store.read() as reading:
            return [
                SyncRow(
                    row.id,
                    row.source_id,
                    row.source,
                    row.run,
                    row.owner,
                    row.code_version,
                    row.outcome,
                    from_micros(row.began_at),
                    maybe_time(row.expected_at),
                    maybe_time(row.ended_at),
                    from_json(row.summary),
                    row.error,
                )
                for row in reading.execute(statement)
            ]

    def last(self, source_id: int) -> SyncRow | None:
        """The latest sync of a source, whether it has ended or not."""
        return next(iter(self.recent(source_id, 1)), None)
