"""A process's share of the few transfers that a host takes at once: taken for a transfer, handed on between its threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from catchment.errors import LedgerUnavailable, RateLimited
from catchment.pacing.limits import HostLimits

PATIENCE = 120.0
"""After so many seconds without a place, the transfer is left to a later sync."""
_POLL = 0.03
_LOOK = 0.5
"""After so many seconds of use, whether others wait is looked at between two transfers."""


class Slots(Protocol):
    """The places of all hosts, shared by all processes; a ticket stands for a place, or for the wish for one."""

    def ask(self, limits: HostLimits, source: str, owner: str) -> tuple[int, bool]:
        """A ticket for a place at the host for this source, and whether it has its place already."""
        ...

    def granted(self, ticket: int) -> bool:
        """Whether the place has come."""
        ...

    def wanted(self, host: str) -> bool:
        """Whether anybody waits."""
        ...

    def release(self, ticket: int) -> None:
        """Give up a place, or the wish for one; may be called again."""
        ...


class HostPlaces:
    """The places of one host that this process has, for all its threads."""

    def __init__(self, slots: Slots, limits: HostLimits, source: str, owner: str, clock: Callable[[], float]) -> None:
        self._slots = slots
        self._limits = limits
        self._source = source
        self._owner = owner
        self._clock = clock
        self._changed = threading.Condition()
        self._free: list[int] = []
        """Places on their way from one thread to another."""
        self._looked: dict[int, float] = {}
        """When it was last looked who else wants a place, by the place that was used since."""
        self._pending: int | None = None
        self._polled = 0.0
        self._waiting = 0

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Hold a place for the length of the block; waits for one. Raises RateLimited when none comes for minutes."""
        ticket = self._enter()
        try:
            yield
        finally:
            self._leave(ticket)

    def close(self) -> None:
        """Give back all places that are not in use; may be called again."""
        with self._changed:
            self._release()
            self._withdraw()

    def _enter(self) -> int:
        deadline = self._clock() + PATIENCE
        with self._changed:
            self._waiting += 1
            try:
                while (ticket := self._found()) is None:
                    if self._clock() > deadline:
                        raise RateLimited(self._limits.host, PATIENCE)
                    self._changed.wait(_POLL)
                return ticket
            finally:
                self._waiting -= 1
                if not self._waiting:
                    self._withdraw()
                    self._release()

    def _found(self) -> int | None:
        """A place to use now: one of ours that is free, or the one that was asked for."""
        if self._free:
            return self._free.pop()
        if self._pending is None:
            self._pending, has_it = self._slots.ask(self._limits, self._source, self._owner)
        elif self._clock() - self._polled < _POLL:
            return None
        else:
            has_it = self._slots.granted(self._pending)
        self._polled = self._clock()
        if not has_it:
            return None
        ticket, self._pending = self._pending, None
        self._looked[ticket] = self._clock()
        return ticket

    def _leave(self, ticket: int) -> None:
        """Hand the place to a thread that waits here, unless other processes wait and have done so for a while."""
        with self._changed:
            now = self._clock()
            self._free.append(ticket)
            if not self._waiting:
                self._release()
            elif now - self._looked[ticket] > _LOOK:
                self._looked[ticket] = now
                # A place that cannot be given back now is handed on.
                with suppress(LedgerUnavailable):
                    if self._slots.wanted(self._limits.host):
                        self._give_back(ticket)
            self._changed.notify()

    def _release(self) -> None:
        # One that cannot be written now serves the next transfer; after the end it is seen to be a dead process's.
        with suppress(LedgerUnavailable):
            for ticket in list(self._free):
                self._give_back(ticket)

    def _give_back(self, ticket: int) -> None:
        self._slots.release(ticket)
        self._free.remove(ticket)
        del self._looked[ticket]

    def _withdraw(self) -> None:
        if self._pending is not None:
            ticket, self._pending = self._pending, None
            with suppress(LedgerUnavailable):
                self._slots.release(ticket)
