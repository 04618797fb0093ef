"""The token bucket and the hour's budget, as arithmetic: no clock and no storage.

Times are microseconds of a monotonic clock (see `catchment.ledger.limits.pacing`). Tokens are counted in millionths: a rate in
tokens per second equals the same number of millionths per microsecond, so no rounding occurs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from catchment.pacing.limits import RateReport

TOKEN = 1_000_000
"""One token, in the millionths that are counted; and one second, in the microseconds that are."""
HOUR = 3_600 * TOKEN
_SHARE = 90
"""How much of what a host allows is used at most, in percent."""
_SAME_WINDOW = 60 * TOKEN
"""Ends of a window that differ by less are the same end, told at another moment."""


@dataclass(frozen=True, slots=True)
class Budget:
    """`used` of `limit` requests until `until`; a budget that was not used yet has no end. `sure`: the host said when."""

    limit: int
    used: int = 0
    until: int | None = None
    sure: bool = False

    def at(self, now: int) -> Budget:
        """The same as it is now: a window that is over leaves an unused one."""
        return Budget(self.limit) if self.until is not None and now >= self.until else self

    @property
    def left(self) -> int:
        """How many requests may still be made in this window."""
        return max(0, self.limit * _SHARE // 100 - self.used)

    def spend(self, number: int, now: int) -> Budget:
        """The same when so many requests were made; the first one begins the window."""
        return replace(self, used=self.used + number, until=now + HOUR if self.until is None else self.until)

    def spare(self, number: int, window: int | None) -> Budget:
        """The same when so many requests of that window were not made after all; of another window they say nothing."""
        return replace(self, used=max(0, self.used - number)) if window == self.until else self

    def told(self, limit: int, remaining: int, until: int) -> Budget:
        """The same when the host said so. What is reserved here and not yet asked for is in `used` and stays there."""
        used = max(0, limit - remaining)
        if self.until is None:
            return Budget(limit, used, until, sure=True)
        if self.sure and until < self.until - _SAME_WINDOW:
            # An answer from before the window began, that was overtaken by a later one.
            return self
        if until > self.until + _SAME_WINDOW:
            return Budget(limit, used, until, sure=True)
        return Budget(limit, max(used, self.used), self.until if self.sure else until, sure=True)


@dataclass(frozen=True, slots=True)
class Grant:
    """What was granted: `number` requests, 0 when `until` has to be waited for first; `of_rate` if only the rate says so.

    Of what was granted, `until` is the end of the budget's window, if there is a budget.
    """

    number: int
    until: int | None = None
    of_rate: bool = False


@dataclass(frozen=True, slots=True)
class Bucket:
    """`tokens` as they were `at` that moment; nothing is granted before `not_before`, nor beyond the budget."""

    tokens: int
    at: int
    not_before: int = 0
    budget: Budget | None = None

    def settled(self, now: int, rate: float, burst: int) -> Bucket:
        """The same as it is now, filled up at `rate` tokens a second and to `burst` at most."""
        gained = int(max(0, now - self.at) * rate)
        budget = self.budget.at(now) if self.budget else None
        return replace(self, tokens=min(burst * TOKEN, self.tokens + gained), at=max(now, self.at), budget=budget)

    def take(self, cost: int, price: int, rate: float, burst: int) -> tuple[Bucket, Grant]:
        """Grant `cost` requests of `price` each to a bucket that is settled.

        What costs more than the bucket holds is granted when it is full, and owed.
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
        """Give back requests that were granted, for the window that the grant named, and not made or cost nothing."""
        budget = self.budget.spare(number, window) if self.budget else None
        return replace(self, tokens=min(burst * TOKEN, self.tokens + number * price), budget=budget)

    def told(self, said: RateReport) -> Bucket:
        """The same when the host said so, at the moment for which the bucket is settled."""
        budget, not_before = self.budget, self.not_before
        if said.retry_after is not None:
            not_before = max(not_before, self.at + int(said.retry_after * TOKEN))
        if said.limit is not None and said.remaining is not None and said.resets_in is not None:
            until = self.at + int(said.resets_in * TOKEN)
            budget = (budget or Budget(said.limit)).told(said.limit, said.remaining, until)
        return replace(self, not_before=not_before, budget=budget)
