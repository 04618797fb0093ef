"""Figures that were counted and are not stored yet."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest

from catchment.telemetry.catalogue import BOUNDS, Kind, Metric

Key = tuple[str, str, int]
"""Metric name, labels as `a=x,b=y` in the order of the catalogue, and source ID (0: none)."""


@dataclass(slots=True)
class Figure:
    """Number of values and their sum, and for histograms the number of values in each bucket.

    Two figures of one series add up to one. The value of a counter is the sum.
    """

    n: int = 0
    total: float = 0.0
    buckets: list[int] = field(default_factory=list)

    def add(self, other: Figure) -> None:
        """Add another figure of the same series."""
        self.n += other.n
        self.total += other.total
        self.buckets = [a + b for a, b in zip_longest(self.buckets, other.buckets, fillvalue=0)]


def label_values(labels: str) -> tuple[str, ...]:
    """Return the values of the labels of a key."""
    return tuple(part.partition("=")[2] for part in labels.split(",")) if labels else ()


class Tally:
    """Counts figures, from any thread. A write transaction of the ledger takes and stores them."""

    def __init__(self) -> None:
        self._figures: dict[Key, Figure] = {}
        self._lock = threading.Lock()

    def add(self, metric: Metric, value: float = 1, source_id: int = 0, *, times: int = 1, **labels: str) -> None:
        """Count a value: an amount for a counter, an observation for a histogram or gauge, made `times` times.

        `labels` are exactly those of the metric in the catalogue.
        """
        if metric.kind is Kind.COUNTER and not value:
            return
        figure = Figure(times, times * value)
        if metric.kind is Kind.HISTOGRAM:
            figure.buckets = [0] * (len(BOUNDS) + 1)
            figure.buckets[bisect_left(BOUNDS, value)] = times
        label_text = ",".join(f"{name}={labels[name]}" for name in metric.labels)
        self._merge((metric.name, label_text, source_id), figure)

    def merge(self, other: Iterable[tuple[Key, Figure]]) -> None:
        """Add all figures of another tally."""
        for key, figure in other:
            self._merge(key, figure)

    def take(self) -> Tally:
        """Return all figures, and forget them."""
        tally = Tally()
        with self._lock:
            tally._figures, self._figures = self._figures, tally._figures
        return tally

    def __iter__(self) -> Iterator[tuple[Key, Figure]]:
        with self._lock:
            return iter(list(self._figures.items()))

    def _merge(self, key: Key, figure: Figure) -> None:
        with self._lock:
            if (known := self._figures.get(key)) is None:
                self._figures[key] = figure
            else:
                known.add(figure)
