"""OpenTelemetry: a collector on this machine receives every series with its unit and buckets."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from catchment.telemetry.catalogue import BOUNDS, CATALOGUE, JOB_WAIT, JOBS, QUEUE
from catchment.telemetry.exposition import series
from catchment.telemetry.otlp import sender
from catchment.telemetry.tally import Tally, label_values


def test_collector_receives_every_series(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Discard log messages."""

    tally = Tally()
    tally.add(JOBS, 3, outcome="succeeded")
    tally.add(QUEUE, 7, state="pending")
    tally.add(JOB_WAIT, 0.3, times=2)
    found = series((((n, label_values(text), "imap", "high"), one) for (n, text, _), one in tally), ["imap"])
    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        sender()(found, 1_000_000_000)
        thread.join()

    [(path, body)] = received
    request = ExportMetricsServiceRequest.FromString(body)
    [resource] = request.resource_metrics
    attributes = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert (path, attributes["service.name"]) == ("/v1/metrics", "catchment")
    assert not [key for key in attributes if key.startswith(("host", "process"))]
    metrics = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    assert metrics.keys() == {metric.name for metric in CATALOGUE if all(metric.labels.values())}
    jobs = metrics[JOBS.name].sum
    assert jobs.is_monotonic
    assert {value_of(point): point.as_double for point in jobs.data_points}["succeeded"] == 3
    assert {value_of(point): point.as_double for point in metrics[QUEUE.name].gauge.data_points}["pending"] == 7
    [wait] = [point for point in metrics[JOB_WAIT.name].histogram.data_points if point.count]
    assert (metrics[JOB_WAIT.name].unit, wait.count, wait.sum) == ("s", 2, 0.6)
    assert tuple(wait.explicit_bounds) == BOUNDS
    assert wait.bucket_counts[BOUNDS.index(0.5)] == 2
    assert not wait.HasField("min")


def value_of(point: object) -> str:
    """Return the last label of a point."""
    return str(point.attributes[-1].value.string_value)  # type: ignore[attr-defined]
