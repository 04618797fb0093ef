"""One parser process as its parent sees it: start it, send tasks, receive outcomes, enforce limits, explain its end.

Each process belongs to one thread of the parent, which alone uses it; only `stop` may be called from another thread.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import select
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any

from catchment.errors import CatchmentError, ProcessKilled, ResourceExhausted, TimedOut
from catchment.parser_pool import child
from catchment.parser_pool.child import Failed
from catchment.settings import Limits

START_SECONDS = 60
_CHECK_SECONDS = 0.1
_GRACE_SECONDS = 1.0
"""How long the current task of an abandoned call may still take before its process is killed."""
_UNREAD_BYTES = 32 << 20
"""While more than this waits for a slow caller, its call gets no new tasks."""
_NAP_SECONDS = 0.001
_OUT_OF_MEMORY = (b"memory allocation of", b"MemoryError", b"bad_alloc", b"out of memory", b"Cannot allocate memory")


Outcome = tuple[int, bytes | Failed]
"""The index of a task, and its outcome as the process pickled it, or a failure that the process did not report."""


@dataclass(eq=False, slots=True)
class Call:
    """One call of `ParserPool.run`: the tasks that no process has yet, and the outcomes that the caller has not taken."""

    function: bytes
    tasks: Sequence[Any]
    limits: Limits
    waiting: deque[int] = field(init=False)
    outbox: queue.SimpleQueue[list[Outcome] | CatchmentError] = field(default_factory=queue.SimpleQueue)
    pace: float = 0.01
    """Seconds per task, as a moving average. The first guess is slow, so that the first groups are small."""
    made_bytes: int = 0
    taken_bytes: int = 0
    abandoned_at: float | None = None

    def __post_init__(self) -> None:
        self.waiting = deque(range(len(self.tasks)))

    def has_room(self) -> bool:
        return self.made_bytes - self.taken_bytes <= _UNREAD_BYTES

    def fail(self, index: int, error: CatchmentError) -> None:
        self.outbox.put([(index, Failed(error, ""))])


class ForkServer:
    """The process that forks parser processes: multiprocessing's fork server, one for each pool.

    `multiprocessing.Process` would import the main module of this program into each process, which costs up to a second
    and runs code that need not expect it. So this class sends its own requests to the server.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        self.modules = tuple(modules)
        self._server = forkserver.ForkServer()
        self._server.set_forkserver_preload([child.__name__, *modules])

    def start(self) -> int:
        """Start the server if it does not run, and return its process ID. It imports the modules in the background."""
        resource_tracker.ensure_running()  # it would unblock the signal below
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._server.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return int(vars(self._server)["_forkserver_pid"])

    def fork(self, inherited: Sequence[int]) -> tuple[int, int]:
        """Start a process with these descriptors: its ID, and a descriptor that gives its exit status.

        Raises OSError or EOFError.
        """
        new = child.Child(self.start(), self.modules)
        status, preparation = self._server.connect_to_new_process(inherited)
        try:
            with os.fdopen(preparation, "wb") as file:
                pickle.dump({"sys_path": [str(Path(folder).absolute()) for folder in sys.path]}, file)
                pickle.dump(new, file)
            return forkserver.read_signed(status), status
        except (OSError, EOFError):
            os.close(status)
            raise

    def stop(self) -> None:
        """Kill the server, and with it every process that it forked. May be called again."""
        pid = vars(self._server)["_forkserver_pid"]
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            self._server._stop()  # type: ignore[attr-defined]


class Process:
    """A parser process and the tasks that it was given. It works on the first task of its queue."""

    def __init__(self, server: ForkServer) -> None:
        """Raises OSError or EOFError if no process can be started."""
        self._connection, far = socket.socketpair()
        self._errors, errors = os.pipe()
        try:
            far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)  # as much as the system grants
            self.pid, self._status = server.fork([far.fileno(), errors])
        except (OSError, EOFError):
            self._connection.close()
            os.close(self._errors)
            raise
        finally:
            far.close()
            os.close(errors)
        self._connection.setblocking(False)
        os.set_blocking(self._errors, False)
        self._poll = select.poll()
        for descriptor in (self._connection.fileno(), self._status, self._errors):
            self._poll.register(descriptor, select.POLLIN)
        self.queue: deque[tuple[Call, int]] = deque()
        self.is_ready = False
        self.is_usable = True
        self.missing_module = ""
        self._returned: list[tuple[Call, int]] = []
        self._unsent = bytearray()
        self._received = bytearray()
        self._accepted = 0
        """How many tasks of the queue have reached the process. A process that dies before is not their fault."""
        self._last_words = b""
        self._in_use_at_start = 0
        self._started = self._advanced = self._checked = time.monotonic()
        self._is_connected = True
        self._has_ended = False
        self._exit_code: int | None = None
        self._condemned: tuple[Call, int] | None = None
        self._verdict: CatchmentError | None = None

    def give(self, call: Call, group: Sequence[tuple[int, bytes]]) -> None:
        """Queue pickled tasks of one call, each with its index."""
        if not self.queue:
            self._started = self._advanced = time.monotonic()
        self.queue.extend((call, index) for index, _ in group)
        message = pickle.dumps((call.function, call.limits.memory_mb, [task for _, task in group]), 5)
        self._unsent += child.LENGTH.pack(len(message)) + message
        self._send()

    def exchange(self) -> bool:
        """Wait up to a tenth of a second for a message, deliver outcomes, enforce limits. False once the process has ended."""
        ready = dict(self._poll.poll(_CHECK_SECONDS * 1_000))
        if self._errors in ready:
            self._read_errors()
        if ready.get(self._connection.fileno(), 0) & select.POLLOUT:
            self._send()
        if ready.get(self._connection.fileno(), 0) & ~select.POLLOUT:
            self._receive()
            self._rest()
        if self._status in ready:
            self._end()
        elif time.monotonic() - self._checked > _CHECK_SECONDS:
            self._enforce_limits()
        return not self._has_ended

    def returned(self) -> list[tuple[Call, int]]:
        """The tasks that the process has returned since the last call of this method, without having begun them."""
        returned, self._returned = self._returned, []
        return returned

    def stop(self) -> None:
        """Kill the process and the programs that it started. Any thread may call this method."""
        for kill in (os.killpg, os.kill):  # the group does not exist before the process has made it
            if not self._has_ended:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    kill(self.pid, signal.SIGKILL)

    def close(self) -> list[tuple[Call, int]]:
        """Kill the process, fail the task that ended it, and return the tasks that it has not begun."""
        self.stop()
        while not self._has_ended:
            self.exchange()
        self._connection.close()
        os.close(self._status)
        os.close(self._errors)
        if self.queue and self._condemned is not None:
            if self._condemned is self.queue[0]:
                call, index = self.queue.popleft()
                if self._verdict is not None:
                    call.fail(index, self._verdict)
        elif self.queue and self._accepted and self.is_usable:
            call, index = self.queue.popleft()
            call.fail(index, self._reason_of_death(call.limits))
        return [*self._returned, *self.queue]

    def _send(self) -> None:
        try:
            sent = self._connection.send(self._unsent)
            del self._unsent[:sent]
        except BlockingIOError:
            pass
        except ConnectionError:  # the process is dead or dying; its exit status will arrive
            self._unsent.clear()
        if self._is_connected:
            self._poll.modify(self._connection.fileno(), select.POLLIN | (select.POLLOUT if self._unsent else 0))

    def _receive(self) -> bool:
        """Take the messages that have arrived; False if there are no more at present."""
        try:
            data = self._connection.recv(1 << 20)
        except BlockingIOError:
            return False
        except ConnectionError:
            data = b""
        if not data:
            self._hang_up()
            return False
        self._received += data
        self._advanced = time.monotonic()
        outcomes: dict[Call, list[Outcome]] = {}
        position = 0
        while len(self._received) - position >= child.FRAME.size:
            kind, seconds, length = child.FRAME.unpack_from(self._received, position)
            start, end = position + child.FRAME.size, position + child.FRAME.size + length
            if kind not in child.KINDS or length > child.MAX_RESULT + 65_536:
                self._received.clear()
                self._condemn(ProcessKilled("the parser process sent invalid data; exclude the file"))
                break
            if end > len(self._received):
                break
            self._take(kind, seconds, bytes(self._received[start:end]), outcomes)
            position = end
        del self._received[:position]
        for call, batch in outcomes.items():
            call.outbox.put(batch)
        return True

    def _rest(self) -> None:
        """Let outcomes gather for a moment, so that each wake-up serves many, but not until the process has to wait for us."""
        if len(self.queue) > 1:
            ahead = (len(self.queue) - 1) * self.queue[0][0].pace
            time.sleep(min(_NAP_SECONDS, ahead / 2))

    def _take(self, kind: bytes, seconds: float, payload: bytes, outcomes: dict[Call, list[Outcome]]) -> None:
        if kind == child.OUTCOME and self.queue:
            call, index = self.queue.popleft()
            self._accepted -= 1
            self._started = self._advanced
            call.pace += (max(seconds, 1e-6) - call.pace) / 10
            call.made_bytes += len(payload)
            outcomes.setdefault(call, []).append((index, payload))
        elif kind == child.PROGRESS and self.queue:
            outcomes.setdefault(self.queue[0][0], [])
        elif kind == child.ACCEPTED:
            self._accepted += child.NUMBER.unpack(payload)[0]
        elif kind == child.RETURNED:
            number = child.NUMBER.unpack(payload)[0]
            self._returned += [self.queue.popleft() for _ in range(number)]
            self._accepted -= number
        elif kind == child.READY:
            self.is_ready = True
            self._in_use_at_start = child.NUMBER.unpack(payload)[0]
            self._started = self._advanced
        elif kind == child.NO_MODULE:
            self.missing_module = payload.decode()
            self.is_usable = False
        elif kind == child.LEAVING:
            self.is_usable = False

    def _hang_up(self) -> None:
        """The connection is closed. The process is probably dying; if it lives on, the time limit of its task ends it."""
        self._is_connected = False
        self._poll.unregister(self._connection.fileno())
        if not self.queue:
            self.stop()

    def _end(self) -> None:
        self._has_ended = True
        while self._is_connected and self._receive():
            pass
        self._read_errors()
        with contextlib.suppress(EOFError):  # the fork server has ended too
            self._exit_code = forkserver.read_signed(self._status)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)  # programs that it started; while they live, the ID is not reused

    def _read_errors(self) -> None:
        with contextlib.suppress(BlockingIOError):
            words = os.read(self._errors, 65_536)
            self._last_words = (self._last_words + words)[-4_096:]
            if not words and not self._has_ended:
                self._poll.unregister(self._errors)

    def _enforce_limits(self) -> None:
        now = self._checked = time.monotonic()
        if not self.is_ready:
            if now - self._started > START_SECONDS:
                self.stop()
        elif self.queue and self._condemned is None:
            call = self.queue[0][0]
            limits = call.limits
            if call.abandoned_at is not None:
                if now - max(call.abandoned_at, self._started) > _GRACE_SECONDS:
                    self._condemn(None)
            elif now - self._advanced > limits.stall_seconds:
                self._condemn(_timed_out("stall_seconds", limits.stall_seconds))
            elif now - self._started > limits.total_seconds:
                self._condemn(_timed_out("total_seconds", limits.total_seconds))
            elif child.memory_in_use(self.pid) - self._in_use_at_start > limits.memory_mb << 20:
                self._condemn(_too_big(limits))

    def _condemn(self, verdict: CatchmentError | None) -> None:
        """Kill the process because of its current task. Without a verdict, no outcome is reported for that task."""
        if self.queue:
            self._condemned, self._verdict = self.queue[0], verdict
        self.stop()

    def _reason_of_death(self, limits: Limits) -> CatchmentError:
        if any(words in self._last_words for words in _OUT_OF_MEMORY):
            return _too_big(limits)
        if self._exit_code is None:
            how = "exited with its parent process"
        elif self._exit_code < 0:
            number = -self._exit_code
            name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
            how = f"was terminated by {name}" + (
                " (which the kernel sends when memory runs out)" if name == "SIGKILL" else ""
            )
        else:
            how = f"exited with status {self._exit_code}"
        return ProcessKilled(f"the parser process {how}; if this repeats, exclude the file")


def _timed_out(limit: str, seconds: float) -> TimedOut:
    return TimedOut(f"not finished within {seconds:g} s; raise limits.{limit} if the file needs longer")


def _too_big(limits: Limits) -> ResourceExhausted:
    return ResourceExhausted(f"needs more than {limits.memory_mb} MB of memory; raise limits.memory_mb if necessary")
