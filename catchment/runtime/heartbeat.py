"""The heartbeat of a sync: a deadline that moves forward as long as the sync makes progress.

A sync that hangs (in a lock, or in a call that never returns) holds its jobs and looks alive in every other way. The runner
reads the deadline and stops the sync when it has passed.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class ProgressDeadline:
    """A deadline that every beat moves forward. Thread-safe.

    Args:
        timeout: Seconds allowed between two beats.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._lock = threading.Lock()
        self._extensions: list[float] = []
        self._deadline = math.inf

    def beat(self) -> None:
        """Record progress and move the deadline."""
        with self._lock:
            self._deadline = time.monotonic() + max(self._timeout, *self._extensions, 0.0)

    @contextmanager
    def allow(self, seconds: float) -> Iterator[None]:
        """Allow at least `seconds` between two beats for the duration of the block."""
        with self._lock:
            self._extensions.append(seconds)
        self.beat()
        try:
            yield
        finally:
            with self._lock:
                self._extensions.remove(seconds)
            self.beat()

    def is_overdue(self) -> bool:
        """Whether the deadline has passed. A sync that has never beaten is not overdue."""
        return time.monotonic() > self._deadline
