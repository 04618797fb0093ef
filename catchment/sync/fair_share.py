"""The fair queue of the syncs of one process: it decides which sync does the next step of work.

The rule is deficit round-robin over measured seconds. A round gives each waiting sync a quantum of seconds, weighted by its
priority. A sync with seconds left keeps its slot; without, it moves to the end of the queue. When no waiting sync has seconds
left, the next round begins. Time is charged only while another sync waits. Syncs of other processes are not coordinated.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext

from catchment.errors import StaleLease
from catchment.model import Priority
from catchment.runtime.heartbeat import ProgressDeadline

SLOTS = min(8, os.cpu_count() or 1)
"""How many syncs work at once."""

WEIGHT = {Priority.HIGH: 9, Priority.NORMAL: 3, Priority.LOW: 1}
"""By priority, how much of the machine a source gets beside another."""

SECONDS_PER_WEIGHT = 1 / 3
"""A quantum is this long for each unit of weight: one second at normal priority."""

GAP_SECONDS = 0.1
"""A sync with seconds left keeps its slot this long between two steps, so that a gap does not cost it the quantum."""

STUCK_SECONDS = 10.0
"""A step this old blocks no other sync and is charged no more: it waits for a host, or for a slow item."""

_PATIENCE_SECONDS = 3_600.0
"""How long others may keep a sync waiting before it counts as stuck."""


class Share:
    """The part that one sync takes in the queue. Its threads work together while it has a slot."""

    def __init__(self, queue: FairQueue, kind: str, at_once: int, weight: int) -> None:
        self.kind = kind
        self.at_once = at_once
        self.quantum = weight * SECONDS_PER_WEIGHT
        self.seconds_left = self.quantum
        """Seconds of the round that are left; negative where the last step took longer."""
        self.is_new = True
        """Whether it still has its first quantum; then it precedes the others."""
        self.at_work = 0
        self.holds_until = 0.0
        self._queue = queue

    @contextmanager
    def step(self, deadline: ProgressDeadline | None = None) -> Iterator[None]:
        """Do one step of work; waits for a slot. Raises StaleLease when the share is closed."""
        with nullcontext() if deadline is None else deadline.allow(_PATIENCE_SECONDS):
            self._queue.wait(self)
        try:
            yield
        finally:
            self._queue.end(self)

    def is_alone(self) -> bool:
        """Whether no other sync of the process is open."""
        return self._queue.is_alone(self)

    def close(self) -> None:
        """Leave the queue; steps that wait raise StaleLease. May be called again."""
        self._queue.leave(self)


class FairQueue:
    """The slots of one process and the syncs that share them. `clock` is monotonic, in seconds."""

    def __init__(self, slots: int = SLOTS, clock: Callable[[], float] = time.monotonic) -> None:
        self._slots = slots
        self._clock = clock
        self._changed = threading.Condition()
        self._members: list[Share] = []
        self._waiting: list[Share] = []
        """Members that wait for a slot, longest first."""
        self._settled = clock()

    def join(self, kind: str, at_once: int, priority: Priority) -> Share:
        """Take part from now on. `at_once` is how many sources of the kind may work together."""
        share = Share(self, kind, at_once, WEIGHT[priority])
        with self._changed:
            self._members.append(share)
        return share

    def leave(self, share: Share) -> None:
        """Take part no more."""
        with self._changed:
            self._settle()
            for group in (self._members, self._waiting):
                if share in group:
                    group.remove(share)
            self._changed.notify_all()

    def wait(self, share: Share) -> None:
        """Begin a step as soon as the share may. Raises StaleLease when it has left."""
        with self._changed:
            while not self._begin(share):
                self._changed.wait(self._seconds_until_free())

    def begin(self, share: Share) -> bool:
        """Begin a step if the share may, or put it into the queue. Raises StaleLease when it has left."""
        with self._changed:
            return self._begin(share)

    def end(self, share: Share) -> None:
        """Count a step as done."""
        with self._changed:
            now = self._settle()
            share.at_work -= 1
            share.holds_until = now + self._grace(share)
            self._changed.notify_all()

    def is_alone(self, share: Share) -> bool:
        """Whether no other share takes part."""
        with self._changed:
            return all(member is share for member in self._members)

    def is_idle(self) -> bool:
        """Whether no share has a slot."""
        with self._changed:
            now = self._clock()
            return all(member.holds_until <= now for member in self._members)

    def _begin(self, share: Share) -> bool:
        if share not in self._members:
            raise StaleLease("the sync has ended; the next sync continues")
        now = self._settle()
        # A share in the queue competes even if a round has begun meanwhile: otherwise overlapping steps keep its slot.
        if share in self._waiting or not (share.seconds_left > 0 and share.holds_until > now):
            if share not in self._waiting:
                self._waiting.append(share)
            # Without seconds left it competes for its own slot as if that were free.
            holders = [other for other in self._members if other is not share and other.holds_until > now]
            if share not in self._next(holders):
                return False
        if share in self._waiting:
            self._waiting.remove(share)
        share.at_work += 1
        share.holds_until = now + STUCK_SECONDS
        # Other threads of this sync may proceed, and other syncs may have to wait longer.
        self._changed.notify_all()
        return True

    def _next(self, holders: Collection[Share]) -> list[Share]:
        """Choose the waiting members that get the free slots, in this order; begin rounds as needed."""
        kinds = Counter(share.kind for share in holders)
        waiting = [share for share in self._waiting if share not in holders]
        shares: list[Share] = []
        while len(shares) < self._slots - len(holders):
            # Where sources of a kind differ in `at_once` the least counts: with more, a modest source would starve.
            able = [share for share in waiting if kinds[share.kind] < self._at_once(share.kind)]
            if not able:
                break
            while not (ready := [share for share in able if share.seconds_left > 0]):
                for share in able:
                    share.seconds_left += share.quantum
            first = min(ready, key=lambda share: not share.is_new)
            shares.append(first)
            waiting.remove(first)
            kinds[first.kind] += 1
        return shares

    def _at_once(self, kind: str) -> int:
        return min(share.at_once for share in self._members if share.kind == kind)

    def _settle(self) -> float:
        """Charge the holders for the time since the last change, if a member waited; return the time now."""
        now = self._clock()
        if self._waiting:
            for share in self._members:
                share.seconds_left -= max(0.0, min(now, share.holds_until) - self._settled)
                share.is_new = share.is_new and share.seconds_left > 0
        self._settled = now
        return now

    def _grace(self, share: Share) -> float:
        if share.at_work:
            return STUCK_SECONDS
        return GAP_SECONDS if share.seconds_left > 0 and share not in self._waiting else 0.0

    def _seconds_until_free(self) -> float | None:
        """Seconds until a slot becomes free without the end of a step; None if no slot is held."""
        ends = [share.holds_until for share in self._members if share.holds_until > self._settled]
        return min(ends) - self._settled if ends else None


QUEUE = FairQueue()
"""The queue of this process."""
