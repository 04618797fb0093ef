"""How fairly sources were served: the two figures, taken from what was seen of the turns and of the jobs."""

from __future__ import annotations

import itertools
import statistics
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from catchment.ledger.turns import Standing


@dataclass(frozen=True)
class Look:
    """The turns at one moment, in seconds since 1970."""

    at: float
    standings: Sequence[Standing]


@dataclass(frozen=True)
class Served:
    """One source: its weight, and when each of its items was finished, in order of time."""

    source_id: int
    weight: int
    finished: Sequence[float]

    def items(self, start: float, end: float) -> int:
        """How many items were finished within this time."""
        return bisect_left(self.finished, end) - bisect_left(self.finished, start)


@dataclass(frozen=True)
class Fairness:
    """Jain's index over `windows` windows, of turns held and of items finished; the share of grants that were inversions."""

    windows: int
    jain_turns: float
    jain_turns_least: float
    jain_items: float
    grants: int
    inversions: float


def jain(service: Sequence[float]) -> float:
    """Jain's index: 1 where all were served alike, 1/n where one had everything."""
    squares = sum(value * value for value in service)
    return sum(service) ** 2 / (len(service) * squares) if squares else 1.0


def judge(looks: Sequence[Look], served: Mapping[int, Served], window: float) -> Fairness:
    """Cut the time into windows of so many seconds. Each counts the sources that held a turn or waited for one in every look
    of it, if there are two or more: one that was done within it got all that it asked for. Service is divided by weight.
    """
    turns: list[float] = []
    items: list[float] = []
    start = looks[0].at
    while start + window <= looks[-1].at:
        inside = [look for look in looks if start <= look.at < start + window]
        rivals = [served[number] for number in _always_active(inside) if number in served]
        if len(rivals) > 1:
            turns.append(jain([_held(inside, one.source_id) / one.weight for one in rivals]))
            items.append(jain([one.items(start, start + window) / one.weight for one in rivals]))
        start += window
    grants, inverted = _inversions(looks)
    return Fairness(
        len(turns),
        statistics.fmean(turns or [1.0]),
        min(turns or [1.0]),
        statistics.fmean(items or [1.0]),
        grants,
        inverted / grants if grants else 0.0,
    )


def _always_active(looks: Sequence[Look]) -> set[int]:
    active = [{one.source_id for one in look.standings if one.active} for look in looks]
    return set.intersection(*active) if active else set()


def _held(looks: Sequence[Look], source_id: int) -> int:
    return sum(one.held for look in looks for one in look.standings if one.source_id == source_id)


def _inversions(looks: Sequence[Look]) -> tuple[int, int]:
    """The grants of turns, and how many of them passed over a source that waited all along and had had less service."""
    grants = inverted = 0
    for before, after in itertools.pairwise(looks):
        held = {one.sync_id for one in before.standings if one.held}
        waited = {one.sync_id: one for one in before.standings if one.waits_since is not None}
        passed_over = [waited[one.sync_id] for one in after.standings if one.sync_id in waited and not one.held]
        for one in after.standings:
            if one.held and one.sync_id not in held:
                grants += 1
                inverted += any(other.tag < waited.get(one.sync_id, one).tag for other in passed_over)
    return grants, inverted
