"""A monotonic clock that includes time asleep and restarts at boot, and the clock of a server continued with it."""

from __future__ import annotations

import time
from typing import NamedTuple

from catchment.runtime import process
from catchment.runtime.system.linux import BOOT_CLOCK

_CURRENT = 60_000_000
"""Microseconds until the time of a server is requested again."""


class ClockReading(NamedTuple):
    """A reading: the boot that it belongs to, and the microseconds since then."""

    boot: str
    micros: int


def boot_clock() -> ClockReading:
    """Return the current reading. Readings of all processes since the same boot are comparable."""
    return ClockReading(process.boot(), time.clock_gettime_ns(BOOT_CLOCK) // 1_000)


class ServerClock:
    """The clock of a server, in microseconds since 1970: its last known time, plus the time since then on this machine."""

    def __init__(self) -> None:
        self._said, self._at = 0, -_CURRENT

    @property
    def is_current(self) -> bool:
        """Whether the server reported its time less than a minute ago."""
        return boot_clock().micros - self._at < _CURRENT

    def learn(self, seconds: int) -> None:
        """Record the present time of the server."""
        self._said, self._at = seconds, boot_clock().micros

    def now(self) -> int:
        """Return the time on the server."""
        return self._said + boot_clock().micros - self._at
