"""When an objective is met, burns, or has too little data."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from catchment.telemetry.objectives import (
    BACKLOG,
    CHANGES,
    DURATION,
    SYNCS,
    Burn,
    Events,
    Objective,
    ObjectiveState,
    ObjectiveStatus,
    state,
)

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def judged(objective: Objective, *spans: tuple[float, int, int]) -> ObjectiveState:
    """Judge events, each given as minutes ago, bad and total."""
    return state(objective, [Events(NOW - timedelta(minutes=ago), bad, total) for ago, bad, total in spans], NOW)


def test_burn_is_the_bad_share_divided_by_what_may_be_bad() -> None:
    hour, quarter, day = judged(SYNCS, (10, 1, 20), (200, 1, 30), (1_000, 0, 150)).burns
    assert (hour.bad, hour.total, hour.rate) == (1, 20, pytest.approx(5))
    assert (quarter.bad, quarter.total, quarter.rate) == (2, 50, pytest.approx(4))
    assert (day.bad, day.total, day.rate) == (2, 200, pytest.approx(1))


def test_objective_burns_while_long_and_short_window_do() -> None:
    assert judged(SYNCS, (2, 2, 4), (30, 1, 8)).status is ObjectiveStatus.BURNING


def test_objective_that_has_recovered_does_not_burn() -> None:
    """A third of the last hour failed, but no event of the last half hour, and few in a day."""
    assert judged(SYNCS, (2, 0, 4), (40, 4, 8), (600, 0, 400)).status is ObjectiveStatus.MET


@pytest.mark.parametrize(("bad", "status"), [(1, ObjectiveStatus.MET), (2, ObjectiveStatus.BURNING)])
def test_single_bad_event_never_burns(bad: int, status: ObjectiveStatus) -> None:
    assert judged(SYNCS, (2, bad, 10)).status is status


def test_too_few_events_in_an_hour_are_judged_with_the_longer_window() -> None:
    few = ((2, 2, 4),)
    assert judged(SYNCS, *few).status is ObjectiveStatus.UNKNOWN
    assert judged(SYNCS, *few, (300, 0, 6)).status is ObjectiveStatus.BURNING
    assert judged(SYNCS, *few, (1_400, 0, 1_000)).status is ObjectiveStatus.MET


def test_objective_without_any_events_has_insufficient_data() -> None:
    found = judged(CHANGES)
    assert (found.status.value, found.good) == ("insufficient data", None)
    assert [burn.rate for burn in found.burns] == [None] * 3


@pytest.mark.parametrize("objective", [DURATION, BACKLOG, CHANGES])
def test_five_percent_objective_burns_at_most_at_twenty(objective: Objective) -> None:
    found = judged(objective, *((ago, 1, 1) for ago in range(1, 1_440, 5)))
    assert [burn.rate for burn in found.burns] == [pytest.approx(20)] * 3
    assert found.status is ObjectiveStatus.BURNING


@pytest.mark.parametrize(("bad", "is_too_fast"), [(43, False), (44, True)])
def test_hour_of_an_hour_objective_burns_from_its_limit(bad: int, is_too_fast: bool) -> None:
    assert Burn(1, 14.4, bad, 300, bad / 300 / 0.01, 20.0).is_too_fast is is_too_fast


def test_events_from_before_a_clock_was_set_back_do_not_count() -> None:
    assert judged(SYNCS, (-60, 30, 30), (5, 0, 10)).status is ObjectiveStatus.MET


def test_objective_says_its_target_in_words() -> None:
    assert str(SYNCS) == "99 % of syncs succeed"
    assert str(BACKLOG) == "fewer than 1,000 jobs wait in 95 % of 5-minute windows"
