"""Wait for a condition or for the exit of processes, on machines of any speed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import psutil

PATIENCE = 400.0
"""Time limit in seconds, longer than any useful machine needs."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
_PAUSES_PER_LOOK = 5
_LONGEST_AFTER_A_LOOK = 3.0

T = TypeVar("T")


def until(
    look: Callable[[], T], is_reached: Callable[[T], object] = bool, *, seconds: float = PATIENCE, must: bool = True
) -> T:
    """Call `look` until its result satisfies `is_reached`, and return it. After `seconds`, fail, or return it unless `must`."""
    deadline = time.monotonic() + seconds
    pause = _FIRST_PAUSE
    while True:
        began = time.monotonic()
        if is_reached(value := look()):
            return value
        now = time.monotonic()
        if now > deadline:
            assert not must, f"after {seconds:.0f} s there is still only {value}"
            return value
        # Frequent looks slow down the work that is awaited. A look that was itself blocked may pause only briefly.
        time.sleep(max(pause, min(_PAUSES_PER_LOOK * (now - began), _LONGEST_AFTER_A_LOOK)))
        pause = min(_LONGEST_PAUSE, pause * 1.3)


def have_exited(*processes: psutil.Process) -> bool:
    """Return whether all processes have exited. A zombie has exited."""
    return not any(_is_alive(process) for process in processes)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
