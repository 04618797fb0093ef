"""Objectives and trends: charts of a day or a month, made by the server, with their numbers in tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from catchment.errors import BadInput
from catchment.telemetry.objectives import ObjectiveState
from catchment.views.telemetry.anomalies import Anomaly, anomalies
from catchment.views.telemetry.objectives import objectives, settings
from catchment.views.telemetry.trends import Trend, TrendRange, Trends, Values, trends
from web.site import Data, WebPage
from web.warm_library import WarmLibrary

_RANGES = {TrendRange.DAY: "24 hours", TrendRange.MONTH: "30 days"}
_TITLES = {
    "throughput": ("Stored", "items that were added or updated"),
    "duration": ("Time of a sync", "line: 95 of 100, dashed: half of them"),
    "latency": ("From save to found", "in watched folders; line: 95 of 100, dashed: half of them"),
    "backlog": ("Backlog", "jobs that wait, on average"),
    "failures": ("Failures", "failed attempts at an item"),
    "retries": ("Retries", "failed attempts that are tried again"),
}
_BARS = ("throughput", "failures", "retries")


@dataclass(frozen=True, slots=True)
class TrendsAndObjectives:
    """The trends of a source or of all, the objectives, and what is unusual now."""

    trends: Trends
    objectives: tuple[ObjectiveState, ...]
    anomalies: tuple[Anomaly, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """A trend as it is drawn, in a box as wide as its steps and 100 high.

    Attributes:
        shape, half: Paths of the values, and of the medians.
        is_bars: Whether the shape is filled.
        summary: The lowest, highest and present value, in words.
        rows: Time, value and median of each step in words, latest first, and whether it is unusual.
        ticks: Words for the start, the middle and the end.
    """

    name: str
    title: str
    about: str
    now: str
    most: str
    summary: str
    steps: int
    shape: str
    half: str
    is_bars: bool
    unusual: tuple[int, ...]
    rows: tuple[tuple[str, str, str, bool], ...]
    ticks: tuple[str, str, str]


def charts(found: Trends) -> list[Chart]:
    """Return the charts of trends."""
    return [_chart(trend, found) for trend in found.trends]


def _data(library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    chosen, source = parameters.get("range") or TrendRange.DAY.value, parameters.get("source") or None
    if chosen not in _RANGES:
        raise BadInput(f"range: unknown value {chosen!r}; choose {', '.join(_RANGES)}")
    ledger = library.ledger
    now = ledger.now()
    found = trends(ledger, TrendRange(chosen), source, now)
    states = objectives(ledger, settings(library.home), now)
    unusual = anomalies(ledger, now)
    return {
        "view": TrendsAndObjectives(found, states, unusual),
        "charts": charts(found),
        "states": states,
        "unusual": unusual,
        "said": lambda value, metric: _said(value, "s" if metric == "duration" else "items"),
        "ranges": _RANGES,
        "range": chosen,
        "source": source,
        "sources": [one.name for one in ledger.sources.all()],
        "query": {"source": source, "range": None if chosen == TrendRange.DAY else chosen},
    }


def _chart(trend: Trend, found: Trends) -> Chart:
    title, about = _TITLES[trend.name]
    known, is_bars = trend.known, trend.name in _BARS
    most = max(known, default=0.0)
    times = [_when(step, found.range) for step in found.steps]
    halves = trend.half or (None,) * len(times)
    words = [
        (_said(value, trend.unit), _said(half, trend.unit)) for value, half in zip(trend.values, halves, strict=True)
    ]
    rows = [(time, *said, index in trend.unusual) for index, (time, said) in enumerate(zip(times, words, strict=True))]
    summary = f"lowest {_said(min(known), trend.unit)}, highest {_said(most, trend.unit)}" if known else "no figures"
    return Chart(
        trend.name,
        title,
        about,
        words[-1][0],
        _said(most, trend.unit),
        f"{summary}, now {words[-1][0]}",
        len(times),
        _bars(trend.values, most) if is_bars else _line(trend.values, most),
        _line(trend.half, most),
        is_bars,
        trend.unusual,
        tuple(reversed(rows)),
        (times[0], times[len(times) // 2], "now"),
    )


def _line(values: Values, most: float) -> str:
    """Return a path through the middle of each step, interrupted where a value is missing."""
    path, before = "", None
    for index, value in enumerate(values):
        if value is not None:
            after = values[index + 1] if index + 1 < len(values) else None
            place = f"{index + 0.5:g},{_height(value, most)}"
            # A value between missing ones is a short line.
            path += f"L{place}" if before is not None else f"M{place}" if after is not None else f"M{place}m-.5,0h1"
        before = value
    return path


def _bars(values: Values, most: float) -> str:
    return "".join(
        f"M{index + 0.15:g},100V{_height(value, most)}h.7V100z" for index, value in enumerate(values) if value
    )


def _height(value: float, most: float) -> str:
    return f"{100 - 100 * value / most:.3g}" if most else "100"


def _when(step: datetime, chosen: TrendRange) -> str:
    # Days are kept as days of UTC.
    return f"{step.day} {step:%b}" if chosen is TrendRange.MONTH else f"{step.astimezone():%H:%M}"


def _said(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if unit == "s":
        return f"{value:.2g} s" if value < 100 else f"{value / 60:.2g} min"
    return f"{value:,.1f}" if 0 < value < 10 and value % 1 else f"{value:,.0f}"


PAGES = (WebPage("/health/trends", "trends.html", _data, shared=TrendsAndObjectives, query=("range", "source")),)
