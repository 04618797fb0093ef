"""The processes below ours: which flow runs they execute, and the end of a whole tree."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterable

import psutil

_FLOW_RUN = "PREFECT__FLOW_RUN_ID"


def executing_flow_runs() -> frozenset[str]:
    """The flow runs that a living process of this user is executing."""
    runs = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            run = process.environ().get(_FLOW_RUN)
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
    kill(below)
    process.wait()


def kill(processes: Iterable[psutil.Process]) -> None:
    """Kill at once whichever of these still live; psutil checks that each is still the process it was."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
