"""Host slots: limits concurrent transfers per host across all processes. Slots of dead processes are reclaimed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import delete, insert, select, update

from catchment.ledger.db.database import Reading, Writing
from catchment.ledger.db.schema import slots


@dataclass(frozen=True, slots=True)
class SlotEntry:
    """A transfer that holds a slot (`held`) or waits for one. `at_once` is its own limit for the host."""

    ticket: int
    host: str
    owner: str
    at_once: int
    held: bool


def entries(reading: Reading, host: str | None = None) -> list[SlotEntry]:
    """Return all entries, or those of one host, in the order of their requests."""
    statement = select(slots.c.id, slots.c.host, slots.c.owner, slots.c.at_once, slots.c.held).order_by(slots.c.id)
    if host is not None:
        statement = statement.where(slots.c.host == host)
    return [SlotEntry(*row) for row in reading.execute(statement)]


def ask(writing: Writing, host: str, at_once: int, owner: str, alive: Callable[[str], bool]) -> tuple[int, bool]:
    """Request a slot. Return the ticket and whether the slot was granted."""
    ticket = writing.ids("slots")[0]
    writing.execute(insert(slots).values(id=ticket, host=host, owner=owner, at_once=at_once, held=False))
    return ticket, ticket in _grant(writing, _live_entries(writing, host, alive))


def check(reading: Reading, ticket: int, alive: Callable[[str], bool]) -> bool | None:
    """Return whether the ticket holds a slot; None if the entries of dead processes must be removed first."""
    host = reading.execute(select(slots.c.host).where(slots.c.id == ticket)).scalar()
    queue = entries(reading, host) if host is not None else []
    own = next((entry for entry in queue if entry.ticket == ticket), None)
    if own is not None and own.held:
        return True
    owners = {entry.owner for entry in queue}
    return False if own is not None and all(map(alive, owners)) and not next_granted(queue) else None


def reclaim_and_check(writing: Writing, ticket: int, alive: Callable[[str], bool]) -> bool:
    """Remove entries of dead processes and return whether the ticket holds a slot."""
    host = writing.execute(select(slots.c.host).where(slots.c.id == ticket)).scalar()
    if host is None:
        return False
    queue = _live_entries(writing, host, alive)
    return ticket in {entry.ticket for entry in queue if entry.held} | _grant(writing, queue)


def release(writing: Writing, ticket: int) -> None:
    """Release a slot or cancel a request, and grant slots to waiting entries."""
    host = writing.execute(delete(slots).where(slots.c.id == ticket).returning(slots.c.host)).scalar()
    if host is not None:
        _grant(writing, entries(writing, host))


def next_granted(queue: Sequence[SlotEntry]) -> list[SlotEntry]:
    """Return the waiting entries to be granted slots now, strictly in the order of their requests."""
    held = sum(entry.held for entry in queue)
    chosen: list[SlotEntry] = []
    for entry in queue:
        if not entry.held:
            if held + len(chosen) >= entry.at_once:
                break
            chosen.append(entry)
    return chosen


def _live_entries(writing: Writing, host: str, alive: Callable[[str], bool]) -> list[SlotEntry]:
    queue = entries(writing, host)
    dead = {owner for owner in {entry.owner for entry in queue} if not alive(owner)}
    if dead:
        writing.execute(delete(slots).where(slots.c.host == host, slots.c.owner.in_(dead)))
    return [entry for entry in queue if entry.owner not in dead]


def _grant(writing: Writing, queue: Sequence[SlotEntry]) -> set[int]:
    chosen = {entry.ticket for entry in next_granted(queue)}
    if chosen:
        writing.execute(update(slots).where(slots.c.id.in_(chosen)).values(held=True))
    return chosen
