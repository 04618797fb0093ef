"""The limit of concurrent runs, and which waiting runs start next. Pure: clock, readings and machine are passed in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from catchment.model import Priority
from deployments.sources.profile import Profile

HOT_CPU, HOT_MEMORY = 0.80, 0.85
_CALM_CPU, _CALM_MEMORY = 0.65, 0.75
"""Hysteresis: with a single threshold, each added or removed run could cross it."""
_LEFT_BY_CPU = 2
_HOT_SECONDS = 6.0
_CALM_SECONDS = 15.0
_LONGEST_CALM_SECONDS = 240.0
_SOON_SECONDS = 60.0
_HEAD_START = {Priority.HIGH: timedelta(minutes=-1), Priority.NORMAL: timedelta(), Priority.LOW: timedelta(minutes=1)}

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class MachineReading:
    """The load of the machine: `at` in seconds of a monotonic clock, `cpu` and `memory` from 0 to 1."""

    at: float
    cpu: float
    memory: float


class Limit:
    """The limit of concurrent runs, `now`: falls by one while the machine stays busy, rises by one while it stays calm.

    Never above `cap`. A busy processor lowers it to two, so that a short run need not wait for a long one; only short memory
    lowers it to one. If it had to fall soon after a rise, it waits longer before the next rise.
    """

    def __init__(self, cap: int) -> None:
        self.cap = max(1, cap)
        self.now = self.cap
        self._hot_since: float | None = None
        self._calm_since: float | None = None
        self._raised_at = float("-inf")
        self._patience = _CALM_SECONDS

    def set_cap(self, cap: int) -> None:
        """Set the cap. A limit equal to the old cap becomes the new cap."""
        cap = max(1, cap)
        self.now = cap if self.now == self.cap else min(self.now, cap)
        self.cap = cap

    def heed(self, reading: MachineReading) -> bool:
        """Process a reading, every few seconds. Returns whether the limit changed."""
        hot = reading.cpu > HOT_CPU or reading.memory > HOT_MEMORY
        calm = reading.cpu < _CALM_CPU and reading.memory < _CALM_MEMORY
        self._hot_since = (reading.at if self._hot_since is None else self._hot_since) if hot else None
        self._calm_since = (reading.at if self._calm_since is None else self._calm_since) if calm else None
        before = self.now
        if self._hot_since is not None and reading.at - self._hot_since >= _HOT_SECONDS:
            self._lower(reading.at, 1 if reading.memory > HOT_MEMORY else _LEFT_BY_CPU)
        elif self._calm_since is not None and reading.at - self._calm_since >= self._patience:
            self._raise(reading.at)
        return self.now != before

    def _lower(self, at: float, floor: int) -> None:
        self._hot_since = at
        if self.now > floor:
            self.now -= 1
            soon = at - self._raised_at < _SOON_SECONDS
            self._patience = min(2 * self._patience, _LONGEST_CALM_SECONDS) if soon else _CALM_SECONDS

    def _raise(self, at: float) -> None:
        self._calm_since = at
        if self.now < self.cap:
            self.now += 1
            self._raised_at = at


@dataclass(frozen=True, slots=True)
class WaitingRun(Generic[R]):
    """A run that is due."""

    run: R
    due: datetime
    profile: Profile


def admit(waiting: Collection[WaitingRun[R]], live: Sequence[Profile], limit: Limit) -> list[WaitingRun[R]]:
    """Return the waiting runs that start now, in the order of their due times, which priority shifts by a minute.

    A kind at its own limit does not hold up other kinds. A background run needs no slot.
    """
    of_kind = Counter(profile.kind for profile in live)
    free = limit.now - sum(not profile.is_background for profile in live)
    chosen: list[WaitingRun[R]] = []
    for entry in sorted(waiting, key=lambda entry: entry.due + _HEAD_START[entry.profile.priority]):
        at_once, slots = entry.profile.at_once, 0 if entry.profile.is_background else 1
        if slots <= free and (at_once is None or of_kind[entry.profile.kind] < at_once):
            chosen.append(entry)
            of_kind[entry.profile.kind] += 1
            free -= slots
    return chosen
