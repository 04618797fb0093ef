"""What the load test calls fair."""

from __future__ import annotations

import pytest

from benchmarks.fairness import Look, jain, judge, shares
from catchment.ledger.limits.turns import Standing


def standing(source: int, *, held: bool, tag: int = 0, weight: int = 3) -> Standing:
    times = {"counts_until": 1} if held else {"waits_since": 1}
    return Standing(source, source, "somebody", "obsidian", 4, weight, tag, **times)


def test_the_index_is_one_for_equals_and_a_share_for_a_monopoly() -> None:
    assert jain([2.0, 2.0, 2.0]) == pytest.approx(1.0)
    assert jain([5.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)


def test_turns_are_divided_by_weight_and_nobody_is_due_more_than_one() -> None:
    assert shares({1: 3, 2: 3, 3: 3}, 2) == pytest.approx({1: 2 / 3, 2: 2 / 3, 3: 2 / 3})
    assert shares({1: 9, 2: 3, 3: 1}, 2) == pytest.approx({1: 1.0, 2: 0.75, 3: 0.25})
    assert shares({1: 3, 2: 3}, 2) == {1: 1.0, 2: 1.0}
    assert shares({}, 2) == {}


def test_two_who_take_turns_are_served_alike_and_one_who_only_waits_is_seen() -> None:
    def look(at: float, holder: int) -> Look:
        return Look(at, [standing(one, held=one == holder) for one in (1, 2)])

    fair = judge([look(0, 1), look(1, 2), look(2, 1), look(3, 2), look(4, 1)])
    assert (fair.jain, fair.least) == pytest.approx((1.0, 1.0))
    unfair = judge([look(at, 1) for at in range(5)])
    assert (unfair.jain, unfair.least) == pytest.approx((0.5, 0.0))


def test_a_source_that_was_due_less_than_a_turn_does_not_count() -> None:
    both = [standing(1, held=True), standing(2, held=False)]
    alone = [standing(1, held=True)]
    brief = judge([Look(0, both), Look(1, alone), Look(9, alone)])
    assert (brief.jain, brief.least) == pytest.approx((1.0, 9 / 8.5))


def test_a_grant_that_passes_over_one_with_less_service_is_an_inversion() -> None:
    before = Look(0, [standing(1, held=False, tag=5), standing(2, held=False, tag=9)])
    right = Look(1, [standing(1, held=True, tag=5), standing(2, held=False, tag=9)])
    wrong = Look(1, [standing(1, held=False, tag=5), standing(2, held=True, tag=9)])
    assert (judge([before, right]).grants, judge([before, right]).inversions) == (1, 0.0)
    assert (judge([before, wrong]).grants, judge([before, wrong]).inversions) == (1, 1.0)
