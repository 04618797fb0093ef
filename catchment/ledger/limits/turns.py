"""Turns: the right of a source to work now. So many are held at once, and they go round fairly among those that want one.

The rule is start-time fair queueing. A source has a *tag*: the seconds it has worked, divided by the weight of its priority,
in microseconds. A free turn goes to the waiting source with the lowest tag, of equals to the one that has waited longest; a
newcomer begins at the lowest tag of those at work. So each source gets its share however much there is to do in another,
one of low priority gets less and never nothing, and whoever was idle has saved up nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import delete, insert, select, update

from catchment.ledger.db.database import Reading, Store, Writing
from catchment.ledger.db.schema import sources, turns
from catchment.model import Priority

CAP = min(8, os.cpu_count() or 1)
"""How many turns are held at once."""

WEIGHT = {Priority.HIGH: 9, Priority.NORMAL: 3, Priority.LOW: 1}
"""By priority, how much of the machine a source gets beside another."""

LONG = 10_000_000
"""A turn in which nothing moved for so many microseconds keeps nobody waiting: it waits for a host, or for one slow item."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a source stands. Times are microseconds since 1970; both are None while it wants no turn.

    `at_once` is how many sources of its kind may hold a turn together.
    """

    source_id: int
    sync_id: int
    owner: str
    kind: str
    at_once: int
    weight: int
    tag: int
    waits_since: int | None = None
    counts_until: int | None = None

    @property
    def held(self) -> bool:
        """Whether it holds a turn."""
        return self.counts_until is not None

    @property
    def active(self) -> bool:
        """Whether it works, or waits to."""
        return self.held or self.waits_since is not None

    def after(self, seconds: float) -> Standing:
        """The same when it has worked for so long."""
        return replace(self, tag=self.tag + int(seconds * 1_000_000) // self.weight)


def next_turns(standings: Collection[Standing], now: int, cap: int) -> list[Standing]:
    """Who of the waiting is given a turn now, in this order. One whose kind has its number lets others pass.

    Where sources of a kind differ in how many may work at once, the least counts: else the modest ones would starve.
    """
    held = [one for one in standings if one.held]
    at_once = {kind: min(one.at_once for one in standings if one.kind == kind) for kind in {o.kind for o in standings}}
    free = cap - sum((one.counts_until or 0) > now for one in held)
    kinds = [one.kind for one in held]
    chosen: list[Standing] = []
    waiting = [one for one in standings if one.waits_since is not None and not one.held]
    for one in sorted(waiting, key=lambda one: (one.tag, one.waits_since, one.source_id)):
        if len(chosen) >= free:
            break
        if kinds.count(one.kind) < at_once[one.kind]:
            chosen.append(one)
            kinds.append(one.kind)
    return chosen


class Turns:
    """The turns of all sources. A source takes part from its sync's first `ask` to its `leave`."""

    def __init__(self, store: Store, cap: int = CAP) -> None:
        self._store = store
        self._cap = cap

    def standings(self) -> list[Standing]:
        """Every source that takes part. Cheap, and never waits."""
        with self._store.read() as reading:
            return _standings(reading)

    def ask(self, source_id: int, sync_id: int, *, owner: str, at_once: int, alive: Callable[[str], bool]) -> bool:
        """Ask for a turn for a sync; whether it has it. May be called again, which does nothing.

        What dead processes held or waited for is taken back first.
        """
        with self._store.write() as writing:
            everyone = self._living(writing, alive)
            mine = next((one for one in everyone if one.sync_id == sync_id), None)
            if mine is not None and mine.active:
                return mine.held
            others = [one for one in everyone if one.source_id != source_id]
            # Who was away has saved up nothing.
            tag = max(mine.tag if mine else 0, min((one.tag for one in others if one.active), default=0))
            writing.execute(delete(turns).where(turns.c.source_id == source_id))
            writing.execute(
                insert(turns).values(
                    source_id=source_id,
                    sync_id=sync_id,
                    owner=owner,
                    at_once=at_once,
                    tag=tag,
                    waits_since=writing.now,
                )
            )
            return sync_id in self._grant(writing, _standings(writing))

    def granted(self, sync_id: int, alive: Callable[[str], bool]) -> bool:
        """Whether the turn that was asked for has come. Writes only when somebody's turn has come and nobody gave it."""
        with self._store.read() as reading:
            everyone = _standings(reading)
            now = reading.now
        living = [one for one in everyone if alive(one.owner)]
        if not next_turns(living, now, self._cap):
            return any(one.sync_id == sync_id and one.held for one in living)
        with self._store.write() as writing:
            everyone = self._living(writing, alive)
            held = {one.sync_id for one in everyone if one.held}
            return sync_id in held | self._grant(writing, everyone)

    def account(self, sync_id: int, seconds: float, *, moved: bool) -> bool:
        """Count the seconds since the last account of a turn that is held; whether it is another's turn now.

        `moved` says whether anything was done since the last account.
        """
        with self._store.write() as writing:
            everyone = _standings(writing)
            mine = next((one for one in everyone if one.sync_id == sync_id and one.held), None)
            if mine is None:
                return True
            mine = mine.after(seconds)
            values = {"tag": mine.tag} | ({"counts_until": writing.now + LONG} if moved else {})
            writing.execute(update(turns).where(turns.c.sync_id == sync_id).values(values))
            return self._anothers(mine, [one for one in everyone if one.sync_id != sync_id], writing.now)

    def _anothers(self, mine: Standing, others: Sequence[Standing], now: int) -> bool:
        """Whether this source would not be given the turn again if it were free."""
        last = replace(mine, counts_until=None, waits_since=now)
        return last not in next_turns([*others, last], now, self._cap)

    def release(self, sync_id: int, seconds: float) -> None:
        """Give up the turn after so many seconds since its last account, and hand it on; the sync still takes part."""
        with self._store.write() as writing:
            everyone = _standings(writing)
            mine = next((one for one in everyone if one.sync_id == sync_id), None)
            if mine is None:
                return
            values = {"tag": mine.after(seconds).tag, "waits_since": None, "counts_until": None}
            writing.execute(update(turns).where(turns.c.sync_id == sync_id).values(values))
            self._grant(writing, [one for one in everyone if one.sync_id != sync_id])

    def leave(self, sync_id: int) -> None:
        """Take no part any more, and hand on the turn, if it was held; may be called again."""
        with self._store.write() as writing:
            writing.execute(delete(turns).where(turns.c.sync_id == sync_id))
            self._grant(writing, _standings(writing))

    def _living(self, writing: Writing, alive: Callable[[str], bool]) -> list[Standing]:
        """Everyone whose process lives; the others' places are taken away."""
        everyone = _standings(writing)
        dead = [one.source_id for one in everyone if not alive(one.owner)]
        if dead:
            writing.execute(delete(turns).where(turns.c.source_id.in_(dead)))
        return [one for one in everyone if one.source_id not in dead]

    def _grant(self, writing: Writing, everyone: Collection[Standing]) -> set[int]:
        """Give every free turn to the next that waits; the syncs that were given one."""
        chosen = {one.sync_id for one in next_turns(everyone, writing.now, self._cap)}
        if chosen:
            writing.execute(
                update(turns)
                .where(turns.c.sync_id.in_(chosen))
                .values(waits_since=None, counts_until=writing.now + LONG)
            )
        return chosen


def _standings(reading: Reading) -> list[Standing]:
    columns = (sources.c.kind, sources.c.priority, turns)
    return [
        Standing(
            row.source_id,
            row.sync_id,
            row.owner,
            row.kind,
            row.at_once,
            WEIGHT[Priority(row.priority)],
            row.tag,
            row.waits_since,
            row.counts_until,
        )
        for row in reading.execute(select(*columns).join(sources, sources.c.id == turns.c.source_id))
    ]
