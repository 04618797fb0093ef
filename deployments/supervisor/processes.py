"""Processes: the orphans that pid 1 inherits, and the end of a whole tree."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterable

import psutil


class Orphans:
    """Zombies that pid 1 inherits from parents that ended; this process reaps them if it is pid 1."""

    def __init__(self) -> None:
        self._ended: set[psutil.Process] = set()

    def reap(self, known: Collection[int]) -> None:
        """Reap inherited children that ended before the last call. `known` are the pids of this process's own children."""
        if os.getpid() != 1:
            return
        ended = {one for one in psutil.Process().children() if one.pid not in known and _is_zombie(one)}
        # A child of another thread may be a zombie for a moment, until that thread reads its exit code.
        for process in ended & self._ended:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)
        self._ended = ended


def _is_zombie(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    return False


def descendants(pid: int) -> list[psutil.Process]:
    """The processes below `pid`, whatever session or group they moved to."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def end(process: subprocess.Popen[bytes], *, grace: float, hurry: Callable[[], bool] = lambda: False) -> None:
    """End a child that leads its own group: SIGTERM, and after `grace` seconds or on `hurry` SIGKILL to all below it."""
    below = descendants(process.pid)
    if process.poll() is None:
        process.terminate()
        deadline = time.monotonic() + grace
        while process.poll() is None and time.monotonic() < deadline and not hurry():
            time.sleep(0.02)
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
