"""The places of hosts: how many transfers go on at once, over all processes. A place is held by a living process only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import delete, insert, select, update

from catchment.ledger.db.database import Reading, Writing
from catchment.ledger.db.schema import slots


@dataclass(frozen=True, slots=True)
class SlotEntry:
    """A transfer that goes on (`held`) or waits; `at_once` is how many its own limits allow."""

    ticket: int
    host: str
    owner: str
    at_once: int
    held: bool


def standings(reading: Reading, host: str | None = None) -> list[SlotEntry]:
    """All, or those of a host, in the order in which they asked."""
    statement = select(slots.c.id, slots.c.host, slots.c.owner, slots.c.at_once, slots.c.held).order_by(slots.c.id)
    if host is not None:
        statement = statement.where(slots.c.host == host)
    return [SlotEntry(*row) for row in reading.execute(statement)]


def ask(writing: Writing, host: str, at_once: int, owner: str, alive: Callable[[str], bool]) -> tuple[int, bool]:
    """A ticket, and whether it has its place already."""
    ticket = writing.ids("slots")[0]
    writing.execute(insert(slots).values(id=ticket, host=host, owner=owner, at_once=at_once, held=False))
    return ticket, ticket in _grant(writing, _living(writing, host, alive))


def look(reading: Reading, ticket: int, alive: Callable[[str], bool]) -> bool | None:
    """Whether the ticket has its place; None when a dead process stands in the way, or one that was taken for dead."""
    host = reading.execute(select(slots.c.host).where(slots.c.id == ticket)).scalar()
    everyone = standings(reading, host) if host is not None else []
    mine = next((one for one in everyone if one.ticket == ticket), None)
    if mine is not None and mine.held:
        return True
    owners = {one.owner for one in everyone}
    return False if mine is not None and all(map(alive, owners)) and not next_places(everyone) else None


def clear_and_look(writing: Writing, ticket: int, alive: Callable[[str], bool]) -> bool:
    """Whether the ticket has its place, after the dead have lost theirs."""
    host = writing.execute(select(slots.c.host).where(slots.c.id == ticket)).scalar()
    if host is None:
        return False
    everyone = _living(writing, host, alive)
    return ticket in {one.ticket for one in everyone if one.held} | _grant(writing, everyone)


def release(writing: Writing, ticket: int) -> None:
    """Give up a place, or the wish for one, and hand it on."""
    host = writing.execute(delete(slots).where(slots.c.id == ticket).returning(slots.c.host)).scalar()
    if host is not None:
        _grant(writing, standings(writing, host))


def next_places(everyone: Sequence[SlotEntry]) -> list[SlotEntry]:
    """Who of those that wait is given a place now: whoever asked first, and nobody past one that asked before."""
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
