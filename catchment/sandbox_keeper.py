"""The near side of the sandbox: one thread hands out tasks, takes outcomes, enforces limits and buries the dead.

It owns all sockets and needs no lock: other threads leave orders in a queue and take outcomes from another.
"""

from __future__ import annotations

import contextlib
import math
import pickle
import queue
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable

from catchment import sandbox_worker as far
from catchment.errors import CatchmentError, ProcessKilled, TryAgain, Unexpected
from catchment.sandbox_run import Failed, Run, Worker, death, timed_out, too_big
from catchment.sandbox_server import EXITED, NO_PRELOAD, ForkServer

CLOSED = "the parser processes were stopped; run it again"
_NO_START = "no parser process can be started; free some memory or raise the limit of processes, then run it again"
_AHEAD_SECONDS = 0.05
"""How much work lies before a worker: enough that it never waits for us, little enough to share out evenly."""
_GROUP_TASKS = 512
_GROUP_BYTES = 1 << 20
_SHORTEST_NAP, _LONGEST_NAP = 0.000_1, 0.008
_CROWD_BYTES = 1 << 17
"""A worker with so much to say was near having to wait with its next task until we listen."""
_WATCH_SECONDS = 0.1
_START_SECONDS = 60
_VAIN_STARTS = 3
STARTING_SECONDS = _START_SECONDS * _VAIN_STARTS
"""Until a sandbox in which no process starts says so."""


class Keeper(threading.Thread):
    """Hands out tasks, takes outcomes, enforces limits, buries the dead; ends with `stop`."""

    def __init__(self, size: int, preload: tuple[str, ...]) -> None:
        super().__init__(name="sandbox", daemon=True)
        self._size = size
        self._preload = preload
        self._orders: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._ear, self._bell = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._ear, selectors.EVENT_READ, self._obey)
        self._runs: deque[Run] = deque()
        self._workers: dict[int, Worker] = {}
        self._server: ForkServer | None = None
        self._count = 0
        self._vain = 0
        self._watched = 0.0
        self._nap = _SHORTEST_NAP
        self._crowded = False
        self._open = True

    def submit(self, run: Run) -> None:
        """Take on a run; its outcomes, or the error that ends it, appear in its outbox."""
        self._ask(lambda: self._runs.append(run))

    def cancel(self, run: Run) -> None:
        """Forget a run and stop what is running of it."""
        self._ask(lambda: self._drop(run))

    def stop(self) -> None:
        """End every run with TryAgain, stop all processes, and return when they are gone."""
        self._ask(self._shut)
        self.join()

    def _ask(self, order: Callable[[], None]) -> None:
        self._orders.put(order)
        with contextlib.suppress(OSError):  # it has ended: there is nothing left to cancel or to stop
            self._bell.send(b"!")

    def run(self) -> None:
        """The loop of the thread."""
        try:
            while self._open:
                self._go_round()
        finally:  # even if it ends by a defect, nobody must wait for ever
            self._ear.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                self._obey(0)
            self._end_runs(TryAgain(CLOSED))
            self._lose_server()
            self._selector.close()
            self._ear.close()
            self._bell.close()

    def _go_round(self) -> None:
        self._hand_out()
        busy = False
        for key, events in self._selector.select(self._patience()):
            busy |= key.fileobj is not self._ear
            key.data(events)
        self._enforce()
        for run in self._runs:
            run.flush()
        self._runs = deque(run for run in self._runs if run.open and not run.cancelled)
        if busy and self._open:
            self._rest()

    def _rest(self) -> None:
        """Wait a moment, so that one waking serves many outcomes, but never so long that a worker has to."""
        self._nap = max(self._nap / 2, _SHORTEST_NAP) if self._crowded else min(self._nap * 1.2, _LONGEST_NAP)
        self._crowded = False
        ahead = [len(worker.queue) * worker.queue[0][0].pace for worker in self._workers.values() if worker.queue]
        time.sleep(min(self._nap, min(ahead, default=0) / 2))

    def _patience(self) -> float | None:
        if any(worker.queue for worker in self._workers.values()):
            return _WATCH_SECONDS
        return _WATCH_SECONDS / 10 if any(run.waiting for run in self._runs) else None

    def _obey(self, _events: int) -> None:
        self._ear.recv(4_096)
        while not self._orders.empty():
            self._orders.get()()

    def _shut(self) -> None:
        self._open = False

    def _drop(self, run: Run) -> None:
        run.cancelled = True
        run.waiting.clear()

    def _end_runs(self, error: CatchmentError) -> None:
        for run in self._runs:
            run.flush()
            self._drop(run)
            run.outbox.put(error)

    def _hand_out(self) -> None:
        waiting = sum(len(run.waiting) for run in self._runs if run.has_room())
        if not waiting:
            return
        able = sorted((w for w in self._workers.values() if w.usable), key=lambda w: len(w.queue))
        idle = sum(not worker.queue for worker in able)
        for _ in range(min(self._size - len(self._workers), waiting - idle)):
            if self._vain < _VAIN_STARTS or not self._workers:
                able[:0] = self._spawn()
        for worker in able:
            self._fill(worker)

    def _spawn(self) -> list[Worker]:
        """One more worker, or none if the system does not give one."""
        try:
            if self._server is None:
                self._server = ForkServer.start(self._preload)
                self._selector.register(self._server.control, selectors.EVENT_READ, self._listen)
            connection = self._server.spawn(self._count + 1)
        except OSError:
            self._start_was_vain()
            return []
        self._count += 1
        worker = self._workers[self._count] = Worker(self._count, connection)
        self._selector.register(connection, selectors.EVENT_READ, lambda events: self._exchange(worker, events))
        return [worker]

    def _start_was_vain(self) -> None:
        self._vain += 1
        if self._vain >= _VAIN_STARTS and not self._workers:
            self._vain = 0
            self._end_runs(TryAgain(_NO_START))

    def _fill(self, worker: Worker) -> None:
        run = self._next_run()
        if run is None:
            return
        ahead = min(max(int(_AHEAD_SECONDS / run.pace), 2), _GROUP_TASKS)
        if worker.queue and (len(worker.queue) > ahead // 2 or len(run.waiting) <= self._size):
            return
        fair = math.ceil(len(run.waiting) / (2 * self._size))
        group = self._group(worker, run, min(ahead - len(worker.queue), fair))
        if group:
            message = pickle.dumps((run.function, run.limits.memory_mb, group), pickle.HIGHEST_PROTOCOL)
            worker.unsent += far.LENGTH.pack(len(message))
            worker.unsent += message
            self._send(worker)

    def _next_run(self) -> Run | None:
        for _ in range(len(self._runs)):
            self._runs.rotate(-1)
            if self._runs[-1].waiting and self._runs[-1].has_room():
                return self._runs[-1]
        return None

    def _group(self, worker: Worker, run: Run, count: int) -> list[bytes]:
        group: list[bytes] = []
        size = 0
        while run.waiting and len(group) < count and size < _GROUP_BYTES:
            index = run.waiting.popleft()
            try:
                task = pickle.dumps(run.tasks[index], pickle.HIGHEST_PROTOCOL)
            except Exception as error:  # noqa: BLE001 - a task that cannot be sent is its own failure, not the run's
                run.put(index, Failed(Unexpected.of(error), ""))
                continue
            if not worker.queue:
                worker.touch()
            worker.queue.append((run, index))
            group.append(task)
            size += len(task)
        return group

    def _exchange(self, worker: Worker, events: int) -> None:
        if worker.number not in self._workers:  # buried by an earlier event of the same round
            return
        if events & selectors.EVENT_WRITE:
            self._send(worker)
        if events & selectors.EVENT_READ:
            self._receive(worker)

    def _send(self, worker: Worker) -> None:
        try:
            sent = worker.connection.send(worker.unsent)
            del worker.unsent[:sent]
        except BlockingIOError:
            pass
        except ConnectionError:  # it is dead or dying; news of its end will come
            worker.unsent.clear()
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if worker.unsent else 0)
        key = self._selector.get_map().get(worker.connection)
        if key is not None and key.events != wanted:
            self._selector.modify(worker.connection, wanted, key.data)

    def _receive(self, worker: Worker) -> bool:
        """Take what a worker has said so far; False when there is nothing more to come, now or ever."""
        try:
            data = worker.connection.recv(1 << 20)
        except BlockingIOError:
            return False
        except ConnectionError:
            data = b""
        if not data:
            self._hang_up(worker)
            return False
        self._crowded |= len(data) > _CROWD_BYTES
        worker.inbox += data
        worker.moved = time.monotonic()
        at = 0
        while len(worker.inbox) - at >= far.FRAME.size:
            kind, seconds, length = far.FRAME.unpack_from(worker.inbox, at)
            start, end = at + far.FRAME.size, at + far.FRAME.size + length
            if kind not in far.KINDS or length > far.MAX_RESULT + 65_536:
                self._condemn(worker, ProcessKilled("it garbled its parser process's connection; leave the file out"))
                worker.inbox.clear()
                return False
            if end > len(worker.inbox):
                break
            with memoryview(worker.inbox) as view:
                payload = bytes(view[start:end])
            self._take(worker, kind, seconds, payload)
            at = end
        del worker.inbox[:at]
        return True

    def _take(self, worker: Worker, kind: bytes, seconds: float, payload: bytes) -> None:
        if kind in (far.RESULT, far.ERROR) and worker.queue:
            run, index = worker.queue.popleft()
            run.pace += (max(seconds, 1e-6) - run.pace) / 10
            run.put(index, payload, ok=kind == far.RESULT)
            worker.touch()
        elif kind == far.PROGRESS and worker.queue:
            worker.queue[0][0].outbox.put([])
        elif kind == far.READY:
            worker.pid, worker.held = far.HELLO.unpack(payload)
            worker.touch()
            self._vain = 0
        elif kind == far.LEAVING:
            worker.usable, worker.leaving = False, True

    def _hang_up(self, worker: Worker) -> None:
        """Its connection is closed. Usually it is dying; if it lives on, the time limit of its task ends it."""
        worker.usable = False
        self._selector.unregister(worker.connection)
        if not worker.queue:
            self._kill(worker)

    def _enforce(self) -> None:
        now = time.monotonic()
        watch = now - self._watched > _WATCH_SECONDS
        if watch:
            self._watched = now
        for worker in self._workers.values():
            if not worker.queue or worker.condemned:
                continue
            run = worker.queue[0][0]
            limits = run.limits
            if not worker.pid:
                if now - worker.began > _START_SECONDS:
                    self._kill(worker)
            elif run.cancelled:
                self._condemn(worker, ProcessKilled("its run was stopped"))
            elif now - worker.moved > limits.stall_seconds:
                self._condemn(worker, timed_out("stall_seconds", limits.stall_seconds))
            elif now - worker.began > limits.total_seconds:
                self._condemn(worker, timed_out("total_seconds", limits.total_seconds))
            elif watch and worker.growth() > limits.memory_mb << 20:
                self._condemn(worker, too_big(limits))

    def _condemn(self, worker: Worker, verdict: CatchmentError) -> None:
        worker.usable = False
        if worker.queue:
            worker.condemned, worker.verdict = worker.queue[0], verdict
        self._kill(worker)

    def _kill(self, worker: Worker) -> None:
        if self._server is not None:
            with contextlib.suppress(OSError):  # a server that is gone took its workers along
                self._server.kill(worker.number)

    def _listen(self, _events: int) -> None:
        assert self._server is not None
        for news, number, status, out_of_memory in self._server.news():
            if news == EXITED:
                self._bury(self._workers[number], status, out_of_memory=out_of_memory)
            elif news == NO_PRELOAD:
                name = self._preload[number]
                self._end_runs(Unexpected(f"the parser process cannot import {name}; install the program anew"))
        if self._server.is_lost:
            self._lose_server()
            self._start_was_vain()

    def _bury(self, worker: Worker, status: int | None, *, out_of_memory: bool = False) -> None:
        while worker.connection in self._selector.get_map() and self._receive(worker):
            pass
        del self._workers[worker.number]
        if worker.connection in self._selector.get_map():
            self._selector.unregister(worker.connection)
        worker.connection.close()
        if not worker.pid:
            if status is not None:
                self._start_was_vain()
        elif worker.queue and worker.condemned in (worker.queue[0], None) and not worker.leaving:
            run, index = worker.queue.popleft()
            error = worker.verdict if worker.condemned else death(status, run.limits, out_of_memory=out_of_memory)
            run.put(index, Failed(error, ""))
        for run, index in reversed(worker.queue):
            if not run.cancelled:
                run.waiting.appendleft(index)

    def _lose_server(self) -> None:
        """Stop the server if it still lives; every worker dies with it."""
        if self._server is not None:
            self._selector.unregister(self._server.control)
            self._server.stop()
            self._server = None
        for worker in list(self._workers.values()):
            self._bury(worker, None)
