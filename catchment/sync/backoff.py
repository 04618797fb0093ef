"""When a failed item is tried again: a policy, a failure class and a number of attempts give a moment, or never."""

from __future__ import annotations

from collections.abc import Callable

from catchment.model import FailureClass
from catchment.settings import RetryPolicy

IN_RUN_SECONDS = 5.0
"""A wait up to this long happens inside the run; a longer one is left to a later sync, so that no run sits and sleeps."""


def delay(policy: RetryPolicy, failure_class: FailureClass, attempt: int, random: Callable[[], float]) -> float | None:
    """Seconds to wait after failed attempt number `attempt` (from 1), or None when it shall not be tried again.

    `random` gives numbers in [0, 1).
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
