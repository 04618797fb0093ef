"""The sandbox: a function over many tasks, in forked processes that may die, hang or swell without harming anyone else.

Guarantee. Each task gets exactly one outcome, and one that has finished is never run again. A worker sends an outcome
before it begins the next task, so when it dies, the first task without an outcome is the one it was at: that one has
failed and is not run again here; those behind it have not begun and run elsewhere. Only where the sandbox itself stops a
worker over its limit in the very moment it moves on to its next task may that next one be begun twice. The sandbox keeps
accidents apart; it is no defence against code that means harm, for tasks run with the rights of the person.

`sandbox_keeper` keeps the books on this side; `sandbox_server` forks, and `sandbox_worker` runs tasks, on the other.
"""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Self, TypeVar, cast

from catchment.errors import CatchmentError, TryAgain, Unexpected
from catchment.sandbox_keeper import CLOSED, STARTING_SECONDS, Keeper
from catchment.sandbox_run import Failed, Run
from catchment.settings import Limits

__all__ = ["STARTING_SECONDS", "Failed", "Sandbox"]

T = TypeVar("T")
R = TypeVar("R")


class Sandbox:
    """Runs a function over many tasks in forked processes that may die, hang or swell without harming anyone else.

    `workers` is how many at once (default: one per core), `preload` the modules that they share ready imported.
    Processes start with the first run. Close it, or use it as a context manager.
    """

    def __init__(self, workers: int | None = None, *, preload: Sequence[str] = ()) -> None:
        self._size = workers or _cores()
        self._preload = tuple(preload)
        self._lock = threading.Lock()
        self._keeper: Keeper | None = None
        self._closed = False

    def run(
        self, function: Callable[[T], R], tasks: Sequence[T], limits: Limits, heard: Callable[[], None] = lambda: None
    ) -> Iterator[tuple[int, R | Failed]]:
        """Call a module-level function for each task and give (index, result or Failed) as they complete.

        `heard` is called for each sign of life while an outcome is waited for: within `limits.stall_seconds` of the last
        one, once a process works on one of the tasks.
        Several threads may do so at once and share the workers fairly. The work starts when the first outcome is asked
        for; leaving the iteration early stops what is still running. Raises TryAgain if the sandbox is closed meanwhile
        or no process can be started, Unexpected if a preloaded module cannot be imported.
        """
        outcomes = self._outcomes(Run(pickle.dumps(function), tasks, limits), heard)
        return cast("Iterator[tuple[int, R | Failed]]", outcomes)

    def close(self) -> None:
        """Stop all processes at once; runs under way end with TryAgain. May be called again."""
        with self._lock:
            self._closed = True
            keeper, self._keeper = self._keeper, None
        if keeper is not None and keeper.is_alive():
            keeper.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _outcomes(self, run: Run, heard: Callable[[], None]) -> Iterator[tuple[int, object]]:
        if not run.tasks:
            return
        keeper = self._submit(run)
        taken = 0
        try:
            while taken < len(run.tasks):
                batch = run.outbox.get()
                if isinstance(batch, CatchmentError):
                    raise batch
                heard()
                for index, outcome, ok in batch:
                    taken += 1
                    yield index, _understand(outcome, ok=ok)
                    run.taken_bytes += len(outcome) if isinstance(outcome, bytes) else 0
        finally:
            if taken < len(run.tasks):
                keeper.cancel(run)

    def _submit(self, run: Run) -> Keeper:
        with self._lock:
            if self._closed:
                raise TryAgain(CLOSED)
            if self._keeper is None or not self._keeper.is_alive():  # a forked process has no thread but its own
                self._keeper = Keeper(self._size, self._preload)
                self._keeper.start()
            self._keeper.submit(run)
            return self._keeper


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _understand(outcome: bytes | Failed, *, ok: bool) -> object:
    if isinstance(outcome, Failed):
        return outcome
    try:
        value = pickle.loads(outcome)
    except Exception as error:  # noqa: BLE001 - a result that cannot be read back is this task's failure, not the run's
        return Failed(Unexpected.of(error), "")
    return value if ok else Failed(*value)
