"""The catalogue, docs/telemetry.md, the dashboard and the alerts name the same metrics; Debian's promtool runs the alerts."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from catchment.telemetry.catalogue import CATALOGUE, Kind
from catchment.telemetry.exposition import prometheus, series
from tests.golden.metrics import documents

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "deployments" / "observability"
_BY_NAME = {metric.prometheus: metric for metric in CATALOGUE}
_SUFFIX = re.compile("_(bucket|count|sum)$")


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((PLACE / "grafana-dashboard.json").read_text(encoding="utf-8"))
    return found


def named(expression: str) -> set[str]:
    """Return the metrics of an expression. A histogram is named by its samples, and only by them."""
    found = set()
    for name in re.findall(r"\bcatchment_\w+", expression):
        base = _SUFFIX.sub("", name)
        metric = _BY_NAME.get(base)
        assert metric is not None, name
        assert (base != name) == (metric.kind is Kind.HISTOGRAM), name
        found.add(base)
    return found


def labels_of(expression: str) -> set[tuple[str, str]]:
    """Return the metrics of an expression with the labels by which they are chosen."""
    chosen = re.findall(r"\b(catchment_\w+)\{([^}]*)\}", expression)
    return {(_SUFFIX.sub("", name), label) for name, text in chosen for label in re.findall(r"(\w+)=", text)}


def expressions() -> list[str]:
    return [target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", ())]


def alerts() -> list[dict[str, Any]]:
    [group] = yaml.safe_load((PLACE / "prometheus-rules.yml").read_text(encoding="utf-8"))["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def test_metrics_and_runbooks_are_in_the_documents() -> None:
    for document, text in documents().items():
        assert document.read_text(encoding="utf-8") == text, "run: python -m tests.golden.metrics"


def test_dashboard_shows_each_metric_and_no_other() -> None:
    assert set().union(*map(named, expressions())) == _BY_NAME.keys()


def test_alerts_use_metrics_of_the_catalogue() -> None:
    assert all(named(alert["expr"]) or alert["alert"] == "CatchmentDown" for alert in alerts())


def test_expressions_choose_by_labels_that_the_metrics_have() -> None:
    pairs = set().union(*map(labels_of, [*expressions(), *(alert["expr"] for alert in alerts())]))
    assert pairs
    for name, label in pairs:
        metric = _BY_NAME[name]
        assert label in {*metric.labels, *(["connector"] if metric.of_source else [])}, (name, label)


def test_dashboard_can_be_imported() -> None:
    found = dashboard()
    assert found["schemaVersion"] >= 39
    assert (found["uid"], found["id"]) == ("catchment", None)
    assert [one["name"] for one in found["__inputs"]] == ["DS_PROMETHEUS"]
    panels = found["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert {panel["datasource"]["uid"] for panel in panels if "datasource" in panel} == {"${DS_PROMETHEUS}"}
    places = [panel["gridPos"] for panel in panels]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    cells = [(x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
    assert len(set(cells)) == len(cells)


@pytest.fixture(scope="module")
def promtool() -> str:
    unpacked = ROOT / "build" / "prometheus" / "usr" / "bin" / "promtool"
    found = str(unpacked) if unpacked.exists() else shutil.which("promtool")
    if found is None:
        assert "CATCHMENT_CI" not in os.environ
        pytest.skip("promtool is not there; .ci/run unpacks it")
    return found


@pytest.mark.full
@pytest.mark.parametrize("command", ["check rules prometheus-rules.yml", "test rules rules_test.yml"])
def test_promtool_accepts_the_alerts_and_their_tests(promtool: str, command: str) -> None:
    ended = subprocess.run([promtool, *command.split()], cwd=PLACE, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.full
def test_promtool_accepts_the_metrics(promtool: str) -> None:
    """It parses the text. Its advice on names is not followed: `_count` of a histogram of queue jobs is none of ours."""
    text = prometheus(series([], ["imap"]))
    ended = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
    assert ended.returncode == 0, (ended.stdout + ended.stderr).decode()


@pytest.mark.full
def test_each_alert_is_tested_firing_and_silent() -> None:
    cases = yaml.safe_load((PLACE / "rules_test.yml").read_text(encoding="utf-8"))["tests"]
    checks = [check for case in cases for check in case["alert_rule_test"]]
    for alert in alerts():
        outcomes = {bool(check["exp_alerts"]) for check in checks if check["alertname"] == alert["alert"]}
        assert outcomes == {True, False}, alert["alert"]
