"""The health of this home in the Prefect UI, kept up to date by the supervisor beside its own work."""

from __future__ import annotations

import contextlib
import threading
import time

from catchment.errors import TryAgain
from catchment.runtime.home import Home
from deployments.server.running import Running

_WELL_SECONDS = 300.0
_UNWELL_SECONDS = 60.0


class HealthPage:
    """Keeps the artifact `health` up to date, in a thread of its own: a source that hangs delays nothing else."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._due = 0.0
        self._thread: threading.Thread | None = None

    def turn(self, state: Running) -> None:
        """Refresh the page if five minutes have passed, or one while something is wrong; returns at once."""
        if time.monotonic() < self._due or (self._thread and self._thread.is_alive()):
            return
        self._due = time.monotonic() + _UNWELL_SECONDS
        self._thread = threading.Thread(target=self._refresh, args=(state,), daemon=True)
        self._thread.start()

    def _refresh(self, state: Running) -> None:
        # Loaded here: the start of the system need not wait for it.
        from catchment.status import Verdict, worst
        from deployments.health.checks import examine, publish

        # A server that is down shows nothing; the next turn finds it up again.
        with contextlib.suppress(TryAgain):
            findings = examine(self._home)
            publish(state, findings)
            if worst(findings) is Verdict.OK:
                self._due = time.monotonic() + _WELL_SECONDS
