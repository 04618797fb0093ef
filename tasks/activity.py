"""What the syncs of this process are doing: the current step of each, for heartbeats, blame and stuck runs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

R = TypeVar("R")


class CountingExecutor(ThreadPoolExecutor):
    """An executor that knows how many of its calls have not returned."""

    def __init__(self, threads: int, name: str) -> None:
        super().__init__(threads, thread_name_prefix=name)
        self._open_calls: set[Future[Any]] = set()

    def submit(self, call: Callable[..., R], /, *arguments: Any, **named: Any) -> Future[R]:
        """As in the base class."""
        future = super().submit(call, *arguments, **named)
        self._open_calls.add(future)
        future.add_done_callback(self._open_calls.discard)
        return future

    @property
    def busy(self) -> int:
        """Calls that have begun and not returned."""
        return sum(future.running() for future in list(self._open_calls))


@dataclass(frozen=True, slots=True)
class SyncStatus:
    """A sync at one moment. `seconds` is the age of its current step, 0 between steps."""

    run: str
    source: str
    step: str
    seconds: float
    is_stuck: bool


class Steps:
    """The steps that a sync runs at the moment. For one event loop."""

    def __init__(self) -> None:
        self._running: dict[int, tuple[str, float]] = {}
        self._numbers = itertools.count()

    @contextmanager
    def running(self, name: str) -> Iterator[None]:
        """Record that a step of this name runs."""
        number = next(self._numbers)
        self._running[number] = name, time.monotonic()
        try:
            yield
        finally:
            del self._running[number]

    def longest(self) -> tuple[str, float]:
        """The step that has been running longest, and for how many seconds; an empty name between steps."""
        if not self._running:
            return "", 0.0
        name, since = min(self._running.values(), key=lambda step: step[1])
        return name, time.monotonic() - since
