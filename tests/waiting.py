"""Waiting for what comes about by itself, however slow the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 400.0
"""Seconds after which what has not come about is believed never to: no machine on which the tests make sense needs them."""

T = TypeVar("T")


def until(
    look: Callable[[], T], told: Callable[[T], object] = bool, *, seconds: float = PATIENCE, must: bool = True
) -> T:
    """What a look shows once it is told, or after so many seconds: then an error, if it must be told."""
    deadline = time.monotonic() + seconds
    while not told(seen := look()):
        if time.monotonic() > deadline:
            assert not must, f"after {seconds:.0f} s there is still only {seen}"
            break
        time.sleep(0.02)
    return seen
