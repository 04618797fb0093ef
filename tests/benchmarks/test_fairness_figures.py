"""The fairness measures of the load test."""

from __future__ import annotations

import pytest

from benchmarks.fairness import Look, jain, judge


def look(one: int, two: int, active: str = "one two") -> Look:
    return Look({"one": one, "two": two}, frozenset(active.split()))


def test_index_is_one_for_equals_and_a_share_for_a_monopoly() -> None:
    assert jain([2.0, 2.0, 2.0]) == pytest.approx(1.0)
    assert jain([5.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)


def test_alternating_batches_are_fair_and_a_monopoly_is_not() -> None:
    fair = judge([look(0, 0), look(500, 0), look(500, 500), look(1_000, 500), look(1_000, 1_000)])
    assert (fair.jain, fair.least) == pytest.approx((1.0, 1.0))
    unfair = judge([look(0, 0), look(500, 0), look(1_000, 0)])
    assert (unfair.jain, unfair.least) == pytest.approx((0.5, 0.0))


def test_finished_source_is_due_no_time() -> None:
    looks = [look(0, 0), look(500, 500, "one"), look(5_000, 500, "one"), look(9_000, 500, "")]
    assert judge(looks).jain == pytest.approx(1.0)


def test_source_that_was_due_less_than_a_batch_does_not_count() -> None:
    brief = judge([look(0, 0), look(400, 0, "one"), look(5_000, 0)])
    assert (brief.jain, brief.least) == pytest.approx((1.0, 5_000 / 4_800))
