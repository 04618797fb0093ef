"""The history records the actions of people in the Prefect UI."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import httpx
import pytest

from catchment.ledger import Ledger
from catchment.model import Priority
from catchment.settings import Home
from deployments.server.environment import auth_string
from deployments.server.running import Running
from deployments.sources.deploy import deploy, undeploy
from tests.deployments.conftest import STANDIN
from tests.waiting import until

pytestmark = pytest.mark.server
NAME = "acted-on"


def test_acts_of_a_browser_are_recorded_and_those_of_programs_are_not(
    server_home: Home, server: Running, tmp_path: Path
) -> None:
    file = tmp_path / "prefect.yaml"
    file.write_text(STANDIN.format(name=NAME, seconds=0, schedules="[]") + "    tags: [source]\n")
    deploy(server_home, server, file=file)
    with closing(Ledger.open(server_home)) as ledger:
        ledger.sources.put(NAME, "local_files", Priority.NORMAL)
        user, _, password = auth_string(server_home).partition(":")
        browser = {"Sec-Fetch-Mode": "cors"}
        with httpx.Client(base_url=f"http://127.0.0.1:{server.port}/api", auth=(user, password)) as client:
            found = client.post("/deployments/filter", json={"deployments": {"name": {"any_": [NAME]}}}).json()
            address = f"/deployments/{found[0]['id']}"
            client.patch(address, json={"paused": True}).raise_for_status()
            client.patch(address, json={"paused": True}, headers=browser).raise_for_status()
            client.post(f"{address}/resume_deployment", headers=browser).raise_for_status()
            body = {"state": {"type": "SCHEDULED"}}
            run = client.post(f"{address}/create_flow_run", json=body, headers=browser).raise_for_status().json()["id"]
            refused = client.post(f"{address}/create_flow_run", json={"parameters": 1}, headers=browser)
            assert refused.is_client_error
            stop = {"state": {"type": "CANCELLED"}, "force": True}
            client.post(f"/flow_runs/{run}/set_state", json=stop, headers=browser).raise_for_status()

        def recorded() -> list[str]:
            return [event.event for event in ledger.history.trail(9, actor="prefect")]

        until(lambda: len(recorded()) == 4)
        assert sorted(recorded()) == ["cancel requested", "switched off", "switched on", "sync requested"]
    undeploy(server_home, server, NAME)
