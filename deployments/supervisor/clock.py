"""Detection of changes to the wall clock."""

from __future__ import annotations

import time

from catchment.pacing.boot_clock import boot_clock

_SET_SECONDS = 10.0
"""Larger than any difference that gradual correction (NTP) makes between two checks."""


class WallClock:
    """Compares the wall clock with a monotonic clock that keeps running while the machine sleeps."""

    def __init__(self) -> None:
        self._ahead = _ahead()

    def set_by(self) -> float:
        """Return by how many seconds the clock was set since the last call; 0 if it was not."""
        before, self._ahead = self._ahead, _ahead()
        moved = self._ahead - before
        return moved if abs(moved) >= _SET_SECONDS else 0.0


def _ahead() -> float:
    return time.time() - boot_clock().micros / 1e6
