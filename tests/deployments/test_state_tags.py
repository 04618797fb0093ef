"""What happens to a deployment in Prefect's UI is known at once, and its tags tell the state of its source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from catchment.ledger import Ledger
from catchment.model import Priority
from catchment.runtime.server_report import ServerReport
from catchment.settings import Home
from deployments.server.client import Client, api
from deployments.server.running import Running
from deployments.sources.deploy import deploy, undeploy
from tests.deployments.conftest import STANDIN
from tests.waiting import until

pytestmark = pytest.mark.server
NAME = "marked"
SECONDS = 20.0
"""Much less than the time between two looks of the worker."""


@pytest.fixture
def file(server_home: Home, server: Running, tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "prefect.yaml"
    file.write_text(STANDIN.format(name=NAME, seconds=0, schedules="[]") + "    tags: [source, mine]\n")
    deploy(server_home, server, file=file)
    yield file
    undeploy(server_home, server, NAME)


def row(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/deployments/name/sync-standin/{NAME}").raise_for_status().json()
    return found


def tags(client: Client, *wanted: str) -> None:
    until(lambda: row(client)["tags"] == ["source", "mine", *wanted], seconds=SECONDS)


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


def test_tags_follow_the_state_and_outlast_a_deploy(server_home: Home, server: Running, file: Path) -> None:
    with closing(Ledger.open(server_home)) as ledger, api(server) as client:
        ledger.sources.put(NAME, "local_files", Priority.NORMAL)
        ledger.sources.hold(NAME, "test", "it broke")
        client.patch(f"/deployments/{row(client)['id']}", json={"paused": False}).raise_for_status()
        client.patch(f"/deployments/{row(client)['id']}", json={"version": "of the test"}).raise_for_status()
        tags(client, "held")
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
