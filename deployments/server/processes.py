"""Process trees: reaping the orphans that pid 1 inherits, stopping a process, and killing all its descendants."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterable

import psutil


class Orphans:
    """Zombies of parents that have exited. If this process is pid 1, it inherits them and reaps them here."""

    def __init__(self) -> None:
        self._ended: set[psutil.Process] = set()

    def reap(self, known: Collection[int]) -> None:
        """Reap inherited children that were zombies at the last call already. `known`: the pids of our own children."""
        if os.getpid() != 1:
            return
        ended = {
            child
            for child in psutil.Process().children()
            if child.pid not in known and has_status(child, psutil.STATUS_ZOMBIE)
        }
        # The child of another thread may be a zombie for a moment, until that thread reads its exit code.
        for process in ended & self._ended:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)
        self._ended = ended


def has_status(process: psutil.Process, status: str) -> bool:
    """Whether a process has this status of psutil; False if it has exited."""
    with contextlib.suppress(psutil.Error):
        return bool(process.status() == status)
    return False


def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until a condition holds. Returns False if it does not within this time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def descendants(pid: int) -> list[psutil.Process]:
    """Return the processes below `pid`, in any session or process group."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def end(process: subprocess.Popen[bytes], *, grace: float, hurry: Callable[[], bool] = lambda: False) -> None:
    """Stop a child that leads its own group: SIGTERM, then SIGKILL to all descendants after `grace` seconds or on `hurry`."""
    below = descendants(process.pid)
    if process.poll() is None:
        process.terminate()
        until(lambda: process.poll() is not None or hurry(), grace)
    below += descendants(process.pid)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    kill(below)
    process.wait()


def kill(processes: Iterable[psutil.Process]) -> None:
    """Kill the processes that are still running. psutil checks that no pid was reused."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
