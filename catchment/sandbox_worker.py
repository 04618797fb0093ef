"""The far side of the sandbox: a lean server that only forks, and its workers, which run one task after the other.

The server has one thread and no event loop, so that forking is safe; it holds no task and no result. A worker sends the
outcome of a task before it starts the next: when it dies, the first task without an outcome is the one it was at.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import gc
import importlib
import os
import pickle
import resource
import selectors
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from catchment.errors import CatchmentError, ResourceExhausted, Unexpected

LENGTH = struct.Struct("<Q")
"""In front of each group of tasks that is sent to a worker."""
FRAME = struct.Struct("<cfQ")
"""In front of each message of a worker: its kind, the seconds that the task took, the length of what follows."""
ORDER = struct.Struct("<cI")
"""To the server: what to do, with which worker. SPAWN carries the worker's end of its connection."""
NEWS = struct.Struct("<cIi?")
"""From the server: what happened, to which worker, its wait status, and whether it said that memory ran out."""
HELLO = struct.Struct("<IQ")
"""With READY: the worker's process, and the bytes it has resident before any task."""

READY, RESULT, ERROR, PROGRESS, LEAVING = b"W", b"R", b"E", b"P", b"L"
SPAWN, KILL = b"S", b"K"
EXITED, NO_PRELOAD = b"X", b"N"

MAX_RESULT = 256 * 1024 * 1024
_TASKS_PER_WORKER = 5_000
_GROWTH_PER_WORKER = 256 * 1024 * 1024
_OUT_OF_MEMORY = (b"memory allocation of", b"MemoryError", b"bad_alloc", b"out of memory", b"Cannot allocate memory")
_PR_SET_PDEATHSIG = 1

Connection = socket.socket


def progress() -> None:
    """Say that the present task is advancing, so that only `total_seconds` limits it; outside a worker it does nothing.

    For a function that works through many parts (the members of an archive); cheap enough to call for each.
    """
    if _Pulse.connection is not None and time.monotonic() - _Pulse.at > 0.5:
        _Pulse.at = time.monotonic()
        _send(_Pulse.connection, PROGRESS)


class _Pulse:
    """Where this process's progress goes, and when it last went."""

    connection: Connection | None = None
    at = 0.0


# The server.


def serve() -> None:
    """Import the modules asked for, then fork workers until the parent is gone (arguments: socket, parent, modules)."""
    control, parent, preload = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), sys.argv[3:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
    for position, module in enumerate(preload):
        try:
            importlib.import_module(module)
        except ImportError:
            control.send(NEWS.pack(NO_PRELOAD, position, 0, False))
            return
    gc.freeze()
    gc.enable()
    _Server(control).run(parent)


@dataclass(slots=True)
class _Child:
    """A forked worker as the server knows it."""

    number: int
    pid: int
    complaints: int
    """The read end of its standard error; only the last words are kept, to tell why it died."""
    last_words: bytes = b""


@dataclass(slots=True)
class _Server:
    """Forks, kills and buries workers; every process id is used only before its process is reaped."""

    control: Connection
    children: dict[int, _Child] = field(default_factory=dict)
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    bell: tuple[int, int] = field(default_factory=os.pipe)

    def run(self, parent: int) -> None:
        for end in self.bell:
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.bell[1], warn_on_full_buffer=False)
        self.selector.register(self.control, selectors.EVENT_READ, self._order)
        self.selector.register(self.bell[0], selectors.EVENT_READ, self._bury)
        try:
            if hasattr(
                os, "pidfd_open"
            ):  # a copy of the control socket in a forked process would hide the parent's end
                self.selector.register(os.pidfd_open(parent), selectors.EVENT_READ, _orphaned)
            while True:
                for key, _ in self.selector.select():
                    key.data()
        except (ConnectionError, ProcessLookupError):
            pass  # the parent is gone, or was before we looked: nobody is left to tell
        finally:
            for child in self.children.values():
                _kill_group(child.pid)

    def _order(self) -> None:
        message, descriptors, _, _ = socket.recv_fds(self.control, ORDER.size, 1)
        if not message:
            raise ConnectionResetError
        order, number = ORDER.unpack(message)
        if order == KILL and number in self.children:
            _kill_group(self.children[number].pid)
        elif order == SPAWN:
            self._spawn(number, descriptors[0])

    def _spawn(self, number: int, descriptor: int) -> None:
        complaints, mouth = os.pipe()
        os.set_blocking(complaints, False)
        server = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            pid = -1
        if pid == 0:
            self._become_worker(server, descriptor, mouth)
        os.close(descriptor)
        os.close(mouth)
        if pid < 0:
            os.close(complaints)
            self._tell(number, 0, out_of_memory=False)
            return
        with contextlib.suppress(OSError):  # the child does the same; whoever is first
            os.setpgid(pid, pid)
        self.children[number] = child = _Child(number, pid, complaints)
        self.selector.register(complaints, selectors.EVENT_READ, functools.partial(self._listen, child))

    def _become_worker(self, server: int, descriptor: int, mouth: int) -> NoReturn:
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self.selector.close()
            self.control.close()
            for end in (*self.bell, *(child.complaints for child in self.children.values())):
                os.close(end)
            _settle_in(server, mouth)
            _work(socket.socket(fileno=descriptor))
            status = 0
        except OSError:
            pass  # the connection broke: the parent is gone or the task closed it, and nobody can be told
        finally:
            os._exit(status)

    def _listen(self, child: _Child) -> None:
        if child.number not in self.children:  # buried by an earlier event of the same round
            return
        try:
            words = os.read(child.complaints, 65_536)
        except BlockingIOError:
            return
        if words:
            child.last_words = (child.last_words + words)[-4_096:]
        else:
            self._stop_listening(child)

    def _stop_listening(self, child: _Child) -> None:
        if child.complaints in self.selector.get_map():
            self.selector.unregister(child.complaints)

    def _bury(self) -> None:
        os.read(self.bell[0], 4_096)
        for child in list(self.children.values()):
            if os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            _kill_group(child.pid)  # what it started dies with it; unreaped, its number is still its own
            _, status = os.waitpid(child.pid, 0)
            self._listen(child)
            self._stop_listening(child)
            os.close(child.complaints)
            del self.children[child.number]
            self._tell(child.number, status, out_of_memory=any(word in child.last_words for word in _OUT_OF_MEMORY))

    def _tell(self, number: int, status: int, *, out_of_memory: bool) -> None:
        self.control.send(NEWS.pack(EXITED, number, status, out_of_memory))


def _orphaned() -> NoReturn:
    raise ConnectionResetError


def _kill_group(pid: int) -> None:
    for kill in (os.killpg, os.kill):  # the group exists only once the child or the server has set it
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


# A worker.


def _settle_in(server: int, mouth: int) -> None:
    """Make this process one that harms nobody: it dies with the server, leaves no core, goes first, and yields."""
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != server:
            os._exit(1)
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("500")
    nothing = os.open(os.devnull, os.O_RDWR)
    for old, new in ((nothing, 0), (nothing, 1), (mouth, 2)):
        os.dup2(old, new)
    os.close(nothing)
    os.close(mouth)
    os.umask(0o077)
    os.nice(5)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _work(connection: Connection) -> None:
    _Pulse.connection = connection
    memory = _Memory()
    _send(connection, READY, HELLO.pack(os.getpid(), memory.resident))
    done = 0
    while header := _receive(connection, LENGTH.size):
        reference, memory_mb, tasks = pickle.loads(_receive(connection, LENGTH.unpack(header)[0]))
        for task in tasks:
            memory.limit(memory_mb)
            start = time.perf_counter()
            kind, outcome = _attempt(memory, reference, task)
            _send(connection, kind, outcome, time.perf_counter() - start)
            done += 1
            if done >= _TASKS_PER_WORKER or memory.has_grown():
                _send(connection, LEAVING)
                return


def _attempt(memory: _Memory, reference: bytes, task: bytes) -> tuple[bytes, bytes]:
    try:
        result = pickle.dumps(_resolve(reference)(pickle.loads(task)), pickle.HIGHEST_PROTOCOL)
    except BaseException as error:  # noqa: BLE001 - whatever a parser raises, panics and exits too, is this task's outcome
        memory.lift()
        return ERROR, _failure(error)
    if len(result) > MAX_RESULT:
        too_large = ResourceExhausted(f"its result is larger than {MAX_RESULT >> 20} MB; split the file")
        return ERROR, pickle.dumps((too_large, ""))
    return RESULT, result


@functools.cache
def _resolve(reference: bytes) -> Callable[[Any], object]:
    function: Callable[[Any], object] = pickle.loads(reference)
    return function


def _failure(error: BaseException) -> bytes:
    trace = _describe(error)
    if isinstance(error, (MemoryError, RecursionError)) or getattr(error, "errno", None) == errno.ENOMEM:
        error = ResourceExhausted("it needs more memory than limits.memory_mb allows; raise it if the file is worth it")
    elif not isinstance(error, CatchmentError):
        error = Unexpected.of(error)
    error.__cause__ = error.__context__ = error.__traceback__ = None
    try:
        message = pickle.dumps((error, trace))
        pickle.loads(message)
    except Exception:  # noqa: BLE001 - an error that does not survive the way is reported by its class
        return pickle.dumps((Unexpected.of(error), trace))
    return message


def _describe(error: BaseException) -> str:
    """Where it was raised, as module, line and function; no source text, no values, no message."""
    lines: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(lines) < 60:
        lines += [type(cause).__name__, *(f"  {place}" for place in _places(cause.__traceback__))]
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return "\n".join(lines)


def _places(trace: TracebackType | None) -> list[str]:
    places = []
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "?")
        if module != __name__:
            places.append(f"{module}:{trace.tb_lineno} in {trace.tb_frame.f_code.co_name}")
        trace = trace.tb_next
    return places[-20:]


class _Memory:
    """How much this process may take. The limit counts private writable memory, which threads' reserves are not."""

    def __init__(self) -> None:
        self.resident, self._data = _memory_now()
        self._hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        self._set = 0
        self._peak_at_start = self._peak()

    def limit(self, memory_mb: int) -> None:
        if memory_mb != self._set and self._data:
            self._set = memory_mb
            wanted = self._data + (memory_mb << 20)
            allowed = wanted if self._hard == resource.RLIM_INFINITY else min(wanted, self._hard)
            resource.setrlimit(resource.RLIMIT_DATA, (allowed, self._hard))

    def lift(self) -> None:
        """Without a limit for a moment, so that a task that ran out of memory can still be reported."""
        self._set = 0
        resource.setrlimit(resource.RLIMIT_DATA, (self._hard, self._hard))

    def has_grown(self) -> bool:
        return self._peak() - self._peak_at_start > _GROWTH_PER_WORKER

    @staticmethod
    def _peak() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1_024)


def _memory_now() -> tuple[int, int]:
    """Resident and private writable bytes of this process; zeros where the system does not tell."""
    try:
        fields = Path("/proc/self/statm").read_text().split()
    except OSError:
        return 0, 0
    page = resource.getpagesize()
    return int(fields[1]) * page, int(fields[5]) * page


def _send(connection: Connection, kind: bytes, payload: bytes = b"", seconds: float = 0.0) -> None:
    header = FRAME.pack(kind, seconds, len(payload))
    if len(payload) < 65_536:
        connection.sendall(header + payload)
    else:
        connection.sendall(header)
        connection.sendall(payload)


def _receive(connection: Connection, size: int) -> bytes:
    """Exactly `size` bytes, or none at the end."""
    first = connection.recv(size)
    if len(first) == size or not first:
        return first
    whole = bytearray(first)
    while len(whole) < size:
        part = connection.recv(min(size - len(whole), 1 << 20))
        if not part:
            raise ConnectionResetError
        whole += part
    return bytes(whole)
