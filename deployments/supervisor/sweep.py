"""What the supervisor looks after every half minute: runs without a process, processes that stand still, room."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable

import psutil

from catchment.errors import TryAgain
from catchment.runtime.home import Home
from deployments.runs.recovery import GIVEN_UP_AFTER, drop_overdue, resume, settle
from deployments.server.prefect_database import shrink
from deployments.server.running import Running
from deployments.supervisor.processes import descendants, kill

_SECONDS = 30.0
_SOON_SECONDS = 3.0
_SHRINK_SECONDS = 600.0
_LOOK_BACK_SECONDS = 600
"""How old a crash may be to be seen by a sweep; older ones are looked for when the system starts."""


class Sweep:
    """Mends what no longer agrees with the processes that live. `reclaim` has the ledger hand back what the dead hold."""

    def __init__(self, home: Home, announce: Callable[[str], None], reclaim: Callable[[], None]) -> None:
        self._home = home
        self._announce = announce
        self._reclaim = reclaim
        self._due = time.monotonic() + _SECONDS
        self._shrink_due = self._due
        self._stopped: set[psutil.Process] = set()
        self._told: set[str] = set()

    def now_and_then(self, state: Running) -> None:
        """Look once in half a minute; sooner where the server would not be corrected."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _SECONDS
        self._end_stopped()
        # A server that does not answer now is looked after by the supervisor.
        with contextlib.suppress(TryAgain):
            drop_overdue(self._home, state)
            self.settle(state, still_for=_SECONDS)
            self.resume(state, since=_LOOK_BACK_SECONDS)
        if now >= self._shrink_due:
            self._shrink_due = now + _SHRINK_SECONDS
            shrink(self._home)

    def soon(self) -> None:
        """Look at the next opportunity."""
        self._due = time.monotonic()

    def settle(self, state: Running, *, still_for: float = 0) -> None:
        """See `recovery.settle`; the ledger is made to agree."""
        settled = settle(self._home, state, still_for=still_for)
        if settled.refused:
            self._due = time.monotonic() + _SOON_SECONDS
        if settled.corrected:
            self._reclaim()

    def resume(self, state: Running, *, since: float | None = None) -> None:
        """Have the syncs that crashed go on, and say so once for each."""
        crashed = [one for one in resume(state, since=since) if one.run not in self._told]
        for one in crashed:
            self._told.add(one.run)
            self._announce(
                f"the sync of {one.source} crashed; it goes on in a new run"
                if one.resumed
                else f"the sync of {one.source} crashed {GIVEN_UP_AFTER} times in a row; it waits for its schedule, "
                f"or for `catchment sync {one.source}`"
            )
        if crashed:
            self._reclaim()

    def _end_stopped(self) -> None:
        """Kill whatever was stopped (SIGSTOP) at the last look and still is: it holds what others wait for."""
        stopped = {process for process in descendants(os.getpid()) if _is_stopped(process)}
        kill(stopped & self._stopped)
        self._stopped = stopped


def _is_stopped(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return bool(process.status() == psutil.STATUS_STOPPED)
    return False
