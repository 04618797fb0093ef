"""Every series of the catalogue with its value, and its forms: the text of Prometheus, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, product
from typing import Any

from catchment.model import Priority
from catchment.telemetry.catalogue import BOUNDS, BY_NAME, CATALOGUE, Kind, Metric
from catchment.telemetry.tally import Figure

SummedKey = tuple[str, tuple[str, ...], str, str]
"""Metric name, label values, connector (kind of source) and priority; "" without a source."""

PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The content type of the text of `prometheus`."""


@dataclass(frozen=True, slots=True)
class Series:
    """A series and its value: a sum for counters, the present value for gauges."""

    metric: Metric
    labels: Mapping[str, str]
    figure: Figure


def series(figures: Iterable[tuple[SummedKey, Figure]], connectors: Collection[str]) -> list[Series]:
    """Return all series in the order of the catalogue, those without a figure as 0 for each of the connectors.

    Figures of the same series are added up.
    """
    summed = {
        metric.name: {
            values: _zero(metric) for values in product(*_outer(metric, sorted(connectors)), *metric.labels.values())
        }
        for metric in CATALOGUE
    }
    for (name, labels, connector, priority), figure in figures:
        # The ledger may have figures of a metric of another version.
        if (metric := BY_NAME.get(name)) is not None:
            outer = (connector, priority)[: len(_outer(metric, ()))]
            total = summed[name].setdefault((*outer, *labels), _zero(metric))
            if metric.largest:
                total.total = max(total.total, figure.total)
            else:
                total.add(figure)
    return [
        Series(metric, dict(zip(_names(metric), values, strict=True)), figure)
        for metric in CATALOGUE
        for values, figure in summed[metric.name].items()
    ]


def prometheus(series: Sequence[Series]) -> bytes:
    """Return the text that Prometheus scrapes."""
    # 40 ms to import.
    from prometheus_client import Metric as Family
    from prometheus_client import generate_latest
    from prometheus_client.registry import Collector

    class Families(Collector):
        def collect(self) -> Iterator[Family]:
            for metric, of_metric in _by_metric(series):
                family = Family(metric.prometheus.removesuffix("_total"), metric.help, metric.kind)
                for each in of_metric:
                    for sample in _samples(each):
                        family.add_sample(*sample)
                yield family

    return generate_latest(Families())


def as_json(series: Sequence[Series]) -> str:
    """Return a list of metrics, each with its series. A histogram has the number of values in each bucket, by upper bound."""
    metrics = [
        {
            "name": metric.name,
            "kind": metric.kind,
            "unit": metric.unit,
            "help": metric.help,
            "series": [*map(_json, of_metric)],
        }
        for metric, of_metric in _by_metric(series)
    ]
    return json.dumps(metrics, indent=1) + "\n"


def as_csv(series: Sequence[Series]) -> str:
    """Return a line for each sample of Prometheus: its name, its labels as `a=x b=y`, and its value."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("metric", "labels", "value"))
    for each in series:
        for name, labels, value in _samples(each):
            writer.writerow((name, " ".join(f"{key}={text}" for key, text in labels.items()), f"{value:.15g}"))
    return out.getvalue()


def _by_metric(series: Sequence[Series]) -> Iterator[tuple[Metric, Iterable[Series]]]:
    for name, of_metric in groupby(series, lambda each: each.metric.name):
        yield BY_NAME[name], of_metric


def _zero(metric: Metric) -> Figure:
    return Figure(buckets=[0] * (len(BOUNDS) + 1) if metric.kind is Kind.HISTOGRAM else [])


def _outer(metric: Metric, connectors: Sequence[str]) -> list[Sequence[str]]:
    """Return the values of the labels that are not stored with a figure."""
    outer: list[Sequence[str]] = [connectors] if metric.of_source else []
    return [*outer, tuple(Priority)] if metric.priority else outer


def _names(metric: Metric) -> tuple[str, ...]:
    return (*("connector", "priority")[: len(_outer(metric, ()))], *metric.labels)


def _samples(series: Series) -> Iterator[tuple[str, dict[str, str], float]]:
    name, labels, figure = series.metric.prometheus, dict(series.labels), series.figure
    if series.metric.kind is not Kind.HISTOGRAM:
        yield name, labels, figure.total
        return
    for bound, number in zip((*map(str, BOUNDS), "+Inf"), accumulate(figure.buckets), strict=True):
        yield f"{name}_bucket", {**labels, "le": bound}, number
    yield f"{name}_sum", labels, figure.total
    yield f"{name}_count", labels, figure.n


def _json(series: Series) -> dict[str, Any]:
    if series.metric.kind is not Kind.HISTOGRAM:
        return {"labels": series.labels, "value": series.figure.total}
    buckets = dict(zip((*map(str, BOUNDS), "+Inf"), series.figure.buckets, strict=True))
    return {"labels": series.labels, "count": series.figure.n, "sum": series.figure.total, "buckets": buckets}
