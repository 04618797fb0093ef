"""Retry delays, computed from the retry policy, the failure class and the number of attempts."""

from __future__ import annotations

from collections.abc import Callable

from catchment.errors import FailureClass
from catchment.settings import RetryPolicy

IN_RUN_SECONDS = 5.0
"""Maximum delay spent inside a run. Longer delays are left to a later sync, so that no run idles."""


def delay(policy: RetryPolicy, failure_class: FailureClass, attempt: int, random: Callable[[], float]) -> float | None:
    """Return the seconds to wait after attempt number `attempt` (from 1), or None if the item must not be retried.

    `random` returns numbers in [0, 1).
    """
    if failure_class is FailureClass.PERMANENT or attempt >= policy.attempts:
        return None
    match policy.backoff:
        case "none":
            return None
        case "immediate":
            return 0.0
        case "fixed":
            base = policy.initial
        case "linear":
            base = policy.initial * attempt
        case "exponential":
            base = policy.initial * policy.multiplier ** (attempt - 1)
    return min(base, policy.maximum) * (1 + policy.jitter * (2 * random() - 1))
