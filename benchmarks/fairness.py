"""How fairly sources were served: the figures, taken from what was seen of the turns."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from catchment.ledger.limits.turns import Standing

_TURN_SECONDS = 2.0
"""How long a turn may last before it goes to another (see `SourceSync.claim`)."""


@dataclass(frozen=True)
class Look:
    """The turns at one moment, in seconds since 1970."""

    at: float
    standings: Sequence[Standing]


@dataclass(frozen=True)
class Fairness:
    """Jain's index over what each source had of what it was due, the least of these; the share of grants that were inversions.

    A source is due its share of the turns that are held, by weight and no more than one, as long as it holds or wants one.
    One that was due less than a turn's length in all is not counted: a single wait is all of it. Who starves is due ever more.
    """

    jain: float
    least: float
    grants: int
    inversions: float


def jain(service: Sequence[float]) -> float:
    """Jain's index: 1 where all were served alike, 1/n where one had everything."""
    squares = sum(value * value for value in service)
    return sum(service) ** 2 / (len(service) * squares) if squares else 1.0


def judge(looks: Sequence[Look]) -> Fairness:
    """What the looks tell, each standing for the time until the next."""
    due: defaultdict[int, float] = defaultdict(float)
    had: defaultdict[int, float] = defaultdict(float)
    for look, following in itertools.pairwise(looks):
        seconds = following.at - look.at
        active = [one for one in look.standings if one.active]
        held = [one for one in active if one.held]
        for number, share in shares({one.source_id: one.weight for one in active}, len(held)).items():
            due[number] += share * seconds
        for one in held:
            had[one.source_id] += seconds
    ratios = [had[number] / wanted for number, wanted in due.items() if wanted >= _TURN_SECONDS]
    grants, inverted = _inversions(looks)
    return Fairness(jain(ratios), min(ratios, default=1.0), grants, inverted / grants if grants else 0.0)


def shares(weights: Mapping[int, int], turns: float) -> dict[int, float]:
    """Divide turns among sources by weight; what is more than one goes to the others."""
    left = dict(weights)
    found: dict[int, float] = {}
    while left:
        each = turns / sum(left.values())
        full = [number for number, weight in left.items() if weight * each >= 1] if turns < len(left) else list(left)
        if not full:
            return found | {number: weight * each for number, weight in left.items()}
        for number in full:
            del left[number]
            found[number] = 1.0
        turns -= len(full)
    return found


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
                inverted += _any_before(waited.get(one.sync_id, one), passed_over)
    return grants, inverted


def _any_before(one: Standing, others: Collection[Standing]) -> bool:
    return any(other.tag < one.tag for other in others)
