"""Fairness between concurrent syncs of equal priority, from the steps recorded by `tests/altered/recorded_steps.py`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Fairness:
    """How the fair queue shared its slots while syncs competed for them.

    `worked` and `due`: the seconds of each sync, in the order of their first steps. At each moment, the used slots are due in
    equal parts to the syncs that work or wait. `jain`: Jain's index over the ratios of worked to due seconds.
    """

    worked: list[float]
    due: list[float]
    longest_step: float
    jain: float


def jain(ratios: Collection[float]) -> float:
    """Jain's index: 1 if all ratios are equal, 1/n if one source received everything."""
    squares = sum(ratio * ratio for ratio in ratios)
    return sum(ratios) ** 2 / (len(ratios) * squares) if squares else 1.0


def judge(steps: Path) -> Fairness:
    """Compute the fairness from a file of recorded steps."""
    worked, due = defaultdict[str, float](float), defaultdict[str, float](float)
    waiting, at_work = Counter[str](), Counter[str]()
    begun: dict[str, float] = {}
    before = longest = 0.0
    lines = [line.split() for line in steps.read_text().splitlines()]
    for moment, event, sync, thread in sorted((float(line[0]), line[1], line[2], line[3]) for line in lines):
        working, wanting = +at_work, +(waiting + at_work)
        if len(wanting) > len(working):
            for each in working:
                worked[each] += moment - before
            for each in wanting:
                due[each] += (moment - before) * len(working) / len(wanting)
        before = moment
        match event:
            case "asked":
                waiting[sync] += 1
            case "started":
                waiting[sync] -= 1
                at_work[sync] += 1
                begun[thread] = moment
            case "ended":
                at_work[sync] -= 1
                longest = max(longest, moment - begun[thread])
    competed = [sync for sync, seconds in due.items() if seconds]
    return Fairness(
        [worked[sync] for sync in competed],
        [due[sync] for sync in competed],
        longest,
        jain([worked[sync] / due[sync] for sync in competed]),
    )
