from __future__ import annotations

import pytest

from catchment.errors import FailureClass
from catchment.settings import RetryPolicy
from catchment.sync.backoff import delay

TRANSIENT = FailureClass.TRANSIENT


def no_jitter() -> float:
    return 0.5


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        ("exponential", [30, 60, 120, 240, 300]),
        ("linear", [30, 60, 90, 120, 150]),
        ("fixed", [30, 30, 30, 30, 30]),
        ("immediate", [0, 0, 0, 0, 0]),
        ("none", [None, None, None, None, None]),
    ],
)
def test_backoff_delays_match_their_kind(backoff: str, expected: list[float | None]) -> None:
    policy = RetryPolicy.model_validate({"backoff": backoff, "attempts": 9})
    assert [delay(policy, TRANSIENT, attempt, no_jitter) for attempt in range(1, 6)] == expected


def test_last_attempt_is_not_retried() -> None:
    policy = RetryPolicy(attempts=3)
    assert delay(policy, TRANSIENT, 2, no_jitter) == 60
    assert delay(policy, TRANSIENT, 3, no_jitter) is None


def test_a_permanent_failure_is_never_tried_again() -> None:
    assert delay(RetryPolicy(), FailureClass.PERMANENT, 1, no_jitter) is None


def test_jitter_stays_within_its_share() -> None:
    policy = RetryPolicy(initial=100, maximum=1_000, jitter=0.2)
    assert delay(policy, TRANSIENT, 1, lambda: 0.0) == pytest.approx(80)
    assert delay(policy, TRANSIENT, 1, lambda: 0.999_999) == pytest.approx(120, rel=1e-4)
