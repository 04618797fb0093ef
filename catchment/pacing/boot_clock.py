"""A monotonic clock that includes time asleep and restarts at boot."""

from __future__ import annotations

import time
from typing import NamedTuple

from catchment.runtime import process


class ClockReading(NamedTuple):
    """A reading: the boot that it belongs to, and the microseconds since then."""

    boot: str
    micros: int


def boot_clock() -> ClockReading:
    """Return the current reading. Readings of all processes since the same boot are comparable."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return ClockReading(process.boot(), time.clock_gettime_ns(clock) // 1_000)
