"""The progress of long work: the heartbeat of a sync, and reports of how far a step is.

A sync that hangs (in a lock, or in a call that never returns) holds its jobs and looks alive in every other way. The runner
reads the deadline, which moves forward as long as the sync makes progress, and stops the sync when it has passed.

Any module reports its progress; the command line shows it. Without a listener, a report has no effect.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[str, int, int], None]
_listeners: list[Listener] = []


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


def report(what: str, count: int = 0, total: int = 1) -> None:
    """Report a step of long work: `count` of `total` units, in any unit. The step has ended when they are equal."""
    for listener in _listeners:
        listener(what, count, total)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Pass the reports of this process to a listener during the block."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
