"""Catchment notices changes to a deployment in Prefect's UI at once, and the tags show the state of the source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from catchment.ledger import Ledger, Outcome
from catchment.model import Priority
from catchment.runtime.process import identity
from catchment.runtime.server_report import ServerReport
from catchment.settings import Home
from deployments.runs.state_tags import tag_of
from deployments.server.client import Client, api
from deployments.server.running import Running
from deployments.sources.deploy import deploy, undeploy
from tasks.artifacts import library
from tests.deployments.conftest import STANDIN
from tests.waiting import until

NAME = "marked"
_DAILY = "[{slug: main, interval: 86400, timezone: UTC}]"
SECONDS = 20.0
"""Much less than the time between two looks of the worker."""


@pytest.fixture
def file(server_home: Home, server: Running, tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "prefect.yaml"
    file.write_text(STANDIN.format(name=NAME, seconds=0, schedules=_DAILY) + "    tags: [source, mine]\n")
    deploy(server_home, server, file=file)
    yield file
    undeploy(server_home, server, NAME)


def row(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/deployments/name/sync-standin/{NAME}").raise_for_status().json()
    return found


def tags(client: Client, *wanted: str) -> None:
    until(lambda: row(client)["tags"] == [*wanted, "source", "mine"], seconds=SECONDS)


@pytest.mark.server
def test_changes_in_the_ui_are_known_at_once(server_home: Home, server: Running, file: Path) -> None:
    def reports(is_paused: bool) -> bool:
        report = ServerReport.read(server_home)
        return report is not None and (NAME in report.paused) is is_paused

    with api(server) as client:
        for is_paused in (True, False, True):
            client.patch(f"/deployments/{row(client)['id']}", json={"paused": is_paused}).raise_for_status()
            until(lambda is_paused=is_paused: reports(is_paused), seconds=SECONDS)
        client.delete(f"/deployments/{row(client)['id']}").raise_for_status()
        until(lambda: reports(False), seconds=SECONDS)


@pytest.mark.server
def test_tags_follow_the_state_and_outlast_a_deploy(server_home: Home, server: Running, file: Path) -> None:
    with closing(Ledger.open(server_home)) as ledger, api(server) as client:
        ledger.sources.put(NAME, "local_files", Priority.NORMAL)
        ledger.sources.hold(NAME, "test", "it broke")
        client.patch(f"/deployments/{row(client)['id']}", json={"paused": False}).raise_for_status()
        client.patch(f"/deployments/{row(client)['id']}", json={"version": "of the test"}).raise_for_status()
        tags(client, "held")
        deployment = f"/deployments/{row(client)['id']}"
        client.post(f"{deployment}/schedule", json={"max_runs": 1}).raise_for_status()
        client.post(f"{deployment}/create_flow_run", json={"tags": ["urgent"]}).raise_for_status()
        query = {"flow_runs": {"deployment_id": {"any_": [row(client)["id"]]}}}
        runs = client.post("/flow_runs/filter", json=query).raise_for_status().json()
        assert {tag for run in runs for tag in run["tags"]} == {"source", "mine", "urgent", "auto-scheduled"}
        updated = row(client)["updated"]
        deploy(server_home, server, file=file)
        assert row(client)["updated"] == updated, "a tag is no reason to deploy again"

        # As `prefect deploy` writes the tags of its file.
        client.patch(f"/deployments/{row(client)['id']}", json={"tags": ["source", "mine"]}).raise_for_status()
        tags(client, "held")
        ledger.sources.resume(NAME, "test", "mended")
        client.patch(f"/deployments/{row(client)['id']}", json={"paused": True}).raise_for_status()
        tags(client, "paused")
        client.patch(f"/deployments/{row(client)['id']}", json={"paused": False}).raise_for_status()
        tags(client)


def test_tag_of_a_failed_sync_lasts_until_one_completes(home: Home) -> None:
    report = ServerReport(datetime.now(UTC))
    with closing(Ledger.open(home)) as ledger:
        ledger.sources.put(NAME, "local_files", Priority.NORMAL)

        def tag(outcome: Outcome | None) -> str:
            source = ledger.sources.get(NAME)
            sync = ledger.syncs.begin(source.id, run=None, owner=identity(), code_version="1", alive=lambda _: False)
            if outcome is not None:
                ledger.syncs.end(sync.id, outcome, {})
            return tag_of(ledger, ledger.sources.get(NAME), report)

        outcomes: list[Outcome | None] = ["completed", "failed", "yielded", "crashed", None, "cancelled", "quarantined"]
        assert [tag(outcome) for outcome in outcomes] == ["", "failing", "", "failing", "failing", "", "held"]


def test_library_artifact_shows_a_failing_source(home: Home) -> None:
    with closing(Ledger.open(home)) as ledger:
        source = ledger.sources.put(NAME, "local_files", Priority.NORMAL)
        sync = ledger.syncs.begin(source.id, run=None, owner=identity(), code_version="1", alive=lambda _: False)
        ledger.syncs.end(sync.id, "failed", {})
        assert f"| {NAME} | local_files | failing |" in library(ledger, home).data
        ledger.syncs.begin(source.id, run=None, owner=identity(), code_version="1", alive=lambda _: True)
        assert f"| {NAME} | local_files | failing |" in library(ledger, home).data, "while the next one runs"
