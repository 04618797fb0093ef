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


def standings(reading: Reading, host: str | None = None) -> list[SlotEntry]:
    """Return all entries, or those of one host, in the order of their requests."""
    statement = select(slots.c.id, slots.c.host, slots.c.owner, slots.c.at_once, slots.c.held).order_by(slots.c.id)
    if host is not None:
        statement = statement.where(slots.c.host == host)
    return [SlotEntry(*row) for row in reading.execute(statement)]


def ask(writing: Writing, host: str, at_once: int, owner: str, alive: Callable[[str], bool]) -> tuple[int, bool]:
    """Request a slot. Return the ticket and whether the slot was granted."""
    ticket = writing.ids("slots")[0]
    writing.execute(insert(slots).values(id=ticket, host=host, owner=owner, at_once=at_once, held=False))
    return ticket, ticket in _grant(writing, _living(writing, host, alive))


def look(reading: Reading, ticket: int, alive: Callable[[str], bool]) -> bool | None:
    """Return whether the ticket holds a slot; None if the entries of dead processes must be removed first."""
    host = reading.execute(select(slots.c.host).where(slots.c.id == ticket)).scalar()
    everyone = standings(reading, host) if host is not None else []
    mine = next((one for one in everyone if one.ticket == ticket), None)
    if mine is not None and mine.held:
        return True
    owners = {one.owner for one in everyone}
    return False if mine is not None and all(map(alive, owners)) and not next_places(everyone) else None


def clear_and_look(writing: Writing, ticket: int, alive: Callable[[str], bool]) -> bool:
    """Remove entries of dead processes and return whether the ticket holds a slot."""
    host = writing.execute(select(slots.c.host).where(slots.c.id == ticket)).scalar()
    if host is None:
        return False
    everyone = _living(writing, host, alive)
    return ticket in {one.ticket for one in everyone if one.held} | _grant(writing, everyone)


def release(writing: Writing, ticket: int) -> None:
    """Release a slot or cancel a request, and grant slots to waiting entries."""
    host = writing.execute(delete(slots).where(slots.c.id == ticket).returning(slots.c.host)).scalar()
    if host is not None:
        _grant(writing, standings(writing, host))


def next_places(everyone: Sequence[SlotEntry]) -> list[SlotEntry]:
    """Return the waiting entries to be granted slots now, strictly in the order of their requests."""
    held = sum(one.held for one in everyone)
    chosen: list[SlotEntry] = []
    for one in everyone:
        if not one.held:
            if held + len(chosen) >= one.at_once:
                break
            chosen.append(one)
    return chosen


def _living(writing: Writing, host: str, alive: Callable[[str], bool]) -> list[SlotEntry]:
    everyone = standings(writing, host)
    dead = {owner for owner in {one.owner for one in everyone} if not alive(owner)}
    if dead:
        writing.execute(delete(slots).where(slots.c.host == host, slots.c.owner.in_(dead)))
    return [one for one in everyone if one.owner not in dead]


def _grant(writing: Writing, everyone: Sequence[SlotEntry]) -> set[int]:
    chosen = {one.ticket for one in next_places(everyone)}
    if chosen:
        writing.execute(update(slots).where(slots.c.id.in_(chosen)).values(held=True))
    return chosen
