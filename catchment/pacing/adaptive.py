"""The multiplier of a rate: halved in trouble, raised in calm, every five seconds. It slows intake, never draining."""

from __future__ import annotations

from dataclasses import dataclass, replace

from catchment.pacing.bucket import TOKEN

EVERY = 5 * TOKEN
"""Between two judgements, in microseconds."""
LOWEST, HIGHEST = 0.2, 2.0
_FULL, _EMPTY = 0.8, 0.3
"""A queue fuller than the one slows intake, one emptier than the other lets it run."""


@dataclass(frozen=True, slots=True)
class Adaptive:
    """How the host behaved since the last judgement, and what follows from the ones before."""

    multiplier: float = 1.0
    since: int = 0
    answers: int = 0
    slow: int = 0
    throttled: int = 0

    def noted(self, answers: int, slow: int, throttled: int) -> Adaptive:
        """The same after so many answers, of which so many were slow or said "too much"."""
        return replace(
            self, answers=self.answers + answers, slow=self.slow + slow, throttled=self.throttled + throttled
        )

    def judged(self, now: int, fill: float | None) -> Adaptive:
        """The same when it was time to judge. `fill` is how full the queue is, from 0 to 1 or above.

        Half of the answers have to be slow to count as trouble; without any answer there is no calm to tell.
        """
        if now - self.since < EVERY:
            return self
        multiplier = self.multiplier
        if self.throttled or self.slow * 2 > self.answers or (fill is not None and fill > _FULL):
            multiplier *= 0.5
        elif self.answers and (fill is None or fill < _EMPTY):
            multiplier *= 1.2
        return Adaptive(min(HIGHEST, max(LOWEST, multiplier)), now)

    def rate(self, rate: int) -> float:
        """Tokens a second: a calm host is asked faster, and trouble shows in the price of intake alone."""
        return rate * max(1.0, self.multiplier)

    def price(self, *, intake: bool) -> int:
        """What one request costs, in millionths of a token."""
        return int(TOKEN / min(1.0, self.multiplier)) if intake else TOKEN
