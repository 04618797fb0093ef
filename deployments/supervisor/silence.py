"""Detection of an unresponsive server by periodic health checks."""

from __future__ import annotations

import time
from collections.abc import Callable

_INTERVAL_SECONDS = 5.0
_FAILURES = 9
"""Failed checks in a row. On a busy machine a healthy server may fail fewer than this."""


class Silence:
    """Consecutive failures of a server's health check. `answers` runs the check; `clock` returns monotonic seconds."""

    def __init__(self, answers: Callable[[], bool], clock: Callable[[], float] = time.monotonic) -> None:
        self._answers = answers
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Reset the count, after the server answered or was restarted."""
        self._failures = 0
        self._due = self._clock() + _INTERVAL_SECONDS

    def is_long(self) -> bool:
        """Whether the server failed too many checks in a row. Runs the next check when it is due."""
        if self._clock() >= self._due:
            failures = self._failures + 1
            self.reset()
            self._failures = 0 if self._answers() else failures
        return self._failures >= _FAILURES
