"""The fairness measures of the load test."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.fairness import Fairness, jain, judge


def fairness(folder: Path, steps: str) -> Fairness:
    (folder / "steps").write_text(steps.replace(", ", "\n"))
    return judge(folder / "steps")


def test_index_is_one_for_equals_and_a_share_for_a_monopoly() -> None:
    assert jain([2.0, 2.0, 2.0]) == pytest.approx(1.0)
    assert jain([5.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)


def test_alternating_steps_are_fair(tmp_path: Path) -> None:
    first = "0 asked a 1, 0 asked b 2, 0 started a 1, 1 ended a 1, 1 asked a 1, 1 started b 2, 3 ended b 2, 3 asked b 2"
    assert fairness(tmp_path, f"{first}, 3 started a 1, 4 ended a 1") == Fairness([2.0, 2.0], [2.0, 2.0], 2.0, 1.0)


def test_overlapping_steps_of_a_sync_count_once(tmp_path: Path) -> None:
    steps = "0 asked a 1, 0 started a 1, 0 asked b 3, 1 asked a 2, 1 started a 2, 2 ended a 1, 4 ended a 2"
    assert fairness(tmp_path, steps) == Fairness([4.0, 0.0], [2.0, 2.0], 3.0, 0.5)


def test_time_without_competition_does_not_count(tmp_path: Path) -> None:
    first = "0 asked a 1, 0 started a 1, 9 asked b 2, 10 ended a 1, 10 asked a 1, 10 started b 2, 11 ended b 2"
    assert fairness(tmp_path, f"{first}, 11 started a 1, 90 ended a 1") == Fairness([1.0, 1.0], [1.0, 1.0], 79.0, 1.0)
