"""Periodic maintenance by the supervisor: kills stopped processes, and shrinks Prefect's database."""

from __future__ import annotations

import os
import time

import psutil

from catchment.runtime.home import Home
from deployments.server.prefect_database import shrink
from deployments.server.processes import descendants, has_status, kill

_SECONDS = 30.0
_SHRINK_SECONDS = 600.0


class Sweep:
    """Kills descendants that are stopped (SIGSTOP), and returns free space of Prefect's database to the disk."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._due = time.monotonic() + _SECONDS
        self._shrink_due = self._due
        self._stopped: set[psutil.Process] = set()

    def run_if_due(self) -> None:
        """Run the maintenance that is due, at most every half minute."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _SECONDS
        self._kill_stopped()
        if now >= self._shrink_due:
            self._shrink_due = now + _SHRINK_SECONDS
            shrink(self._home)

    def _kill_stopped(self) -> None:
        """Kill the processes that were stopped at the last check and still are: other processes wait for their locks."""
        stopped = {process for process in descendants(os.getpid()) if has_status(process, psutil.STATUS_STOPPED)}
        kill(stopped & self._stopped)
        self._stopped = stopped
