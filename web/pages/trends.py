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
    "throughput": ("Stored", "items added or updated"),
    "duration": ("Time of a sync", "without the first; all but 5 % were faster; dashed: half of them"),
    "latency": ("From save to found", "all but 5 % were faster; dashed: half of them"),
    "backlog": ("Backlog", "jobs waiting, on average"),
    "failures": ("Failures", "failed attempts at an item"),
    "retries": ("Retries", "attempts that are repeated"),
}
_BARS = ("throughput", "failures", "retries")
_PRESENT = {TrendRange.HOUR: "this minute", TrendRange.DAY: "this hour", TrendRange.MONTH: "today"}
"""The last step of each range, which is not over yet."""


@dataclass(frozen=True, slots=True)
class TrendsAndObjectives:
    """The trends of a source or of all, the objectives, and what is unusual now."""

    trends: Trends
    objectives: tuple[ObjectiveState, ...]
    anomalies: tuple[Anomaly, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """A trend as a drawing, in a box 100 high and as wide as its number of steps.

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


def charts(view: Trends) -> list[Chart]:
    """Return the charts of trends."""
    return [_chart(trend, view) for trend in view.trends]


def _data(library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    range_name, source = parameters.get("range") or TrendRange.DAY.value, parameters.get("source") or None
    if range_name not in _RANGES:
        raise BadInput(f"range: unknown value {range_name!r}; choose {', '.join(_RANGES)}")
    ledger = library.ledger
    now = ledger.now()
    view = trends(ledger, TrendRange(range_name), source, now)
    states = objectives(ledger, settings(library.home), now)
    unusual = anomalies(ledger, now)
    return {
        "view": TrendsAndObjectives(view, states, unusual),
        "charts": charts(view),
        "figure": lambda value, metric: _figure(value, "s" if metric == "duration" else "items"),
        "ranges": _RANGES,
        "range": range_name,
        "source": source,
        "sources": [source_row.name for source_row in ledger.sources.all()],
        "query": {"source": source, "range": None if range_name == TrendRange.DAY else range_name},
    }


def _chart(trend: Trend, view: Trends) -> Chart:
    title, about = _TITLES[trend.name]
    known, is_bars = trend.known, trend.name in _BARS
    most = max(known, default=0.0)
    times = [_label(step, view.range) for step in view.steps]
    halves = trend.half or (None,) * len(times)
    words = [
        (_figure(value, trend.unit), _figure(half_value, trend.unit))
        for value, half_value in zip(trend.values, halves, strict=True)
    ]
    rows = [
        (time, *figures, index in trend.unusual) for index, (time, figures) in enumerate(zip(times, words, strict=True))
    ]
    present = f"{'none' if words[-1][0] == '–' else words[-1][0]} {_PRESENT[view.range]}"
    summary = (
        f"lowest {_figure(min(known), trend.unit)}, highest {_figure(most, trend.unit)}" if known else "no figures"
    )
    return Chart(
        trend.name,
        title,
        about,
        present,
        _figure(most, trend.unit),
        f"{summary}, {present}",
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


def _label(step: datetime, span: TrendRange) -> str:
    # Days are kept as days of UTC.
    return f"{step.day} {step:%b}" if span is TrendRange.MONTH else f"{step.astimezone():%H:%M}"


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if unit == "s":
        return f"{value:.2g} s" if value < 100 else f"{value / 60:.2g} min"
    return f"{value:,.1f}" if 0 < value < 10 and value % 1 else f"{value:,.0f}"


PAGES = (WebPage("/health/trends", "trends.html", _data, shared=TrendsAndObjectives, query=("range", "source")),)
