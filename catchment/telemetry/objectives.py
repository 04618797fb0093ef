"""Objectives: the required share of good syncs, saves and time, and the speed at which the permitted rest is used up.

burn = bad / total / (1 - target): at 1, exactly the permitted share is bad. It counts in a long and a short window, so that an
objective burns neither because of a single minute nor for hours after it recovered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

SPAN = timedelta(minutes=5)
"""Length of the spans in which events are counted: the short window of the first window."""
_WINDOWS = ((1, 14.4), (6, 6.0), (24, 3.0))
"""Hours of each long window, and the burn that is too fast in it. The short window is a twelfth."""
HISTORY = timedelta(hours=24)
"""The longest window."""
_FEWEST, _FEWEST_BAD = 10, 2
"""Fewest events for a judgement of a long window. With 4 syncs an hour, one failure would be a burn of 25."""


_SENTENCES = {
    "syncs": "{share} of syncs succeed",
    "duration": "{share} of syncs take at most {above} s",
    "backlog": "fewer than {above} jobs wait in {share} of 5-minute windows",
    "changes": "{share} of changes in watched folders are found within {above} s",
}


class ObjectiveStatus(StrEnum):
    """Whether an objective is kept."""

    MET = "met"
    BURNING = "burning"
    UNKNOWN = "insufficient data"


@dataclass(frozen=True, slots=True)
class Objective:
    """An objective: the share that has to be good. `above`: bound of good values; 0 without a bound."""

    name: str
    target: float
    above: float = 0.0

    def __str__(self) -> str:
        return _SENTENCES[self.name].format(share=f"{100 * self.target:.6g} %", above=f"{self.above:,.6g}")


SYNCS = Objective("syncs", 0.99)
DURATION = Objective("duration", 0.95, 300.0)
BACKLOG = Objective("backlog", 0.95, 1_000.0)
CHANGES = Objective("changes", 0.95, 2.0)
OBJECTIVES = (SYNCS, DURATION, BACKLOG, CHANGES)
"""The objectives with their default targets. Bounds in seconds are bounds of buckets of the histograms."""


class Events(NamedTuple):
    """The events in a span of time that begins at `at` (aware): all that count, and the bad ones."""

    at: datetime
    bad: int
    total: int


@dataclass(frozen=True, slots=True)
class Burn:
    """How fast an objective burns. `rate`: in the last hours; `recent`: in the last twelfth of them; None without events."""

    hours: int
    limit: float
    bad: int
    total: int
    rate: float | None
    recent: float | None

    @property
    def is_too_fast(self) -> bool:
        """Whether the burn is over its limit in both windows, with enough events to judge it."""
        is_enough = self.total >= _FEWEST and self.bad >= _FEWEST_BAD
        return is_enough and (self.rate or 0.0) >= self.limit and (self.recent or 0.0) >= self.limit


@dataclass(frozen=True, slots=True)
class ObjectiveState:
    """An objective, whether it is kept, and its burn in each window, shortest first.

    `text`: the objective in words. `good`: the share of the last 24 hours that was good; None without events.
    """

    objective: Objective
    text: str
    status: ObjectiveStatus
    burns: tuple[Burn, ...]
    good: float | None


def state(objective: Objective, events: Sequence[Events], now: datetime) -> ObjectiveState:
    """Return whether an objective is kept. `events`: in spans of `SPAN` of the last 24 hours, in any order."""
    burns = tuple(_burn(objective, events, now, hours, limit) for hours, limit in _WINDOWS)
    if any(burn.is_too_fast for burn in burns):
        status = ObjectiveStatus.BURNING
    else:
        status = ObjectiveStatus.MET if burns[-1].total >= _FEWEST else ObjectiveStatus.UNKNOWN
    longest = burns[-1]
    good = 1 - longest.bad / longest.total if longest.total else None
    return ObjectiveState(objective, str(objective), status, burns, good)


def _burn(objective: Objective, events: Iterable[Events], now: datetime, hours: int, limit: float) -> Burn:
    length = timedelta(hours=hours)
    bad, total = _sums(events, now - length, now)
    recent_bad, recent_total = _sums(events, now - length / 12, now)
    allowed = 1 - objective.target

    def rate(part: int, whole: int) -> float | None:
        return part / whole / allowed if whole else None

    return Burn(hours, limit, bad, total, rate(bad, total), rate(recent_bad, recent_total))


def _sums(events: Iterable[Events], since: datetime, now: datetime) -> tuple[int, int]:
    """Return the bad and all events since a time. Those after now were counted before the clock was set back."""
    within = [event for event in events if since - SPAN < event.at <= now]
    return sum(event.bad for event in within), sum(event.total for event in within)
