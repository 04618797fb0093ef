"""Makes a process a child of the supervisor: it exits with its parent, and has its own name in `ps -o comm`."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

PARENT_VARIABLE = "CATCHMENT_SUPERVISOR"
"""Environment variable with the supervisor's pid, set for its children."""
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15


def become_child(name: str) -> None:
    """If the supervisor started this process, exit with it, and name the process `name`."""
    # Removed, because children of this process have another parent.
    if parent := os.environ.pop(PARENT_VARIABLE, None):
        end_with_parent(int(parent))
        name_process(name)


def end_with_parent(parent: int) -> None:
    """Have the system kill this process when its parent exits. The parent passes its own pid as `parent`.

    If the parent died before this call, the process has another parent, and exits at once. In a container the parent may be
    pid 1.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if os.getppid() != parent:
        os._exit(1)


def name_process(name: str) -> None:
    """Set the name of this process in `top` and `ps -o comm`. Linux only; at most 15 characters."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode())


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
