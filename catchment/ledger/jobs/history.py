"""The history of all transitions and decisions: append-only and hash-chained."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, FromClause, delete, exists, func, select, update

from catchment.ledger.db.database import Reading, Rows, Store, Writing, among, from_micros, to_micros
from catchment.ledger.db.history_chain import ERASED, checked
from catchment.ledger.db.schema import chain, history, jobs, moves
from catchment.records.rows import Event
from catchment.runtime.process import IN_PREFECT, OPERATOR

_MOST_FINDINGS = 20
_ERASED = {
    **dict.fromkeys(("source_id", "item_id", "job_id", "sync_id", "attempt", "reason")),
    **{"at": 0, "actor": "", "event": ERASED},
}

_SQLITE = tuple(
    f"""CREATE TRIGGER history_no_{verb.lower()} BEFORE {verb} ON history
    BEGIN SELECT RAISE(ABORT, 'the history is append-only'); END"""
    for verb in ("UPDATE", "DELETE")
)
_POSTGRES = (
    """CREATE FUNCTION history_is_append_only() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'the history is append-only'; END $$""",
    """CREATE TRIGGER history_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON history
    FOR EACH STATEMENT EXECUTE FUNCTION history_is_append_only()""",
)


def create(connection: Connection) -> None:
    """Create the triggers that protect the history, in an empty database."""
    for statement in _SQLITE if connection.dialect.name == "sqlite" else _POSTGRES:
        connection.exec_driver_sql(statement)


class History:
    """The history of items and jobs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of_item(self, item_id: int) -> list[Event]:
        """Return the events of an item, oldest first."""
        return self._events(history.c.item_id == item_id)

    def of_job(self, job_id: int) -> list[Event]:
        """Return the events of a job, oldest first; empty for an unknown job."""
        with self._store.read() as reading:
            item_id = reading.execute(select(jobs.c.item_id).where(jobs.c.id == job_id)).scalar()
            if item_id is None:
                # A purged job only exists in the history, which has no index by job.
                statement = select(history.c.item_id).where(history.c.job_id == job_id).limit(1)
                item_id = reading.execute(statement).scalar()
        return self._events((history.c.item_id == item_id) & (history.c.job_id == job_id))

    def decisions(self, events: Collection[str], limit: int, source_id: int | None = None) -> list[Event]:
        """Return the latest of these events that concern no item, such as those of sources, hosts and rules; oldest first.

        `source_id`: only those of this source.
        """
        which = history.c.item_id.is_(None) & history.c.event.in_(events)
        if source_id is not None:
            which &= history.c.source_id == source_id
        return self._latest(which, limit)

    def trail(
        self, limit: int, *, source_id: int | None = None, since: datetime | None = None, actor: str | None = None
    ) -> list[Event]:
        """Return the latest events, oldest first: events of people, or of actors with names that begin with `actor`.

        `source_id` and `since`: only events of this source, and from this time.
        """
        which = _of_people(history) if actor is None else history.c.actor.startswith(actor, autoescape=True)
        if source_id is not None:
            which &= history.c.source_id == source_id
        if since is not None:
            which &= history.c.at >= to_micros(since)
        return self._latest(which, limit)

    def _latest(self, which: ColumnElement[bool], limit: int) -> list[Event]:
        with self._store.read() as reading:
            latest = select(history.c.id).where(which).order_by(history.c.id.desc()).limit(limit)
            numbers = reading.execute(latest).scalars().all()
        return self._events(history.c.id.in_(numbers))

    def erase(
        self, before: datetime, actor: str, reason: str, permit: Callable[[Sequence[int], Sequence[int]], None]
    ) -> int:
        """Empty the rows about earlier versions of items from before a time, except their hashes. Return their number.

        The rows about the last version of each item stay, those of jobs on which a person acted, and rows that concern no
        item. `permit` is called before, with the numbers of the rows that are empty already, and of all that will be empty.
        """
        with self._store.write() as writing:
            numbers = [row.id for row in _erasable(writing, before)]
            if not numbers:
                return 0
            empty = select(history.c.id).where(history.c.event == ERASED)
            present = sorted(writing.execute(empty).scalars())
            permit(present, sorted([*present, *numbers]))
            _guard(writing, is_on=False)
            writing.execute(delete(moves).where(among(writing, moves.c.history_id, numbers)))
            writing.execute(update(history).where(among(writing, history.c.id, numbers)).values(_ERASED))
            _guard(writing, is_on=True)
            writing.record(
                "history erased", actor=actor, reason=f"{len(numbers)} rows from before {before:%Y-%m-%d}; {reason}"
            )
        return len(numbers)

    def note(self, event: str, actor: str, reason: str = "", *, fact: str = "") -> None:
        """Add an operator's action that concerns no source."""
        with self._store.write() as writing:
            writing.record(event, actor=actor, fact=fact, reason=reason or None)

    def latest(self) -> int:
        """Return the number of the latest event; 0 without one."""
        with self._store.read() as reading:
            return int(reading.execute(select(chain.c.length)).scalar_one())

    def verify(self) -> list[str]:
        """Return the problems of the chain (rows changed, missing or out of order); empty if it is intact."""
        with self._store.read() as reading:
            return verify(reading)

    def _events(self, condition: ColumnElement[bool]) -> list[Event]:
        columns = [column for column in history.c if column.name not in ("reason", "hash")]
        statement = (
            select(*columns, moved_from())
            .outerjoin(moves, moves.c.history_id == history.c.id)
            .where(condition)
            .order_by(history.c.id)
        )
        return [Event(row[0], from_micros(row[1]), *row[2:]) for row in self._store.execute(statement)]


def moved_from() -> ColumnElement[str | None]:
    """Return the reason of an event; for a move, "from" and the old locator, unless deleted."""
    return func.coalesce(history.c.reason, "from " + moves.c.locator)


def verify(reading: Reading) -> list[str]:
    """Return the problems of the chain: rows that are changed, missing or out of order."""
    violations: list[str] = []
    for _ in walk(reading, violations.append):
        pass
    return violations[:_MOST_FINDINGS]


def _erasable(reading: Reading, before: datetime) -> Rows:
    """Select the old steps of earlier jobs, except of jobs on which a person acted: a part of their steps would not add up."""
    later, acts = history.alias(), history.alias()
    is_earlier = exists().where(later.c.item_id == history.c.item_id, later.c.job_id > history.c.job_id)
    is_of_person = exists().where(
        acts.c.item_id == history.c.item_id, acts.c.job_id == history.c.job_id, _of_people(acts)
    )
    is_old = history.c.at < to_micros(before)
    return reading.execute(select(history.c.id).where(is_old, history.c.event != ERASED, is_earlier, ~is_of_person))


def _of_people(table: FromClause) -> ColumnElement[bool]:
    """Return whether an event is an action of a person, by a command, the page or in Prefect."""
    return table.c.actor.startswith(OPERATOR, autoescape=True) | (table.c.actor == IN_PREFECT)


def _guard(writing: Writing, *, is_on: bool) -> None:
    """Switch the triggers that protect the history, in this transaction."""
    if not writing.sqlite:
        switch = "ENABLE" if is_on else "DISABLE"
        writing.connection.exec_driver_sql(f"ALTER TABLE history {switch} TRIGGER history_no_change")
    elif is_on:
        create(writing.connection)
    else:
        for verb in ("update", "delete"):
            writing.connection.exec_driver_sql(f"DROP TRIGGER history_no_{verb}")


def walk(
    reading: Reading, report: Callable[[str], None]
) -> Iterator[tuple[Sequence[tuple[Any, ...]], Sequence[bytes]]]:
    """Yield the rows of the history and their hashes, in parts. Passes a sentence for each inconsistency to `report`."""
    length, head = reading.execute(select(chain.c.length, chain.c.hash)).one()
    return checked(reading.in_parts(select(history), history.c.id), length, head, report)
