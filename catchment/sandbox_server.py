"""The lean process that forks the sandbox's workers: the near end that starts it, and what it does.

It has one thread and no event loop, so that forking is safe; it holds no task and no result. It kills and buries its
workers, because a process id is certain only to the parent that has not reaped it yet.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import math
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, Protocol

from catchment.sandbox_worker import Connection, settle_in, work

_ORDER = struct.Struct("<cI")
"""To the server: what to do, with which worker. SPAWN carries the worker's end of its connection."""
_NEWS = struct.Struct("<cIi?")
"""From the server: what happened, to which worker, its wait status, and whether it said that memory ran out."""
_SPAWN, _KILL = b"S", b"K"
EXITED, NO_PRELOAD = b"X", b"N"

_ENVIRONMENT = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH")
"""What parsers are told of the environment; tokens and passwords in it are none of their business."""
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_OUT_OF_MEMORY = (b"memory allocation of", b"MemoryError", b"bad_alloc", b"out of memory", b"Cannot allocate memory")


class _Process(Protocol):
    def wait(self, timeout: float | None = None) -> object: ...

    def kill(self) -> None: ...


class ForkServer:
    """The process that forks the workers, and the line to it."""

    def __init__(self, control: socket.socket, process: _Process) -> None:
        self.control = control
        self._process = process
        self._heard = bytearray()
        self.is_lost = False

    @classmethod
    def start(cls, preload: tuple[str, ...]) -> ForkServer:
        """The one that `prepare` forked, if it has these modules; else a new interpreter that imports them."""
        modules, prepared = _prepared.pop(os.getpid(), (frozenset(), None))
        if prepared is not None:
            if modules.issuperset(preload):
                return prepared
            prepared.stop()
        control, far_end = socket.socketpair()
        environment = _environment() | {"PYTHONPATH": os.pathsep.join(str(Path(path).absolute()) for path in sys.path)}
        command = [sys.executable, "-P", "-c", "from catchment.sandbox_server import serve; serve()"]
        with contextlib.ExitStack() as undo, far_end:
            undo.callback(control.close)
            process = subprocess.Popen(
                [*command, str(far_end.fileno()), str(os.getpid()), *preload],
                env=environment,
                pass_fds=[far_end.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # a Ctrl-C in the terminal is for us to handle
            )
            undo.pop_all()
        return cls(control, process)

    def spawn(self, number: int) -> socket.socket:
        """Have a worker forked; our end of its connection. Raises OSError."""
        near, far_end = socket.socketpair()
        with far_end:
            far_end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)  # as much as the system grants
            try:
                socket.send_fds(self.control, [_ORDER.pack(_SPAWN, number)], [far_end.fileno()])
            except OSError:
                near.close()
                raise
        near.setblocking(False)
        return near

    def kill(self, number: int) -> None:
        """Have a worker killed, if it still lives, with all that it started; news of its end will come."""
        self.control.send(_ORDER.pack(_KILL, number))

    def news(self) -> list[tuple[bytes, int, int, bool]]:
        """What it had to tell; empty and `is_lost` when it is gone."""
        try:
            said = self.control.recv(4_096)
        except ConnectionError:
            said = b""
        self.is_lost = not said
        self._heard += said
        whole = len(self._heard) // _NEWS.size * _NEWS.size
        told = [(bytes(n), w, s, m) for n, w, s, m in _NEWS.iter_unpack(bytes(self._heard[:whole]))]
        del self._heard[:whole]
        return told

    def stop(self) -> None:
        """Have it kill its workers and end; returns when it has."""
        with contextlib.suppress(OSError):  # it may have ended before
            self.control.shutdown(socket.SHUT_RDWR)  # which a copy in a forked process does not hide from it
        self.control.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


_prepared: dict[int, tuple[frozenset[str], ForkServer]] = {}
"""By the process that it serves: a fork server that waits to be used, and the modules that it has."""


def prepare() -> None:
    """Fork the server that this process's sandbox will use, while it has one thread and all modules are imported.

    A new interpreter would take a third of a second to import them.
    """
    control, far_end = socket.socketpair()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        far_end.close()
        _prepared[parent] = frozenset(sys.modules), ForkServer(control, _Forked(pid))
        return
    try:
        control.close()
        os.setsid()
        silent = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):
            os.dup2(silent, standard)
        os.close(silent)
        kept = _environment()
        os.environ.clear()
        os.environ.update(kept)
        _serve(far_end, parent, ())
    finally:
        os._exit(0)


@dataclass(frozen=True, slots=True)
class _Forked:
    """A child without an interpreter of its own, to be waited for as one that has."""

    pid: int

    def wait(self, timeout: float | None = None) -> None:
        deadline = time.monotonic() + (timeout or math.inf)
        while os.waitpid(self.pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("the fork server", timeout or 0)
            time.sleep(0.002)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ} | _ONE_THREAD


def serve() -> None:
    """Import the modules asked for, then fork workers until the parent is gone (arguments: socket, parent, modules)."""
    _serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), sys.argv[3:])


def _serve(control: Connection, parent: int, preload: Sequence[str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
    for position, module in enumerate(preload):
        try:
            importlib.import_module(module)
        except ImportError:
            control.send(_NEWS.pack(NO_PRELOAD, position, 0, False))
            return
    gc.freeze()
    # A parser makes many small values and few cycles.
    gc.set_threshold(50_000, 20, 50)
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
    """Forks, kills and buries workers; a worker is killed by its number only before it is reaped."""

    control: Connection
    children: dict[int, _Child] = field(default_factory=dict)
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    bell: tuple[int, int] = field(default_factory=os.pipe)
    watched: list[int] = field(default_factory=list)

    def run(self, parent: int) -> None:
        for end in self.bell:
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.bell[1], warn_on_full_buffer=False)
        self.selector.register(self.control, selectors.EVENT_READ, self._order)
        self.selector.register(self.bell[0], selectors.EVENT_READ, self._bury)
        try:
            self._watch(parent)
            while True:
                for key, _ in self.selector.select():
                    key.data()
        except (ConnectionError, ProcessLookupError):
            pass  # the parent is gone, or was before we looked: nobody is left to tell
        finally:
            for child in self.children.values():
                _kill_group(child.pid)
            for child in self.children.values():  # so that all is over when this process is
                os.waitpid(child.pid, 0)

    def _watch(self, parent: int) -> None:
        """Notice the parent's death even where a process that it forked holds a copy of the control socket."""
        try:
            process = os.pidfd_open(parent)
        except ProcessLookupError:
            raise
        except (AttributeError, OSError):  # not on this system: then the closed socket is what tells
            return
        self.watched.append(process)
        self.selector.register(process, selectors.EVENT_READ, _orphaned)

    def _order(self) -> None:
        message, descriptors, _, _ = socket.recv_fds(self.control, _ORDER.size, 1)
        if not message:
            raise ConnectionResetError
        order, number = _ORDER.unpack(message)
        if order == _KILL and number in self.children:
            _kill_group(self.children[number].pid)
        elif order == _SPAWN:
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
            os.close(complaints)
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
            for end in (*self.bell, *self.watched, *(child.complaints for child in self.children.values())):
                os.close(end)
            settle_in(server, mouth)
            work(socket.socket(fileno=descriptor))
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
            ended, status = os.waitpid(child.pid, os.WNOHANG)
            if not ended:
                continue
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)  # what it started: as long as that lives, the number is not reused
            self._listen(child)
            self._stop_listening(child)
            os.close(child.complaints)
            del self.children[child.number]
            self._tell(child.number, status, out_of_memory=any(word in child.last_words for word in _OUT_OF_MEMORY))

    def _tell(self, number: int, status: int, *, out_of_memory: bool) -> None:
        self.control.send(_NEWS.pack(EXITED, number, status, out_of_memory))


def _orphaned() -> NoReturn:
    raise ConnectionResetError


def _kill_group(pid: int) -> None:
    for kill in (os.killpg, os.kill):  # the group exists only once the child or the server has set it
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
