"""Limits of a host: limits declared by the connector, and limits reported in the responses of the host."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum

from catchment.model import time_of


class RateProfile(StrEnum):
    """A request rate: the long-term rate per second, and the burst permitted after a pause."""

    CONSERVATIVE = "conservative"
    MODERATE = "moderate"
    AGGRESSIVE = "aggressive"
    MAXIMUM = "maximum"

    @property
    def rate(self) -> int:
        """Requests per second."""
        return _PROFILES[self][0]

    @property
    def burst(self) -> int:
        """Number of requests permitted at once after a pause."""
        return _PROFILES[self][1]


_PROFILES = {
    RateProfile.CONSERVATIVE: (10, 50),
    RateProfile.MODERATE: (50, 250),
    RateProfile.AGGRESSIVE: (200, 1_000),
    RateProfile.MAXIMUM: (500, 2_500),
}


@dataclass(frozen=True, slots=True)
class HostLimits:
    """A connector's limits for its host. An operator's rule can tighten but not relax them.

    Sources with the same `host` and `login` share one rate and one budget. Sources with the same host share the `at_once` slots
    and the circuit breaker.

    Attributes:
        per_hour: Requests that the host permits per hour; nine tenths of them are used.
        slow: Seconds above which a response counts as slow.
        wait: Seconds to pause if the host reports a rate limit without a duration.
        every: Seconds between the beginnings of two requests, also of different sources. Replaces `profile` and `at_once`.
    """

    host: str
    login: str = ""
    profile: RateProfile = RateProfile.CONSERVATIVE
    at_once: int = 2
    per_hour: int | None = None
    slow: float = 5.0
    wait: float = 600.0
    every: float | None = None

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.profile.rate if self.every is None else 1 / self.every

    @property
    def burst(self) -> int:
        """Number of requests permitted at once after a pause."""
        return self.profile.burst if self.every is None else 1

    @property
    def key(self) -> str:
        """Storage key of the rate: the host, plus a hash of the login if there is one."""
        return f"{self.host}#{hashlib.sha256(self.login.encode()).hexdigest()[:8]}" if self.login else self.host


_LARGEST = 1e10
"""Larger numbers of requests or seconds are considered invalid."""
_LONGEST = 86_400.0
"""Maximum pause in seconds. After it, the host can request another one."""
_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class RateReport:
    """Rate-limit information in a response.

    Attributes:
        retry_after: Seconds to pause.
        limit, remaining: Requests allowed and remaining in the current window.
        resets_in: Seconds until the window ends.
    """

    retry_after: float | None = None
    limit: int | None = None
    remaining: int | None = None
    resets_in: float | None = None


def read_headers(headers: Mapping[str, str], now: datetime | None = None) -> RateReport:
    """Parse `Retry-After` (RFC 9110, 10.2.3) and GitHub's `X-RateLimit-*` headers.

    Times are relative to the host's `Date` header, or to `now` without one, so that a wrong local clock has no effect. Invalid
    values are ignored. Durations are capped at one day.
    """
    values = {name.lower(): value.strip() for name, value in headers.items()}
    date = time_of(values.get("date"), parsedate_to_datetime) or now or datetime.now(UTC)
    after = values.get("retry-after")
    retry_after = _number(after)
    if retry_after is None and (moment := time_of(after, parsedate_to_datetime)) is not None:
        retry_after = max(0.0, (moment - date).total_seconds())
    retry_after = None if retry_after is None else min(retry_after, _LONGEST)
    limit, remaining, reset = (_number(values.get(f"x-ratelimit-{name}")) for name in ("limit", "remaining", "reset"))
    return RateReport(
        retry_after,
        None if limit is None else int(min(limit, _MOST)),
        None if remaining is None else int(min(remaining, _MOST)),
        None if reset is None else min(max(0.0, reset - date.timestamp()), _LONGEST),
    )


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number <= _LARGEST else None
