"""Host slots of one process: the concurrent transfers that a host permits, reused by the threads of the process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from catchment.errors import LedgerUnavailable, RateLimited
from catchment.pacing.limits import HostLimits

PATIENCE = 120.0
"""Seconds to wait for a slot before the transfer is left to a later sync."""
_POLL_SECONDS = 0.03
_CHECK_SECONDS = 0.5
"""Seconds of use after which the process checks, between two transfers, whether another process is waiting."""


class Slots(Protocol):
    """The slots of all hosts, shared by all processes. A ticket represents a slot or a place in the queue for one."""

    def ask(self, limits: HostLimits, source: str, owner: str) -> tuple[int, bool]:
        """Request a slot for this source. Return the ticket and whether the slot was granted immediately."""
        ...

    def granted(self, ticket: int) -> bool:
        """Return whether the slot has been granted."""
        ...

    def wanted(self, host: str) -> bool:
        """Return whether another process is waiting for a slot."""
        ...

    def release(self, ticket: int) -> None:
        """Release the slot or cancel the request. Idempotent."""
        ...


class HostSlots:
    """This process's slots at one host, shared by its threads."""

    def __init__(self, slots: Slots, limits: HostLimits, source: str, owner: str, clock: Callable[[], float]) -> None:
        self._slots = slots
        self._limits = limits
        self._source = source
        self._owner = owner
        self._clock = clock
        self._changed = threading.Condition()
        self._free: list[int] = []
        """Slots being passed from one thread to another."""
        self._checked: dict[int, float] = {}
        """Time of the last check for waiting processes, by ticket."""
        self._pending: int | None = None
        self._polled = 0.0
        self._waiting = 0

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Hold a slot for the duration of the block, waiting if necessary. Raises RateLimited after `PATIENCE` seconds."""
        ticket = self._enter()
        try:
            yield
        finally:
            self._leave(ticket)

    def close(self) -> None:
        """Release all unused slots. Idempotent."""
        with self._changed:
            self._release()
            self._withdraw()

    def _enter(self) -> int:
        deadline = self._clock() + PATIENCE
        with self._changed:
            self._waiting += 1
            try:
                while (ticket := self._available()) is None:
                    if self._clock() > deadline:
                        raise RateLimited(self._limits.host, PATIENCE)
                    self._changed.wait(_POLL_SECONDS)
                return ticket
            finally:
                self._waiting -= 1
                if not self._waiting:
                    self._withdraw()
                    self._release()

    def _available(self) -> int | None:
        """Return a slot if one is available: a free slot of this process, or the requested one once granted."""
        if self._free:
            return self._free.pop()
        if self._pending is None:
            self._pending, has_it = self._slots.ask(self._limits, self._source, self._owner)
        elif self._clock() - self._polled < _POLL_SECONDS:
            return None
        else:
            has_it = self._slots.granted(self._pending)
        self._polled = self._clock()
        if not has_it:
            return None
        ticket, self._pending = self._pending, None
        self._checked[ticket] = self._clock()
        return ticket

    def _leave(self, ticket: int) -> None:
        """Pass the slot to a waiting thread, unless it has been in use for a while and another process is waiting."""
        with self._changed:
            now = self._clock()
            self._free.append(ticket)
            if not self._waiting:
                self._release()
            elif now - self._checked[ticket] > _CHECK_SECONDS:
                self._checked[ticket] = now
                # A slot that cannot be released now is reused by this process.
                with suppress(LedgerUnavailable):
                    if self._slots.wanted(self._limits.host):
                        self._give_back(ticket)
            self._changed.notify()

    def _release(self) -> None:
        # A slot that cannot be released now serves the next transfer. After the process exits, others reclaim it.
        with suppress(LedgerUnavailable):
            for ticket in list(self._free):
                self._give_back(ticket)

    def _give_back(self, ticket: int) -> None:
        self._slots.release(ticket)
        self._free.remove(ticket)
        del self._checked[ticket]

    def _withdraw(self) -> None:
        if self._pending is not None:
            ticket, self._pending = self._pending, None
            with suppress(LedgerUnavailable):
                self._slots.release(ticket)
