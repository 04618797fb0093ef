"""OpenTelemetry: every series of the catalogue, sent by OTLP over HTTP. Only importable with the extra `otel`.

The ledger has counted already, so each request contains the present totals: no instruments of the SDK, and none of its threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from catchment.telemetry.catalogue import BOUNDS, BY_NAME, Kind
from catchment.telemetry.exposition import Series

_SECONDS = 5.0
_UNKNOWN_START = 0


def sender() -> Callable[[Sequence[Series], int], object]:
    """Return a function that sends series with a time in nanoseconds since 1970. It takes at most five seconds.

    The variables of OpenTelemetry choose the address, headers and attributes (`OTEL_EXPORTER_OTLP_ENDPOINT` and so on).
    """
    exporter = OTLPMetricExporter(timeout=_SECONDS)
    resource, scope = Resource.create({"service.name": "catchment"}), InstrumentationScope("catchment")

    def send(series: Sequence[Series], at: int) -> object:
        metrics = [
            _metric(name, list(of_metric), at) for name, of_metric in groupby(series, lambda each: each.metric.name)
        ]
        scopes = [ScopeMetrics(scope, metrics, "")]
        return exporter.export(MetricsData([ResourceMetrics(resource, scopes, "")]), _SECONDS * 1_000)

    return send


def _metric(name: str, series: Sequence[Series], at: int) -> Metric:
    about, total = BY_NAME[name], AggregationTemporality.CUMULATIVE
    data: Sum | Gauge | Histogram
    match about.kind:
        case Kind.HISTOGRAM:
            data = Histogram([_histogram(each, at) for each in series], total)
        case Kind.COUNTER:
            data = Sum([_number(each, at) for each in series], total, is_monotonic=True)
        case Kind.GAUGE:
            data = Gauge([_number(each, at) for each in series])
    return Metric(name, about.help, about.unit, data)


def _number(series: Series, at: int) -> NumberDataPoint:
    return NumberDataPoint(dict(series.labels), _UNKNOWN_START, at, series.figure.total)


def _histogram(series: Series, at: int) -> HistogramDataPoint:
    figure = series.figure
    extremes = {"min": None, "max": None}
    return HistogramDataPoint(
        dict(series.labels),
        _UNKNOWN_START,
        at,
        figure.n,
        figure.total,
        figure.buckets,
        BOUNDS,
        **extremes,  # type: ignore[arg-type]
    )
