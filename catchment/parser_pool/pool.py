"""Distribute the tasks of several callers over parser processes; each process has a thread of this program that feeds it.

Guarantee. Each task has exactly one outcome, and a finished task is never run again. A process reports an outcome before it
begins its next task. So when it dies, the first task without an outcome is the one it was working on: that task has failed,
and those behind it run elsewhere. Only where a process is stopped over a limit in the very moment in which it moves on to
its next task may that next task be begun twice.
"""

from __future__ import annotations

import math
import os
import pickle
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, cast

from catchment.errors import CatchmentError, TryAgain, Unexpected
from catchment.parser_pool.child import Failed
from catchment.parser_pool.parser_process import START_SECONDS, Call, ForkServer, Outcome, Process
from catchment.settings import Limits

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

_CLOSED = "the parser processes were stopped; try again"
_ABANDONED = "the parser was abandoned; try again"
_NO_START = "no parser process can be started; free some memory or raise the process limit, then try again"
_FAILED_STARTS = 3
STARTING_SECONDS = START_SECONDS * _FAILED_STARTS
"""Time until a pool in which no process starts reports it."""
_AHEAD_SECONDS = 0.05
"""How much work a process has queued: enough that it never waits for this program, little enough to share out evenly."""
_GROUP_TASKS = 512
_GROUP_BYTES = 1 << 20
_POLL_SECONDS = 0.1


class ParserPool:
    """Runs functions over many tasks in processes that may crash, hang or use up their memory.

    `size` is the number of processes (default: one per core), `preload` the modules that each process has already imported
    when it starts. Processes start with the first task. Several threads may share a pool: they take turns, group by group.
    Close it, or use it as a context manager.
    """

    def __init__(self, size: int | None = None, *, preload: Sequence[str] = ()) -> None:
        self._size = size or _cores()
        self._server = ForkServer(preload)
        self._changed = threading.Condition()
        """Guards all below and the waiting tasks of each call; notified when there is work, and when the pool closes."""
        self._calls: deque[Call] = deque()
        self._threads: set[threading.Thread] = set()
        self._processes: set[Process] = set()
        self._idle = 0
        self._closed = False

    def start(self) -> None:
        """Start the fork server, if it does not run, so that it is ready at the first task.

        Best called while this program has one thread. Without it, the first task starts the server.
        """
        self._server.start()

    def run(
        self,
        function: Callable[[T], R],
        tasks: Sequence[T],
        limits: Limits,
        heard: Callable[[], None] = lambda: None,
        abandoned: threading.Event | None = None,
    ) -> Iterator[tuple[int, R | Failed]]:
        """Call a module-level function for each task and yield (index, result or Failed) as they complete.

        The work starts when the first outcome is requested. While an outcome is awaited, `heard` is called at each sign of
        life: within `limits.stall_seconds` of the last, once a process works on one of the tasks. A caller that leaves the
        iteration early, or sets `abandoned`, gives up its tasks; a process that does not finish its present one soon is
        killed. Raises TryAgain if the call is abandoned, if the pool is closed meanwhile, or if no process can be started,
        and Unexpected if a preloaded module cannot be imported.
        """
        outcomes = self._outcomes(Call(pickle.dumps(function), tasks, limits), heard, abandoned)
        return cast("Iterator[tuple[int, R | Failed]]", outcomes)

    def call(self, limits: Limits, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a module-level function in a process, and return its result. Raises an ItemError for whatever goes wrong."""
        ((_, outcome),) = self.run(_called, [(function, args, kwargs)], limits)
        if isinstance(outcome, Failed):
            raise outcome.error
        return cast("R", outcome)

    @property
    def busy(self) -> int:
        """Number of processes that work on a task."""
        with self._changed:
            return sum(bool(process.queue) for process in self._processes)

    def close(self) -> None:
        """Kill all processes; calls in progress end with TryAgain. May be called again."""
        with self._changed:
            self._closed = True
            self._end_calls(TryAgain(_CLOSED))
            for process in self._processes:
                process.stop()
            threads = list(self._threads)
            self._changed.notify_all()
        for thread in threads:
            thread.join()
        self._server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # The caller's side

    def _outcomes(
        self, call: Call, heard: Callable[[], None], abandoned: threading.Event | None
    ) -> Iterator[tuple[int, object]]:
        if not call.tasks:
            return
        self._submit(call)
        count = 0
        try:
            while count < len(call.tasks):
                batch = _next_batch(call, abandoned)
                if isinstance(batch, CatchmentError):
                    raise batch
                heard()
                for index, outcome in batch:
                    count += 1
                    yield index, _understood(outcome)
                    call.taken_bytes += len(outcome) if isinstance(outcome, bytes) else 0
        finally:
            with self._changed:
                self._calls.remove(call)
                if count < len(call.tasks):
                    call.waiting.clear()
                    call.abandoned_at = time.monotonic()

    def _submit(self, call: Call) -> None:
        with self._changed:
            if self._closed:
                raise TryAgain(_CLOSED)
            self._calls.append(call)
            for _ in range(min(self._size - len(self._threads), len(call.waiting) - self._idle)):
                thread = threading.Thread(target=self._feed, name="parser pool", daemon=True)
                self._threads.add(thread)
                thread.start()
            self._changed.notify_all()

    # The feeding threads

    def _feed(self) -> None:
        """Start a process whenever there is work for one, feed it until it ends, and requeue tasks that it has not begun."""
        failed_starts = 0
        error: CatchmentError = TryAgain(_CLOSED)
        try:
            while failed_starts < _FAILED_STARTS and self._await_work():
                try:
                    process = Process(self._server)
                except (OSError, EOFError):
                    was_ready = False
                else:
                    with self._changed:
                        self._processes.add(process)
                    self._serve(process)
                    was_ready = process.is_ready
                    if process.missing_module:
                        name = process.missing_module
                        error = Unexpected(f"the parser process cannot import {name}; reinstall Catchment")
                        return
                failed_starts = 0 if was_ready else failed_starts + 1
                if not was_ready:
                    time.sleep(0.05 * failed_starts)
            error = TryAgain(_NO_START)
        finally:
            with self._changed:
                self._threads.discard(threading.current_thread())
                if not self._threads:  # even after a defect, no caller may wait forever
                    self._end_calls(error)

    def _serve(self, process: Process) -> None:
        try:
            while self._fill(process) and process.exchange():
                if returned := process.returned():
                    with self._changed:
                        self._requeue(returned)
        finally:
            remaining = process.close()
            with self._changed:
                self._processes.discard(process)
                self._requeue(remaining)

    def _await_work(self) -> bool:
        """Wait for a call with waiting tasks; False when the pool is closed."""
        with self._changed:
            self._idle += 1
            while not self._closed and not any(call.waiting and call.has_room() for call in self._calls):
                # A caller that has taken outcomes does not notify: this is polled while a call has no room for more.
                self._changed.wait(_POLL_SECONDS if any(call.waiting for call in self._calls) else None)
            self._idle -= 1
            return not self._closed

    def _fill(self, process: Process) -> bool:
        """Give the process more tasks if it has few; False when it is to be given up."""
        if not process.queue and not (process.is_usable and self._await_work()):
            return False
        if process.is_usable:
            with self._changed:
                if self._closed:
                    return False
                call, indexes = self._next_group(process)
            if call is not None:
                self._give(process, call, indexes)
        return True

    def _next_group(self, process: Process) -> tuple[Call | None, list[int]]:
        """The tasks that a process gets next, from the next call in turn. A call that gets nothing keeps its turn."""
        call = next((call for call in self._calls if call.waiting and call.has_room()), None)
        if call is None:
            return None, []
        ahead = min(max(int(_AHEAD_SECONDS / call.pace), 2), _GROUP_TASKS)
        if process.queue and (len(process.queue) > ahead // 2 or len(call.waiting) <= self._size):
            return None, []
        self._calls.remove(call)
        self._calls.append(call)
        fair = math.ceil(len(call.waiting) / (2 * self._size))
        return call, [call.waiting.popleft() for _ in range(min(ahead - len(process.queue), fair))]

    def _give(self, process: Process, call: Call, indexes: Sequence[int]) -> None:
        group: list[tuple[int, bytes]] = []
        size = 0
        for position, index in enumerate(indexes):
            if size >= _GROUP_BYTES:
                with self._changed:
                    self._requeue([(call, index) for index in indexes[position:]])
                break
            try:
                task = pickle.dumps(call.tasks[index], pickle.HIGHEST_PROTOCOL)
            except Exception as error:  # noqa: BLE001 - a task that cannot be pickled fails alone
                call.fail(index, Unexpected.of(error))
                continue
            group.append((index, task))
            size += len(task)
        if group:
            process.give(call, group)

    def _requeue(self, tasks: Sequence[tuple[Call, int]]) -> None:
        for call, index in reversed(tasks):
            if call.abandoned_at is None:
                call.waiting.appendleft(index)
        self._changed.notify_all()

    def _end_calls(self, error: CatchmentError) -> None:
        for call in self._calls:
            call.waiting.clear()
            call.outbox.put(error)


def _called(task: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]) -> Any:
    function, arguments, named = task
    return function(*arguments, **named)


def _next_batch(call: Call, abandoned: threading.Event | None) -> list[Outcome] | CatchmentError:
    while True:
        if abandoned is not None and abandoned.is_set():
            raise TryAgain(_ABANDONED)
        try:
            return call.outbox.get(timeout=_POLL_SECONDS if abandoned is not None else None)
        except queue.Empty:
            continue


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _understood(outcome: bytes | Failed) -> object:
    if isinstance(outcome, Failed):
        return outcome
    try:
        return pickle.loads(outcome)
    except Exception as error:  # noqa: BLE001 - a result that cannot be unpickled is the failure of its task only
        return Failed(Unexpected.of(error), "")
