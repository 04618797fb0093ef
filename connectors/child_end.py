"""The end of programs that a connector starts."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress

KILLED_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
"""Begins a command: kills the program when the thread that started it ends, even if this process is killed.

Not for a program that outlives the thread.
"""

END_SECONDS = 5.0
"""Wait for a killed process. A process blocked by an unresponsive disk remains until the disk responds."""


def end(process: subprocess.Popen[bytes], *, own_group: bool = False) -> None:
    """Kill a process if it is running; with its children if it has its own process group."""
    if process.poll() is None:
        if own_group:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(END_SECONDS)
