"""The work of the flow runs of this process: how to stop it, its steps for heartbeats and stuck runs, and abandoned threads."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

R = TypeVar("R")


class CountingExecutor(ThreadPoolExecutor):
    """A thread pool that counts its unfinished calls."""

    def __init__(self, threads: int, name: str) -> None:
        super().__init__(threads, thread_name_prefix=name)
        self._open_calls: set[Future[Any]] = set()

    def submit(self, call: Callable[..., R], /, *arguments: Any, **named: Any) -> Future[R]:
        """Submit a call, as the base class does."""
        future = super().submit(call, *arguments, **named)
        self._open_calls.add(future)
        # A method, so that a call that never returns keeps this pool, which is counted.
        future.add_done_callback(self._returned)
        return future

    def _returned(self, future: Future[Any]) -> None:
        self._open_calls.discard(future)

    @property
    def busy(self) -> int:
        """Number of calls that are executing."""
        return sum(future.running() for future in list(self._open_calls))


@dataclass(frozen=True, slots=True)
class ActivityStatus:
    """A flow run at one moment. `step` is empty between steps. `is_stuck`: it made no progress within its time limit."""

    run: str
    step: str
    is_stuck: bool


class Steps:
    """The steps that a sync is executing. For one event loop."""

    def __init__(self) -> None:
        self._running: dict[int, str] = {}
        self._numbers = itertools.count()

    @contextmanager
    def running(self, name: str) -> Iterator[None]:
        """Record a step of this name for the duration of the block."""
        number = next(self._numbers)
        self._running[number] = name
        try:
            yield
        finally:
            del self._running[number]

    @property
    def oldest(self) -> str:
        """The step that has been executing longest; empty between steps."""
        return next(iter(self._running.values()), "")


@dataclass(eq=False, slots=True)
class Activity:
    """The work of one flow run. All calls are made on the flow's event loop.

    `run`: the ID of the flow run; None outside a flow run. `stopped`: why the work was stopped; empty if it was not.
    """

    run: str | None
    stopped: str = ""

    def status(self) -> ActivityStatus:
        """Return the current step, and whether it exceeded its time limit. Between steps, no lost runner is blamed on it."""
        return ActivityStatus(str(self.run), "", is_stuck=False)

    def stop(self, reason: str) -> None:
        """Request the work to stop, so that the flow returns `Cancelled`. Does not wait. Idempotent."""
        self.stopped = self.stopped or reason


_activities: list[Activity] = []


@contextmanager
def registered(activity: Activity) -> Iterator[None]:
    """Register the work of a flow run for the duration of the block."""
    _activities.append(activity)
    try:
        yield
    finally:
        _activities.remove(activity)


def statuses() -> list[ActivityStatus]:
    """Return the status of each registered flow run."""
    return [activity.status() for activity in list(_activities) if activity.run is not None]


def stop(flow_run_id: UUID | str, reason: str = "the run was cancelled") -> bool:
    """Stop the work of a flow run, which then ends `Cancelled`. Returns whether it is registered here. Does not wait."""
    activities = [activity for activity in _activities if activity.run == str(flow_run_id)]
    for activity in activities:
        activity.stop(reason)
    return bool(activities)
