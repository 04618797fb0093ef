"""The growing pause before a process or thread that died is started again: shared by all that restart something."""

from __future__ import annotations

import time
from collections.abc import Callable

_FIRST_SECONDS, _LAST_SECONDS = 1.0, 60.0
_HEALTHY_SECONDS = 60.0
"""Duration of a life after which the next death is the first again."""


class RestartPause:
    """A pause that doubles with each short life, from 1 s to 60 s. `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.started = 0.0
        """Time of the latest start; 0 before the first."""
        self.seconds = 0.0
        """The latest pause."""
        self._due = 0.0

    def begin(self) -> None:
        """Record a start."""
        self.started = self._clock()

    def died(self) -> float:
        """Record an exit or a failed start. Returns the seconds until the next start is due."""
        now = self._clock()
        is_first = now - self.started > _HEALTHY_SECONDS
        self.seconds = _FIRST_SECONDS if is_first else min(max(2 * self.seconds, _FIRST_SECONDS), _LAST_SECONDS)
        self._due = now + self.seconds
        return self.seconds

    @property
    def left(self) -> float:
        """The seconds until the next start is due; 0 if it is."""
        return max(0.0, self._due - self._clock())

    @property
    def is_growing(self) -> bool:
        """Whether several lives in a row were short, and none has been long enough since."""
        return self.seconds > _FIRST_SECONDS and self._clock() < max(self._due, self.started) + _HEALTHY_SECONDS
