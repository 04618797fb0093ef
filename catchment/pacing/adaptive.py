"""Adaptive rate multiplier: halved under load and raised by a fifth when calm, every five seconds.

It slows the discovery of new work (intake), never the processing of queued work.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from catchment.pacing.bucket import TOKEN

EVERY = 5 * TOKEN
"""Interval between adjustments, in microseconds."""
LOWEST, HIGHEST = 0.2, 2.0
_FULL, _EMPTY = 0.8, 0.3
"""Fill levels of the queue above which intake slows, and below which it may speed up."""


@dataclass(frozen=True, slots=True)
class Adaptive:
    """The current multiplier and the host's responses since the last adjustment."""

    multiplier: float = 1.0
    since: int = 0
    answers: int = 0
    slow: int = 0
    throttled: int = 0

    def noted(self, answers: int, slow: int, throttled: int) -> Adaptive:
        """Return a copy with further responses counted: all, slow ones, and rate-limit errors."""
        return replace(
            self, answers=self.answers + answers, slow=self.slow + slow, throttled=self.throttled + throttled
        )

    def judged(self, now: int, fill: float | None) -> Adaptive:
        """Return a copy with the multiplier adjusted, if an adjustment is due.

        More than half of the responses must be slow to reduce it. Without any response it is not raised.

        Args:
            now: Microseconds of the monotonic clock.
            fill: Fill level of the queue, where 1 is full; may exceed 1.
        """
        if now - self.since < EVERY:
            return self
        multiplier = self.multiplier
        if self.throttled or self.slow * 2 > self.answers or (fill is not None and fill > _FULL):
            multiplier *= 0.5
        elif self.answers and (fill is None or fill < _EMPTY):
            multiplier *= 1.2
        return Adaptive(min(HIGHEST, max(LOWEST, multiplier)), now)

    def rate(self, rate: float) -> float:
        """Return the refill rate in tokens per second. Multipliers below 1 affect the price of intake instead."""
        return rate * max(1.0, self.multiplier)

    def price(self, *, intake: bool) -> int:
        """Return the cost of one request, in millionths of a token."""
        return int(TOKEN / min(1.0, self.multiplier)) if intake else TOKEN
