"""Fairness between sources of equal priority, from the number of items of each in the library at several times."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_LEAST_ITEMS = 250
"""Minimum due share in items. A source due fewer than a batch is not counted, because one batch covers its share."""


@dataclass(frozen=True)
class Look:
    """The number of finished items of each source at one time. `active`: sources that have started but not finished."""

    done: Mapping[str, int]
    active: frozenset[str]


@dataclass(frozen=True)
class Fairness:
    """Jain's index over the ratio of received to due items of each source, and the smallest ratio.

    The items finished between two looks are due in equal shares to the active sources.
    """

    jain: float
    least: float


def jain(service: Sequence[float]) -> float:
    """Jain's index: 1 if all ratios are equal, 1/n if one source received everything."""
    squares = sum(value * value for value in service)
    return sum(service) ** 2 / (len(service) * squares) if squares else 1.0


def judge(looks: Sequence[Look]) -> Fairness:
    """Compute the fairness from the items finished between consecutive looks."""
    due: defaultdict[str, float] = defaultdict(float)
    had: defaultdict[str, float] = defaultdict(float)
    for before, after in itertools.pairwise(looks):
        done = {name: after.done[name] - before.done[name] for name in before.active}
        for name, items in done.items():
            due[name] += sum(done.values()) / len(done)
            had[name] += items
    ratios = [had[name] / items for name, items in due.items() if items >= _LEAST_ITEMS]
    return Fairness(jain(ratios), min(ratios, default=1.0))
