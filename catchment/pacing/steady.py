"""A clock that nobody can set: it counts on while the machine sleeps, and begins anew when it boots."""

from __future__ import annotations

import time
from typing import NamedTuple

from catchment.runtime import process


class Steady(NamedTuple):
    """A reading: which boot it counts from, and how many microseconds have passed since."""

    boot: str
    micros: int


def steady() -> Steady:
    """The present reading; that of every process since the same boot can be compared."""
    boot = process.identity().partition(":")[0]
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return Steady(boot, time.clock_gettime_ns(clock) // 1_000)
