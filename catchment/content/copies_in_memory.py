"""Copies of texts in the memory of the page and the runner, which live long. After a deletion, both are replaced.

The file `run/forget` has a random value, a new one for each deletion. The starter of such a process notes the value, and
replaces the process when it differs. The server of an assistant is not replaced, because its program has opened the connection.
It holds a lock, so that the person learns of it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from catchment.runtime import atomic_files
from catchment.runtime.home import Home
from catchment.runtime.process import alive

_LOOK_SECONDS = 0.1
HELD = "an open connection of an assistant may have copies in memory"


def mark(home: Home) -> str:
    """Return the value of the latest deletion; empty before the first one. Takes 0.02 ms."""
    with suppress(OSError):
        return _file(home).read_text(encoding="ascii")
    return ""


def forget(home: Home) -> None:
    """Have the processes replaced that may have copies. Raises HomeUnavailable."""
    with atomic_files.explained():
        atomic_files.write(_file(home.make()), secrets.token_hex(8).encode())


def hold(home: Home) -> None:
    """Let `is_held` see, until this process exits, that it may have copies and is not replaced."""
    # On a read-only disk, or without locks, other processes do not see this one. All else works.
    with suppress(OSError):
        fcntl.flock(os.open(_lock(home), os.O_RDONLY | os.O_CREAT, 0o600), fcntl.LOCK_SH)


def is_held(home: Home) -> bool:
    """Return whether a process that is not replaced may have copies. False on a disk without locks."""
    with suppress(OSError), _lock(home).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _lock(home: Home) -> Path:
    return home.run / "assistants.lock"


def _file(home: Home) -> Path:
    return home.run / "forget"


def ended(processes: Collection[str], seconds: float) -> bool:
    """Wait until none of the processes, given by their identities, is alive. Returns False after so many seconds."""
    deadline = time.monotonic() + seconds
    while any(map(alive, processes)):
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_SECONDS)
    return True
