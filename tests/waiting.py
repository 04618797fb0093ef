"""Waiting for what comes about by itself, however slow the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import psutil

PATIENCE = 400.0
"""Seconds after which what has not come about is believed never to: no machine on which the tests make sense needs them."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
_PAUSES_PER_LOOK = 5
_LONGEST_AFTER_A_LOOK = 3.0

T = TypeVar("T")


def until(
    look: Callable[[], T], told: Callable[[T], object] = bool, *, seconds: float = PATIENCE, must: bool = True
) -> T:
    """What a look shows once it is told, or after so many seconds: then an error, if it must be told."""
    deadline = time.monotonic() + seconds
    pause = _FIRST_PAUSE
    while True:
        began = time.monotonic()
        if told(seen := look()):
            return seen
        now = time.monotonic()
        if now > deadline:
            assert not must, f"after {seconds:.0f} s there is still only {seen}"
            return seen
        # Who looks all the time keeps from work what is waited for; a look that itself had to wait says nothing of that.
        time.sleep(max(pause, min(_PAUSES_PER_LOOK * (now - began), _LONGEST_AFTER_A_LOOK)))
        pause = min(_LONGEST_PAUSE, pause * 1.3)


def gone(*processes: psutil.Process) -> bool:
    """Whether all of these have ended; one whose parent has not looked yet has."""
    return not any(_lives(process) for process in processes)


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
