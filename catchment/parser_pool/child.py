"""Inside a parser process: run one task after another, and report each outcome before the next task starts."""

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
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import forkserver
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

from catchment.errors import CatchmentError, ResourceExhausted, Unexpected

LENGTH = struct.Struct("<Q")
"""Precedes each group of tasks sent to a child."""
FRAME = struct.Struct("<cfQ")
"""Precedes each message of a child: its kind, the seconds that the task took, the length of the payload."""
NUMBER = struct.Struct("<Q")
"""The payload of READY (bytes of memory in use before any task), ACCEPTED and RETURNED (a number of tasks)."""

READY, NO_MODULE, ACCEPTED, OUTCOME, PROGRESS, RETURNED, LEAVING = (bytes([code]) for code in b"WMAOPBL")
KINDS = frozenset((READY, NO_MODULE, ACCEPTED, OUTCOME, PROGRESS, RETURNED, LEAVING))

MAX_RESULT = 256 * 1024 * 1024
_MAX_TASKS = 5_000
_MAX_GROWTH = 64 * 1024 * 1024
_TASKS_PER_CHECK, _SECONDS_WORTH_A_CHECK = 50, 0.02
"""Memory growth is checked once in so many tasks, and after each task that took this long."""
_SLOW_SECONDS = 0.25
"""After a task that took longer, the rest of its group is returned: other processes and other callers must not wait for it."""
_ENVIRONMENT = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH")
"""The variables that parsers may see. Tokens and passwords among the others are not for them."""
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_CONNECTION = 3
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Failed:
    """A task without a result: why, and where the error was raised (modules, lines and functions; no values)."""

    error: CatchmentError
    traceback: str


def progress() -> None:
    """Report that the current task advances, so that only `total_seconds` limits it. Has no effect outside a parser process.

    For functions that work through many parts, such as the members of an archive; cheap enough to call for each part.
    """
    if _Progress.connection is not None and time.monotonic() - _Progress.reported > 0.1:
        _Progress.reported = time.monotonic()
        _send(_Progress.connection, PROGRESS)


@contextlib.contextmanager
def keeping() -> Iterator[None]:
    """Count the memory that the body takes as kept for further tasks, and not as growth that ends this process.

    For an open archive: one of 100,000 files takes 60 MB, and another process would have to open it again.
    """
    before = _in_use()
    yield
    _Memory.kept = max(_Memory.kept, _in_use() - before)


class _Progress:
    """Where this process reports progress, and when it last did."""

    connection: ClassVar[socket.socket | None] = None
    reported: ClassVar[float] = 0.0


@dataclass(frozen=True)
class Child:
    """A new process: the fork server unpickles this object in it and calls `_bootstrap`."""

    server: int
    """The process ID of the fork server."""
    modules: tuple[str, ...]

    def _bootstrap(self, _sentinel: int) -> int:
        """Run tasks until the parent hangs up. `multiprocessing.spawn` calls this method; its result is the exit status."""
        inherited = forkserver.get_inherited_fds()
        assert inherited is not None
        _restrict(self.server, *inherited)
        try:
            _work(socket.socket(fileno=_CONNECTION), self.modules)
        except (OSError, EOFError, struct.error, pickle.UnpicklingError):
            # The parent has ended, also within a message, or the task closed the connection: no report is possible.
            return 1
        return 0


def _restrict(server: int, connection: int, errors: int) -> None:
    """Let this process die with the fork server, and remove descriptors, variables and rights that a parser does not need."""
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)  # so that programs started by a task can be killed with it
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != server:  # the fork server ended before the line above
            os._exit(1)
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("500")
    os.dup2(errors, 2)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1):
        os.dup2(null, standard)
    sys.stdin = os.fdopen(0, closefd=False)  # the fork server's has a descriptor that is about to be another file's
    if connection != _CONNECTION:
        os.dup2(connection, _CONNECTION, inheritable=False)
    # Among them are pipes: the fork server and the resource tracker end once all writing ends of theirs are closed.
    for descriptor in map(int, os.listdir("/dev/fd")):  # noqa: PTH208 - the names are wanted
        if descriptor > _CONNECTION:
            with contextlib.suppress(OSError):  # the descriptor of the listing itself
                os.close(descriptor)
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    os.environ.clear()
    os.environ.update(environment | _ONE_THREAD)
    os.umask(0o077)
    os.nice(5)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _work(connection: socket.socket, modules: tuple[str, ...]) -> None:
    """Run the tasks that arrive until the parent hangs up or this process should be replaced."""
    for module in modules:  # imported already, unless the fork server could not
        try:
            importlib.import_module(module)
        except ImportError:
            _send(connection, NO_MODULE, module.encode())
            return
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)  # parsers make many small values and few cycles
    _Progress.connection = connection
    memory = _Memory()
    _send(connection, READY, NUMBER.pack(memory_in_use(os.getpid())))
    count = 0
    messages = connection.makefile("rb")
    while header := messages.read(LENGTH.size):
        function, memory_mb, tasks = pickle.loads(messages.read(LENGTH.unpack(header)[0]))
        _send(connection, ACCEPTED, NUMBER.pack(len(tasks)))
        for remaining, task in zip(reversed(range(len(tasks))), tasks, strict=True):
            memory.limit(memory_mb)
            start = time.perf_counter()
            outcome = _outcome(memory, function, task)
            seconds = time.perf_counter() - start
            _send(connection, OUTCOME, outcome, seconds)
            count += 1
            check = count % _TASKS_PER_CHECK == 0 or seconds > _SECONDS_WORTH_A_CHECK
            if count >= _MAX_TASKS or (check and memory.has_grown()):
                _send(connection, LEAVING)
                return
            if seconds > _SLOW_SECONDS and remaining:
                _send(connection, RETURNED, NUMBER.pack(remaining))
                break


def _outcome(memory: _Memory, function: bytes, task: bytes) -> bytes:
    """Run a task and return its pickled result or `Failed`."""
    try:
        result = pickle.dumps(_resolve(function)(pickle.loads(task)), pickle.HIGHEST_PROTOCOL)
    except BaseException as error:  # noqa: BLE001 - whatever a parser raises, panics and exits too, is this task's outcome
        memory.lift()
        return _failure(error)
    if len(result) > MAX_RESULT:
        too_large = ResourceExhausted(f"the result is larger than {MAX_RESULT >> 20} MB; split the file")
        return pickle.dumps(Failed(too_large, ""))
    return result


@functools.cache
def _resolve(reference: bytes) -> Callable[[Any], object]:
    function: Callable[[Any], object] = pickle.loads(reference)
    return function


def _failure(error: BaseException) -> bytes:
    trace = describe(error)
    if isinstance(error, (MemoryError, RecursionError)) or getattr(error, "errno", None) == errno.ENOMEM:
        error = ResourceExhausted("needs more memory than limits.memory_mb allows; raise the limit if necessary")
    elif not isinstance(error, CatchmentError):
        error = Unexpected.of(error)
    error.__cause__ = error.__context__ = error.__traceback__ = None
    try:
        message = pickle.dumps(Failed(error, trace))
        pickle.loads(message)
    except Exception:  # noqa: BLE001 - an error that does not survive pickling is reported by its class
        return pickle.dumps(Failed(Unexpected.of(error), trace))
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
    """The memory limit of this process. RLIMIT_DATA counts private writable memory; RLIMIT_AS would count mapped files and the
    address space that threads and allocators reserve without use. The parent watches shared memory, which it does not count.
    """

    kept: ClassVar[int] = 0

    def __init__(self) -> None:
        self._data = _writable_bytes()
        self._hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        self._set = 0
        self._at_start = _in_use()

    def limit(self, memory_mb: int) -> None:
        if memory_mb != self._set and self._data:
            self._set = memory_mb
            needed = self._data + (memory_mb << 20)
            allowed = needed if self._hard == resource.RLIM_INFINITY else min(needed, self._hard)
            resource.setrlimit(resource.RLIMIT_DATA, (allowed, self._hard))

    def lift(self) -> None:
        """Remove the limit until the next task, so that a task that ran out of memory can be reported."""
        self._set = 0
        resource.setrlimit(resource.RLIMIT_DATA, (self._hard, self._hard))

    def has_grown(self) -> bool:
        return _in_use() - self._at_start - self.kept > _MAX_GROWTH


def _in_use() -> int:
    # The peak, where there is no /proc, also counts mapped files: the library that reads a PDF has 100 MB.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return memory_in_use(os.getpid()) or peak * (1 if sys.platform == "darwin" else 1_024)


def memory_in_use(process: int) -> int:
    """Bytes of memory in use by a process, without mapped files; 0 if it has ended or if there is no /proc."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    lines = (line.split() for line in status.splitlines() if line.startswith(("RssAnon:", "RssShmem:")))
    return sum(int(line[1]) << 10 for line in lines)


def _writable_bytes() -> int:
    """Private writable memory of this process, in use or not, which RLIMIT_DATA counts; 0 without /proc."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[5]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()


def _send(connection: socket.socket, kind: bytes, payload: bytes = b"", seconds: float = 0.0) -> None:
    header = FRAME.pack(kind, seconds, len(payload))
    if len(payload) < 65_536:
        connection.sendall(header + payload)
    else:
        connection.sendall(header)
        connection.sendall(payload)
