"""The usual figures of an hour, and the decision that a series is unusual."""

from __future__ import annotations

import random

import pytest

from catchment.telemetry.baselines import RULES, HourlySeries, quantile
from catchment.telemetry.catalogue import BOUNDS

WEEKS = 4
NOW = 168 * 3_000
"""An hour since 1970."""


def series(name: str, weeks: float = WEEKS, noise: float = 0.1, **latest: float) -> HourlySeries:
    """Return a series of 100 with noise, and other values in the last hours ("h0" is the last, "h1" the one before)."""
    chance = random.Random(3)
    values = {NOW - ago: 100 * chance.uniform(1 - noise, 1 + noise) for ago in range(int(weeks * 168))}
    return HourlySeries(RULES[name], {**values, **{NOW - int(key[1:]): value for key, value in latest.items()}})


@pytest.mark.parametrize(
    ("name", "unusual"), [("duration", 500.0), ("backlog", 900.0), ("failures", 900.0), ("throughput", 0.0)]
)
def test_two_hours_in_a_row_are_unusual(name: str, unusual: float) -> None:
    assert series(name, h0=unusual, h1=unusual).since(NOW) == NOW - 1
    assert series(name, h0=unusual).since(NOW) is None
    assert series(name).since(NOW) is None


@pytest.mark.parametrize(("name", "harmless"), [("duration", 1.0), ("backlog", 0.0), ("throughput", 900.0)])
def test_only_one_direction_is_judged(name: str, harmless: float) -> None:
    assert series(name, h0=harmless, h1=harmless).since(NOW) is None


def test_anomaly_lasts_until_the_score_is_below_two() -> None:
    """900 opens it, 310 is too little to open it and more than usual, 110 is usual."""
    lasting = series("backlog", noise=0.9, h4=900, h3=900, h2=310, h1=310, h0=310)
    assert [lasting.since(NOW - ago) for ago in (4, 3, 2, 0)] == [None, NOW - 4, NOW - 4, NOW - 4]
    assert series("backlog", noise=0.9, h1=310, h0=310).since(NOW) is None
    assert series("backlog", noise=0.9, h4=900, h3=900, h2=110, h1=310, h0=900).since(NOW) is None


def test_series_of_fewer_than_a_hundred_hours_is_not_judged() -> None:
    assert series("duration", weeks=99 / 168, h0=900, h1=900).since(NOW) is None
    assert series("duration", weeks=101 / 168, h0=900, h1=900).since(NOW) == NOW - 1


def test_hour_is_compared_with_the_same_hour_of_other_weeks() -> None:
    """Each week has one busy hour; with fewer weeks, it is compared with other days, where it is idle."""

    def weekly(weeks: int) -> HourlySeries:
        values = {NOW - ago: 400.0 if ago % 168 < 3 else 1.0 for ago in range(weeks * 168)}
        return HourlySeries(RULES["backlog"], values)

    assert weekly(5).since(NOW) is None
    assert weekly(2).since(NOW) is not None


def test_missing_hour_ends_an_anomaly() -> None:
    """The machine slept."""
    values = {**series("duration", h0=900, h2=900, h3=900).values}
    del values[NOW - 1]
    assert HourlySeries(RULES["duration"], values).since(NOW) is None


def test_series_of_zeros_has_a_floor() -> None:
    quiet = {NOW - ago: 0.0 for ago in range(400)}
    few = {**quiet, NOW: 2.0, NOW - 1: 2.0}
    many = {**quiet, NOW: 12.0, NOW - 1: 12.0}
    assert HourlySeries(RULES["failures"], few).since(NOW) is None
    assert HourlySeries(RULES["failures"], many).since(NOW) == NOW - 1


def test_half_as_slow_again_is_nobodys_concern() -> None:
    """The spread is tiny, so z is large."""
    values = {NOW - ago: 10.0 for ago in range(400)}
    assert HourlySeries(RULES["duration"], {**values, NOW: 15.0, NOW - 1: 15.0}).since(NOW) is None


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [([], 0.5, None), ([1.5] * 10, 0.5, 1.5), ([0.3] * 95 + [4.0] * 5, 0.95, 0.5), ([9_999.0], 0.95, 3_600.0)],
)
def test_quantile_lies_in_the_bucket_of_the_values(values: list[float], share: float, expected: float | None) -> None:
    buckets = [
        sum(lower < value <= upper for value in values) for lower, upper in zip((0, *BOUNDS), BOUNDS, strict=False)
    ]
    assert quantile([*buckets, sum(value > BOUNDS[-1] for value in values)], share) == expected
