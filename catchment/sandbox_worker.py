"""A worker of the sandbox: it runs one task after the other and says how each went before it begins the next."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import pickle
import resource
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from catchment.errors import CatchmentError, ResourceExhausted, Unexpected

LENGTH = struct.Struct("<Q")
"""In front of each group of tasks that is sent to a worker."""
FRAME = struct.Struct("<cfQ")
"""In front of each message of a worker: its kind, the seconds that the task took, the length of what follows."""
HELLO = struct.Struct("<IQ")
"""With READY: the worker's process, and the bytes it holds before any task."""

READY, RESULT, ERROR, PROGRESS, LEAVING = b"W", b"R", b"E", b"P", b"L"
KINDS = frozenset((READY, RESULT, ERROR, PROGRESS, LEAVING))

MAX_RESULT = 256 * 1024 * 1024
_TASKS_PER_WORKER = 5_000
_GROWTH_PER_WORKER = 64 * 1024 * 1024
_TASKS_PER_LOOK, _SECONDS_WORTH_A_LOOK = 50, 0.02
"""How much memory the process has come to hold is looked at now and then, and after every task that took its time."""
_PR_SET_PDEATHSIG = 1

Connection = socket.socket


def progress() -> None:
    """Say that the present task is advancing, so that only `total_seconds` limits it; outside a worker it does nothing.

    For a function that works through many parts (the members of an archive); cheap enough to call for each.
    """
    if _Pulse.connection is not None and time.monotonic() - _Pulse.at > 0.1:
        _Pulse.at = time.monotonic()
        _send(_Pulse.connection, PROGRESS)


class _Pulse:
    """Where this process's progress goes, and when it last went."""

    connection: Connection | None = None
    at = 0.0


def settle_in(server: int, mouth: int) -> None:
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


def work(connection: Connection) -> None:
    """Run the tasks that come until the other side hangs up, or until a fresh process would do better."""
    _Pulse.connection = connection
    memory = _Memory()
    _send(connection, READY, HELLO.pack(os.getpid(), held_bytes(os.getpid())))
    done = 0
    while header := _receive(connection, LENGTH.size):
        reference, memory_mb, tasks = pickle.loads(_receive(connection, LENGTH.unpack(header)[0]))
        for task in tasks:
            memory.limit(memory_mb)
            start = time.perf_counter()
            kind, outcome = _attempt(memory, reference, task)
            seconds = time.perf_counter() - start
            _send(connection, kind, outcome, seconds)
            done += 1
            look = done % _TASKS_PER_LOOK == 0 or seconds > _SECONDS_WORTH_A_LOOK
            if done >= _TASKS_PER_WORKER or (look and memory.has_grown()):
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
    trace = describe(error)
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


def describe(error: BaseException) -> str:
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
        self._data = _writable_bytes()
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


def held_bytes(process: int) -> int:
    """Memory that a process occupies and no file stands behind; 0 where it has ended or the system does not tell."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    lines = (line.split() for line in status.splitlines() if line.startswith(("RssAnon:", "RssShmem:")))
    return sum(int(line[1]) << 10 for line in lines)


def _writable_bytes() -> int:
    """What the limit on data counts: private writable memory of this process, occupied or not; 0 as above."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[5]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()


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
