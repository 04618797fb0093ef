"""Processes: which flow runs they execute, who ends with whom, and the end of a whole tree."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable
from typing import Protocol, Self

import psutil

from deployments.server.environment import RUN_VARIABLE

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15


class Child(Protocol):
    """What a `subprocess.Popen` is, as far as its end is concerned."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


class Deaths:
    """An ear for the end of child processes, readable when one ended; of the main thread, and of one loop at a time."""

    def __enter__(self) -> Self:
        self.ear, self._bell = socket.socketpair()
        self._bell.setblocking(False)
        signal.set_wakeup_fd(self._bell.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        return self

    def heard(self) -> None:
        """To be called before the children are looked at."""
        self.ear.recv(4096)

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.ear.close()
        self._bell.close()


def end_with_parent() -> bool:
    """Have the system kill this process when its parent ends, however that ends; False where it cannot."""
    if not sys.platform.startswith("linux"):
        return False
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:
        # The parent died before the request was made.
        os._exit(1)
    return True


def name_process(name: str) -> None:
    """What `top` and `ps -o comm` call this process, on Linux; 15 characters at most."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode())


def executing_flow_runs() -> frozenset[str]:
    """The flow runs that a living process of this user is executing."""
    runs = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            run = process.environ().get(RUN_VARIABLE)
            if run and process.status() != psutil.STATUS_ZOMBIE:
                runs.add(run)
    return frozenset(runs)


def descendants(pid: int) -> list[psutil.Process]:
    """The processes below `pid`, whatever session or group they moved to."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def end(process: Child, *, grace: float) -> None:
    """End a child that leads its own group: asked with SIGTERM, and after `grace` seconds killed with all below it."""
    below = descendants(process.pid)
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace)
    below += descendants(process.pid)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    kill(below)
    process.wait()


def kill(processes: Iterable[psutil.Process]) -> None:
    """Kill at once whichever of these still live; psutil checks that each is still the process it was."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
