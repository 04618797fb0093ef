"""The three forms of the metrics: every series exists from the start, and no series names a source."""

from __future__ import annotations

import csv
import io
import json

from prometheus_client.parser import text_string_to_metric_families

from catchment.telemetry.catalogue import BY_NAME, CATALOGUE, JOB_WAIT, JOBS, QUEUE_AGE, Kind
from catchment.telemetry.exposition import Series, as_csv, as_json, prometheus, series
from catchment.telemetry.tally import Figure, Tally, label_values


def counted() -> list[Series]:
    """Return the series of a system with two connectors, one of which has done something for two sources."""
    tally = Tally()
    for source in (1, 2):
        tally.add(JOBS, 2, source, outcome="succeeded")
        tally.add(QUEUE_AGE, 10 * source, source)
    tally.add(JOB_WAIT, 0.3, 1)
    tally.add(JOB_WAIT, 7_000, 1, times=2)
    of = {1: ("imap", "high"), 2: ("imap", "low")}
    return series(
        (((n, label_values(text), *of[source]), one) for (n, text, source), one in tally), ["obsidian", "imap"]
    )


def test_prometheus_reads_every_metric_of_the_catalogue() -> None:
    families = {family.name: family for family in text_string_to_metric_families(prometheus(counted()).decode())}
    expected = {metric.prometheus.removesuffix("_total"): (metric.kind, metric.help) for metric in CATALOGUE}
    # The labels of these are known only when they have a value.
    unknown = {
        "catchment_incidents_open",
        "catchment_build_info",
        "catchment_machine_up",
        "catchment_machine_beat_age_seconds",
    }
    found = {name: (family.type, family.documentation) for name, family in families.items()}
    assert found == {name: about for name, about in expected.items() if name in found or name not in unknown}
    assert not [name for name in families if name.endswith("_created")]


def test_series_exist_from_the_start_and_sources_are_summed() -> None:
    found = {tuple(one.labels.values()): one.figure.total for one in counted() if one.metric is JOBS}
    assert len(found) == 2 * len(JOBS.labels["outcome"])
    assert {labels: total for labels, total in found.items() if total} == {("imap", "succeeded"): 4}


def test_oldest_age_is_the_largest_of_the_sources() -> None:
    ages = {one.labels["connector"]: one.figure.total for one in counted() if one.metric is QUEUE_AGE}
    assert ages == {"imap": 20, "obsidian": 0}


def test_histogram_has_cumulative_buckets_by_priority() -> None:
    lines = prometheus(counted()).decode().splitlines()
    name = 'catchment_job_wait_seconds_{}{{connector="imap",{}priority="high"}} {}'
    for part, bound, value in (
        ("bucket", 'le="0.25",', 0.0),
        ("bucket", 'le="0.5",', 1.0),
        ("bucket", 'le="3600.0",', 1.0),
        ("bucket", 'le="+Inf",', 3.0),
        ("count", "", 3.0),
        ("sum", "", 14_000.3),
    ):
        assert name.format(part, bound, value) in lines


def test_json_and_csv_have_the_same_samples() -> None:
    read = {metric["name"]: metric["series"] for metric in json.loads(as_json(counted()))}
    [wait] = [one for one in read[JOB_WAIT.name] if one["labels"] == {"connector": "imap", "priority": "high"}]
    assert (wait["count"], wait["sum"], wait["buckets"]["0.5"], wait["buckets"]["+Inf"]) == (3, 14_000.3, 1, 2)
    rows = {(name, labels): value for name, labels, value in csv.reader(io.StringIO(as_csv(counted())))}
    assert rows["catchment_jobs_total", "connector=imap outcome=succeeded"] == "4"
    assert rows["catchment_job_wait_seconds_bucket", "connector=imap priority=high le=+Inf"] == "3"


def test_figures_of_an_unknown_metric_or_label_do_no_harm() -> None:
    strange = [
        (("catchment.of.the.future", (), "imap", "high"), Figure(1, 1.0)),
        ((JOBS.name, ("odd",), "x", ""), Figure(1, 5.0)),
    ]
    found = series(strange, [])
    assert [(one.labels, one.figure.total) for one in found if one.metric is JOBS] == [
        ({"connector": "x", "outcome": "odd"}, 5.0)
    ]


def test_names_are_unique_and_labels_name_nothing_private() -> None:
    assert len({metric.prometheus for metric in CATALOGUE}) == len(BY_NAME) == len(CATALOGUE)
    labels = {name for metric in CATALOGUE for name in metric.labels}
    assert labels <= {"outcome", "stage", "reason", "failure_class", "limit", "state", "of", "version", "machine"}
    assert not [metric.name for metric in CATALOGUE if metric.sampled and metric.kind is not Kind.GAUGE]
