"""What the syncs of this process are doing: the current step of each, for heartbeats, blame and stuck runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
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
class Status:
    """A sync at one moment. `seconds` is the age of its current step, 0 between steps."""

    run: str
    source: str
    step: str
    seconds: float
    is_stuck: bool


@dataclass(slots=True, eq=False)
class Activity:
    """The steps of one sync. Thread-safe."""

    run: str
    source: str
    is_overdue: Callable[[], bool]
    _steps: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Record that a step of this name runs."""
        with _lock:
            self._steps[name] = time.monotonic()
        try:
            yield
        finally:
            with _lock:
                self._steps.pop(name, None)

    def status(self) -> Status:
        """The step that has been running longest."""
        with _lock:
            oldest = min(self._steps.items(), key=lambda step: step[1], default=("", time.monotonic()))
        return Status(self.run, self.source, oldest[0], time.monotonic() - oldest[1], self.is_overdue())


_lock = threading.Lock()
_activities: set[Activity] = set()


@contextmanager
def recorded(activity: Activity) -> Iterator[Activity]:
    """Include the activity in `statuses` during the block."""
    _activities.add(activity)
    try:
        yield activity
    finally:
        _activities.discard(activity)


def statuses() -> list[Status]:
    """The current status of every sync that a flow run executes."""
    return [activity.status() for activity in list(_activities) if activity.run]
