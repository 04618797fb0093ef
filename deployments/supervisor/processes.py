"""Processes: which flow runs they execute, who ends with whom, and the end of a whole tree."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterable
from typing import Self

import psutil

from deployments.server.environment import RUN_VARIABLE

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
PARENT_VARIABLE = "CATCHMENT_SUPERVISOR"
"""Where the supervisor tells its children its pid."""


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


def end_with_parent(parent: int) -> None:
    """Have this process killed when its parent ends, however that ends. `parent` is the pid that the parent has told.

    The pid is compared, because a parent that died before the request leaves a new one; that may be pid 1, and so may be
    the true parent, in a container.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if os.getppid() != parent:
        os._exit(1)


def become_child(name: str) -> None:
    """End with the supervisor and be called `name`, if a supervisor started this process."""
    # Taken out: the children of this process have another parent.
    if parent := os.environ.pop(PARENT_VARIABLE, None):
        end_with_parent(int(parent))
        name_process(name)


class Orphans:
    """As pid 1 this process inherits those whose parents end: `reap` takes their exit codes."""

    def __init__(self) -> None:
        self._ended: set[psutil.Process] = set()

    def reap(self, known: Collection[int]) -> None:
        """Reap what has ended since the last call, except the children `known`. Does nothing in a process that is not pid 1."""
        if os.getpid() != 1:
            return
        ended = {one for one in psutil.Process().children() if one.pid not in known and _is_zombie(one)}
        # Another thread of this process takes the exit code of its own children in less than the time between two calls.
        for process in ended & self._ended:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)
        self._ended = ended


def _is_zombie(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    return False


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


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


def end(process: subprocess.Popen[bytes], *, grace: float) -> None:
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
