"""The turn of one sync within its process: each step of its work is done while the turn is held, and waits else.

A thread of its own keeps the turn: it learns when the turn has come, counts what it was used for, and gives way to others
between two steps. Who is alone keeps the turn, is charged nothing, and pays for a look at a small table twice a second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from catchment.errors import LedgerError, LedgerUnavailable, StaleLease
from catchment.ledger import Sync
from catchment.ledger.limits.turns import Standing, Turns
from catchment.runtime import process
from catchment.runtime.heartbeat import Pulse

_LOOK_SECONDS = 0.5
"""Between two looks at who else wants to work."""
_POLL_SECONDS = 0.05
"""Between two looks whether the turn has come."""
_WAIT_SECONDS = 3_600.0
"""For so long others may keep a source waiting before it counts as stuck."""
_ACCOUNT_SECONDS = 1.0
"""What a source is granted at least before it has to give way, unless it does nothing."""


class Turn:
    """May be taken by several threads at once: a sync that has its turn works as it likes."""

    def __init__(self, turns: Turns, sync: Sync, at_once: int, pulse: Pulse) -> None:
        self._turns = turns
        self._pulse = pulse
        self._sync = sync
        self._at_once = at_once
        self._owner = process.identity()
        self._changed = threading.Condition()
        self._keeper: threading.Thread | None = None
        self._asked = self._held = self._gives_way = self._closed = False
        self._broken: LedgerError | None = None
        self._at_work = 0
        self._moved = False
        self._counted_to = 0.0

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Do something while it is this source's turn; waits until it is. Raises LedgerError, StaleLease when closed."""
        with self._changed, self._pulse.patient(_WAIT_SECONDS):
            while not self._held or self._gives_way:
                self._wait()
            self._at_work += 1
            self._moved = True
        try:
            yield
        finally:
            self._stepped()

    def alone(self) -> bool:
        """Whether no other source works or waits to at the moment."""
        return not any(one.active and process.alive(one.owner) for one in self._others())

    def close(self) -> None:
        """Take no part any more; who waits for the turn gets StaleLease. May be called again."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._keeper is not None:
            self._keeper.join()
            self._keeper = None
            # When it cannot be written, the others see that this process is gone.
            with suppress(LedgerUnavailable):
                self._turns.leave(self._sync.id)

    def _stepped(self) -> None:
        with self._changed:
            self._at_work -= 1
            self._moved = True
            if self._gives_way:
                self._changed.notify_all()

    def _wait(self) -> None:
        if self._broken is not None:
            raise self._broken
        if self._closed:
            raise StaleLease("The sync is ending; what it did not do waits for the next one")
        if self._held or self._asked:
            self._changed.wait()
            return
        sync = self._sync
        has_it = self._turns.ask(sync.source_id, sync.id, owner=self._owner, at_once=self._at_once, alive=process.alive)
        self._asked = True
        if has_it:
            self._hold()
        if self._keeper is None:
            self._keeper = threading.Thread(target=self._keep, name="turn", daemon=True)
            self._keeper.start()
        else:
            self._changed.notify_all()

    def _hold(self) -> None:
        self._asked, self._held, self._gives_way = False, True, False
        self._counted_to = time.monotonic()
        self._changed.notify_all()

    def _keep(self) -> None:
        with self._changed:
            while not self._closed:
                self._changed.wait(_POLL_SECONDS if self._asked else _LOOK_SECONDS)
                try:
                    self._look()
                except LedgerUnavailable:
                    # It is looked at again soon.
                    continue
                except LedgerError as error:
                    self._broken = error
                    self._changed.notify_all()
                    return

    def _look(self) -> None:
        if self._asked:
            if self._turns.granted(self._sync.id, process.alive):
                self._hold()
            return
        if not self._held:
            return
        others = [one for one in self._others() if one.active]
        seconds = time.monotonic() - self._counted_to
        if not self._at_work and (self._gives_way or any(not one.held for one in others)):
            self._turns.release(self._sync.id, seconds)
            self._held = self._gives_way = False
            self._changed.notify_all()
        elif not others:
            self._counted_to += seconds
        elif seconds >= _ACCOUNT_SECONDS:
            self._gives_way = self._turns.account(self._sync.id, seconds, moved=self._moved)
            # Who waits for the turn to be given away and asked for anew goes on at once where it is kept after all.
            self._changed.notify_all()
            self._counted_to += seconds
            self._moved = False

    def _others(self) -> list[Standing]:
        return [one for one in self._turns.standings() if one.sync_id != self._sync.id]
