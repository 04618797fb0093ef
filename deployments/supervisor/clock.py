"""The clock on the wall: whether somebody set it, and by how much."""

from __future__ import annotations

import time

from catchment.pacing.steady import steady

_SET_SECONDS = 10.0
"""A difference from one look to the next that no slow correction makes."""


class WallClock:
    """Compares the clock on the wall with one that nobody can set and that counts on while the machine sleeps."""

    def __init__(self) -> None:
        self._ahead = _ahead()

    def set_by(self) -> float:
        """By how many seconds the clock was set since this was asked last; 0 when it was not."""
        before, self._ahead = self._ahead, _ahead()
        moved = self._ahead - before
        return moved if abs(moved) >= _SET_SECONDS else 0.0


def _ahead() -> float:
    return time.time() - steady().micros / 1e6
