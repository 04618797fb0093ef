"""Process identities that stay unique although the system reuses pids."""

from __future__ import annotations

import getpass
import os
from functools import cache
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def identity(pid: int | None = None) -> str:
    """Return a name that no later process will have: boot ID, pid and start time. Raises ProcessLookupError."""
    pid = os.getpid() if pid is None else pid
    return f"{_boot()}:{pid}:{_started(pid)}"


def alive(name: str) -> bool:
    """Return whether the process with this identity is still running."""
    boot, _, rest = name.partition(":")
    pid, _, started = rest.partition(":")
    if boot != _boot() or not pid.isdigit():
        return False
    try:
        return _started(int(pid)) == started
    except ProcessLookupError:
        return False


OPERATOR = "operator"
"""Beginning of the names of people in the history."""
IN_PREFECT = "prefect"
"""The name in the history of a person who acts in the Prefect UI."""


def operator() -> str:
    """Return the name of the current user as the history records it."""
    try:
        return f"{OPERATOR}:{getpass.getuser()}"
    except (KeyError, OSError):
        return OPERATOR


def pid_of(name: str) -> int:
    """Return the pid in an identity."""
    return int(name.split(":")[1])


def is_of_this_boot(name: str) -> bool:
    """Return whether the process was started on this machine since its last boot."""
    return name.partition(":")[0] == _boot()


@cache
def _boot() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()[:8]
    except FileNotFoundError:
        return "-"


def _started(pid: int) -> str:
    """Return the start time in the system's unit. A zombie counts as ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        if Path("/proc/self").exists():
            raise ProcessLookupError(pid) from None
        return _started_elsewhere(pid)
    fields = stat.rpartition(")")[2].split()
    if fields[0] in "ZX":
        raise ProcessLookupError(pid)
    return fields[19]


def _started_elsewhere(pid: int) -> str:
    import psutil  # no /proc on this system

    try:
        return f"{psutil.Process(pid).create_time():.3f}"
    except psutil.NoSuchProcess:
        raise ProcessLookupError(pid) from None
