"""The token bucket and the hour's budget, as arithmetic: no clock and no storage.

Times are microseconds of a monotonic clock (see `catchment.ledger.limits.pacing`). Tokens are counted in millionths: a rate in
tokens per second equals the same number of millionths per microsecond, so no rounding occurs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from catchment.pacing.limits import RateReport

TOKEN = 1_000_000
"""Millionths per token; also microseconds per second."""
HOUR = 3_600 * TOKEN
_SHARE = 90
"""Percentage of the host's allowance that may be used."""
_SAME_WINDOW = 60 * TOKEN
"""Window ends closer together than this are the same end, reported at different times."""


@dataclass(frozen=True, slots=True)
class Budget:
    """An hourly request budget: `used` of `limit` requests until `until`.

    `until` is None before the first request. `sure` is True if the host reported the window, False if it is estimated.
    """

    limit: int
    used: int = 0
    until: int | None = None
    sure: bool = False

    def at(self, now: int) -> Budget:
        """Return the budget at the given time; an expired window yields an unused budget."""
        return Budget(self.limit) if self.until is not None and now >= self.until else self

    @property
    def left(self) -> int:
        """Number of requests still available in this window."""
        return max(0, self.limit * _SHARE // 100 - self.used)

    def spend(self, number: int, now: int) -> Budget:
        """Return the budget after `number` more requests. The first request starts the window."""
        return replace(self, used=self.used + number, until=now + HOUR if self.until is None else self.until)

    def spare(self, number: int, window: int | None) -> Budget:
        """Return the budget after refunding requests of the given window. Refunds for another window are ignored."""
        return replace(self, used=max(0, self.used - number)) if window == self.until else self

    def reported(self, limit: int, remaining: int, until: int) -> Budget:
        """Return the budget after a report from the host. Requests reserved here but not yet sent remain counted."""
        used = max(0, limit - remaining)
        if self.until is None:
            return Budget(limit, used, until, sure=True)
        if self.sure and until < self.until - _SAME_WINDOW:
            # A late response, from before the window began.
            return self
        if until > self.until + _SAME_WINDOW:
            return Budget(limit, used, until, sure=True)
        return Budget(limit, max(used, self.used), self.until if self.sure else until, sure=True)


@dataclass(frozen=True, slots=True)
class Grant:
    """Result of `Bucket.take`.

    Attributes:
        number: Requests granted; 0 if the caller must wait until `until`.
        until: Earliest time for the next attempt or, after a grant, the end of the budget's window (None without a budget).
        of_rate: True if only the token rate requires the wait.
    """

    number: int
    until: int | None = None
    of_rate: bool = False


@dataclass(frozen=True, slots=True)
class Bucket:
    """A token bucket: `tokens` at time `at`. Grants no token before `not_before` or beyond the budget."""

    tokens: int
    at: int
    not_before: int = 0
    budget: Budget | None = None

    def settled(self, now: int, rate: float, burst: int) -> Bucket:
        """Return the bucket at the given time, refilled at `rate` tokens per second up to `burst`."""
        gained = int(max(0, now - self.at) * rate)
        budget = self.budget.at(now) if self.budget else None
        return replace(self, tokens=min(burst * TOKEN, self.tokens + gained), at=max(now, self.at), budget=budget)

    def take(self, cost: int, price: int, rate: float, burst: int) -> tuple[Bucket, Grant]:
        """Grant `cost` requests of `price` each. The bucket must be settled.

        A request that costs more than a full bucket is granted when the bucket is full, and leaves it in debt.
        """
        if self.at < self.not_before:
            return self, Grant(0, self.not_before)
        if self.budget is not None and self.budget.left < cost:
            return self, Grant(0, self.budget.until or self.at + HOUR)
        lacking = min(cost * price, burst * TOKEN) - self.tokens
        if lacking > 0:
            return self, Grant(0, self.at + int(lacking / rate) + 1, of_rate=True)
        budget = self.budget.spend(cost, self.at) if self.budget else None
        return replace(self, tokens=self.tokens - cost * price, budget=budget), Grant(
            cost, budget.until if budget else None
        )

    def put_back(self, number: int, price: int, burst: int, window: int | None) -> Bucket:
        """Return requests that were granted in `window` but not sent, or that were free."""
        budget = self.budget.spare(number, window) if self.budget else None
        return replace(self, tokens=min(burst * TOKEN, self.tokens + number * price), budget=budget)

    def reported(self, report: RateReport) -> Bucket:
        """Return the bucket after a report from the host, received at the time to which the bucket is settled."""
        budget, not_before = self.budget, self.not_before
        if report.retry_after is not None:
            not_before = max(not_before, self.at + int(report.retry_after * TOKEN))
        if report.limit is not None and report.remaining is not None and report.resets_in is not None:
            until = self.at + int(report.resets_in * TOKEN)
            budget = (budget or Budget(report.limit)).reported(report.limit, report.remaining, until)
        return replace(self, not_before=not_before, budget=budget)
