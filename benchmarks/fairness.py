"""How fairly sources of equal priority were served, from the items of each in the library at several moments."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_LEAST_ITEMS = 250
"""A source that was due fewer items than a batch is not counted: one batch is all of it."""


@dataclass(frozen=True)
class Look:
    """The items of each source that are done at one moment; sources that have begun and are not done are `active`."""

    done: Mapping[str, int]
    active: frozenset[str]


@dataclass(frozen=True)
class Fairness:
    """Jain's index over each source's part of the items that it was due, and the least of these.

    The active sources are due equal parts of all items done between two looks.
    """

    jain: float
    least: float


def jain(service: Sequence[float]) -> float:
    """Jain's index: 1 where all were served alike, 1/n where one had everything."""
    squares = sum(value * value for value in service)
    return sum(service) ** 2 / (len(service) * squares) if squares else 1.0


def judge(looks: Sequence[Look]) -> Fairness:
    """Judge by the items done from each look to the next."""
    due: defaultdict[str, float] = defaultdict(float)
    had: defaultdict[str, float] = defaultdict(float)
    for before, after in itertools.pairwise(looks):
        done = {name: after.done[name] - before.done[name] for name in before.active}
        for name, items in done.items():
            due[name] += sum(done.values()) / len(done)
            had[name] += items
    ratios = [had[name] / items for name, items in due.items() if items >= _LEAST_ITEMS]
    return Fairness(jain(ratios), min(ratios, default=1.0))
