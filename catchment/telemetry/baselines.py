"""Baselines: the usual values of a series, by median and MAD, and the hours in which it is unusual.

Values are compared hour by hour, because rhythms are: an hour of the week with the same hour of the weeks before, else with the
same hour of other days, else with all hours.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from catchment.telemetry.catalogue import BOUNDS

HISTORY_DAYS = 30
"""Days of values for a baseline: as long as hours are kept."""
_FEWEST = 100
"""Values without which a series is not judged."""
_FEWEST_ALIKE = 10
"""Values of the same hour for a baseline of it. A slot of three neighbouring hours has 12 in four weeks."""
_OPEN, _CLEAR = 3.0, 2.0
"""|z| from which two hours in a row are unusual, and below which an hour is usual again."""
_APART = 24
"""Hours around the judged hour that are not in its baseline."""
_TO_SIGMA = 1.4826
_SMALLEST_SHARE = 0.05
"""Floor of the spread, as a share of the median."""
_DAY, _WEEK = 24, 168


@dataclass(frozen=True, slots=True)
class SeriesRule:
    """How a series is judged.

    Attributes:
        sign: 1 if only high values matter, -1 if only low ones do.
        scaled: Makes the spread independent of the size of the values: logarithm of times, square root of counts.
        floor: Smallest spread of the scaled values; 0.5 is that of the square root of a count of random events.
        least, factor: Difference and ratio to the median below which a value is normal. A person need not know of a slow day,
            or of a host that takes three times as long for some hours.
    """

    name: str
    sign: int
    scaled: Callable[[float], float]
    floor: float
    least: float
    factor: float = 2.0


RULES = {
    rule.name: rule
    for rule in (
        SeriesRule("throughput", -1, math.sqrt, 0.5, 10.0, 10.0),
        SeriesRule("duration", 1, lambda seconds: math.log(max(seconds, 0.001)), _SMALLEST_SHARE, 1.0, 4.0),
        SeriesRule("backlog", 1, math.sqrt, 0.5, 100.0),
        SeriesRule("failures", 1, math.sqrt, 0.5, 5.0),
    )
}
"""The rules by name."""


class HourlySeries:
    """The values of one series by hour (hours since 1970; hours without a value are missing), and its unusual values."""

    def __init__(self, rule: SeriesRule, values: Mapping[int, float]) -> None:
        self.rule, self.values = rule, values
        self._scaled = {hour: rule.scaled(value) for hour, value in values.items()}
        self._slots: dict[int, list[int]] = defaultdict(list)
        for hour in values:
            self._slots[hour % _WEEK].append(hour)

    def since(self, hour: int) -> int | None:
        """Return the hour since which the series is unusual in this hour; None if it is usual."""
        first, was_high = None, False
        while (score := self._score(hour)) >= _CLEAR:
            is_high = score >= _OPEN
            if is_high and was_high:
                first = hour
            was_high, hour = is_high, hour - 1
        return first

    def usual(self, hour: int) -> float:
        """Return the median of the values with which an hour is compared; 0 without any."""
        alike = self._alike(hour)
        return median(self.values[each] for each in alike) if alike else 0.0

    def _score(self, hour: int) -> float:
        """Return z, positive in the direction that matters; 0 if the value is missing or differs too little to matter."""
        if hour not in self.values or len(self.values) < _FEWEST:
            return 0.0
        alike = self._alike(hour)
        if not alike:
            return 0.0
        value, scaled = self.values[hour], [self._scaled[each] for each in alike]
        middle = median(scaled)
        usual = median(self.values[each] for each in alike)
        larger, smaller = (value, usual) if self.rule.sign > 0 else (usual, value)
        if larger - smaller < self.rule.least or larger < self.rule.factor * smaller:
            return 0.0
        mad = median(abs(each - middle) for each in scaled)
        spread = max(_TO_SIGMA * mad, _SMALLEST_SHARE * abs(middle), self.rule.floor)
        return self.rule.sign * (self._scaled[hour] - middle) / spread

    def _alike(self, hour: int) -> list[int]:
        """Return the hours with which one is compared."""
        for period in (_WEEK, _DAY, 1):
            slots = {(hour + near) % period for near in (-1, 0, 1)}
            alike = [
                each
                for first in slots
                for slot in range(first, _WEEK, period)
                for each in self._slots.get(slot, ())
                if abs(each - hour) >= _APART
            ]
            if len(alike) >= _FEWEST_ALIKE:
                return alike
        return []


def quantile(buckets: Sequence[int], share: float) -> float | None:
    """Return the value below which a share of a histogram lies, linear within a bucket; None if the histogram is empty."""
    left = share * sum(buckets)
    if not left:
        return None
    lower = 0.0
    for upper, number in zip((*BOUNDS, BOUNDS[-1]), buckets, strict=True):
        if number >= left:
            return lower + (upper - lower) * left / number
        left, lower = left - number, upper
    return lower
