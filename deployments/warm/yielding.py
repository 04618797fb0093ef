"""How a process gives way to everything else on the machine, for the processor and for the disk."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import psutil

_NICENESS = 10
_LAST_OF_ORDINARY = 7


def give_way(process: psutil.Process, *, writes_ledger: bool) -> bool:
    """Lower the priority of all threads of a process; whether that is done with. May be called again.

    For the disk, a process waits until nobody else wants it, but one that writes the ledger is only the last in line: others
    would wait for what it holds.
    """
    try:
        niceness = max(_NICENESS, process.nice())
        process.nice(niceness)
        _each_thread(process, lambda thread: os.setpriority(os.PRIO_PROCESS, thread, niceness))
        if hasattr(process, "ionice"):
            wanted = (psutil.IOPRIO_CLASS_BE, _LAST_OF_ORDINARY) if writes_ledger else (psutil.IOPRIO_CLASS_IDLE, None)
            # To the system a thread is a process with a number of its own.
            _each_thread(process, lambda thread: psutil.Process(thread).ionice(*wanted))
        return _lower_share_of_session(process.pid)
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        # Not ours any more, as a program of another user that a connector started: it stays as it is.
        return True


def _each_thread(process: psutil.Process, act: Callable[[int], object]) -> None:
    for thread in process.threads():
        with contextlib.suppress(psutil.Error, OSError):
            act(thread.id)


def _lower_share_of_session(pid: int) -> bool:
    """Where Linux shares the processor among sessions first, a priority counts within its session only."""
    if not _leads_session(pid):
        return True
    try:
        Path(f"/proc/{pid}/autogroup").write_text(str(_NICENESS), encoding="ascii")
    except BlockingIOError:
        # The system takes one such wish in a tenth of a second.
        return False
    except OSError:
        # It has ended, or this system shares among processes alone.
        return True
    return True


def _leads_session(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        return os.getsid(pid) == pid
    return False
