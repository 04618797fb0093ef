"""What a connector says of its host, and what the host says of itself."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum


class RateProfile(StrEnum):
    """How fast a host is asked: requests a second in the long run, and how many at once after a pause."""

    CONSERVATIVE = "conservative"
    MODERATE = "moderate"
    AGGRESSIVE = "aggressive"
    MAXIMUM = "maximum"

    @property
    def rate(self) -> int:
        """Requests a second."""
        return _PROFILES[self][0]

    @property
    def burst(self) -> int:
        """How many requests may follow at once when nothing was asked for a while."""
        return _PROFILES[self][1]


_PROFILES = {
    RateProfile.CONSERVATIVE: (10, 50),
    RateProfile.MODERATE: (50, 250),
    RateProfile.AGGRESSIVE: (200, 1_000),
    RateProfile.MAXIMUM: (500, 2_500),
}


@dataclass(frozen=True, slots=True)
class HostLimits:
    """How a connector means to treat its host; a rule of the operator may be stricter, never laxer.

    Sources of the same `host` and `login` share one rate and one budget, those of the same host the transfers `at_once` and
    the breaker. `per_hour` is what the host allows in an hour: nine tenths of it are used. `slow` is the seconds above which
    an answer counts as slow, `wait` the seconds to stay away when the host says "too much" and not for how long.
    """

    host: str
    login: str = ""
    profile: RateProfile = RateProfile.CONSERVATIVE
    at_once: int = 2
    per_hour: int | None = None
    slow: float = 5.0
    wait: float = 600.0

    @property
    def key(self) -> str:
        """What the rate is kept under: the host, and a hash where there is a login, which is nobody else's business."""
        return f"{self.host}#{hashlib.sha256(self.login.encode()).hexdigest()[:8]}" if self.login else self.host


_LARGEST = 1e10
"""No number of requests and no moment in seconds is larger; what is, makes no sense."""
_LONGEST = 86_400.0
"""Seconds for which a host is left alone at its word; then it may say it again."""
_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class RateReport:
    """What an answer said: stay away for `retry_after` seconds; `remaining` of `limit` requests for `resets_in` seconds."""

    retry_after: float | None = None
    limit: int | None = None
    remaining: int | None = None
    resets_in: float | None = None


def read_headers(headers: Mapping[str, str], now: datetime | None = None) -> RateReport:
    """What the headers of an HTTP answer say: `Retry-After` (RFC 9110, 10.2.3) and `X-RateLimit-*` as GitHub sends them.

    Moments are counted from the host's own `Date`, else from `now`, so that a clock that is wrong here does no harm. What
    cannot be read counts as not said. No wait is longer than a day: then the host may say it again.
    """
    said = {name.lower(): value.strip() for name, value in headers.items()}
    date = _moment(said.get("date")) or now or datetime.now(UTC)
    after = said.get("retry-after")
    retry_after = _number(after)
    if retry_after is None and (moment := _moment(after)) is not None:
        retry_after = max(0.0, (moment - date).total_seconds())
    retry_after = None if retry_after is None else min(retry_after, _LONGEST)
    limit, remaining, reset = (_number(said.get(f"x-ratelimit-{name}")) for name in ("limit", "remaining", "reset"))
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


def _moment(text: str | None) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text or "")
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
