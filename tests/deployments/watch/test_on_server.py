"""The watcher and its automations on a real server: from a saved file to a flow run."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from catchment.runtime.home import Home
from connectors.local_files import LocalFilesSettings
from deployments.server.client import Client, api
from deployments.server.running import Running, record, supervisor_lock
from deployments.sources.sources_file import SourceEntry
from deployments.watch import automation
from deployments.watch.sync_requests import Server
from tasks.source_events import resource
from tests.acceptance.person import COMMAND, PROJECT
from tests.deployments.watch.conftest import add_source, watching
from tests.waiting import until
from tests.web.conftest import answering

pytestmark = pytest.mark.server


@pytest.fixture
def client(server: Running) -> Iterator[Client]:
    with api(server) as client:
        yield client


@pytest.fixture(scope="module", autouse=True)
def settled(server: Running) -> None:
    """Wait until the watcher of the server's own home has deleted the automations that are not of its sources.

    It does so once, some seconds after its start.
    """
    with api(server) as client:
        body = automation._automation(entry("unwatched"), deployed(client, "unwatched"), [automation._TAG])
        client.post("/automations/", json=body).raise_for_status()
        for left in until(lambda: automations(client, "unwatched"), lambda left: not left, seconds=6, must=False):
            client.delete(f"/automations/{left['id']}").raise_for_status()


@pytest.fixture
def watched_home(home: Home, server: Running) -> Iterator[Home]:
    """A home for this test that uses the shared server."""
    (home.path / "ui-login").write_text(server.login)
    with supervisor_lock(home):
        record(home, server)
        yield home


def deployed(client: Client, name: str) -> str:
    """Create a deployment without a worker to take its runs. Returns its ID."""
    flow = client.post("/flows/", json={"name": "sync-local_files"}).raise_for_status().json()["id"]
    body = {"name": name, "flow_id": flow, "tags": ["source"]}
    return str(client.post("/deployments/", json=body).raise_for_status().json()["id"])


def runs_of(client: Client, deployment: str) -> list[dict[str, Any]]:
    query = {"deployments": {"id": {"any_": [deployment]}}, "sort": "EXPECTED_START_TIME_ASC"}
    found: list[dict[str, Any]] = client.post("/flow_runs/filter", json=query).raise_for_status().json()
    return found


def automations(client: Client, name: str) -> list[dict[str, Any]]:
    query = {"automations": {"name": {"any_": [automation.title(name)]}}}
    found: list[dict[str, Any]] = client.post("/automations/filter", json=query).raise_for_status().json()
    return found


def set_state(client: Client, run: dict[str, Any], state: str) -> None:
    body = {"state": {"type": state}, "force": True}
    client.post(f"/flow_runs/{run['id']}/set_state", json=body).raise_for_status()


def entry(name: str) -> SourceEntry:
    return SourceEntry(name, "local_files", LocalFilesSettings(root=Path("/nowhere")), watch=True)


def test_saved_file_starts_a_run_through_the_automation(watched_home: Home, root: Path, client: Client) -> None:
    deployment = deployed(client, "saved")
    add_source(watched_home, "saved", root)
    with watching(watched_home):
        until(lambda: len(runs_of(client, deployment)) == 1)
        set_state(client, runs_of(client, deployment)[0], "RUNNING")
        (root / "a.md").write_text("while it runs")
        set_state(client, runs_of(client, deployment)[0], "COMPLETED")
        until(lambda: len(runs_of(client, deployment)) == 2)
    runs = runs_of(client, deployment)
    assert [run["created_by"]["type"] for run in runs] == ["AUTOMATION"] * 2
    assert [run["name"] for run in runs] == [automation.title("saved")] * 2
    assert len(automations(client, "saved")) == 1
    Server(watched_home).ensure([])


def test_event_has_the_source_name_and_no_path(watched_home: Home, root: Path, client: Client) -> None:
    deployed(client, "quiet")
    add_source(watched_home, "quiet", root)
    query = {"filter": {"resource": {"id": [resource("quiet")["prefect.resource.id"]]}}}
    with watching(watched_home):
        until(lambda: client.post("/events/filter", json=query).json()["events"])
    (event,) = client.post("/events/filter", json=query).json()["events"]
    assert event["event"] == automation.EVENT
    assert str(root) not in str(event)
    assert event["payload"] == {}
    Server(watched_home).ensure([])


def test_ensure_is_idempotent_and_keeps_disabled_automations(server: Running, client: Client) -> None:
    deployed(client, "twice")
    automation.ensure(server, [entry("twice")])
    (first,) = automations(client, "twice")
    client.patch(f"/automations/{first['id']}", json={"enabled": False}).raise_for_status()
    before = automations(client, "twice")
    automation.ensure(server, [entry("twice")])
    assert automations(client, "twice") == before
    assert not before[0]["enabled"]
    automation.ensure(server, [])
    assert automations(client, "twice") == []


def test_redeployed_source_has_one_automation(server: Running, client: Client) -> None:
    before = deployed(client, "anew")
    automation.ensure(server, [entry("anew")])
    (first,) = automations(client, "anew")
    client.patch(f"/automations/{first['id']}", json={"enabled": False}).raise_for_status()
    client.delete(f"/deployments/{before}").raise_for_status()
    assert automation.ensure(server, [entry("anew")]) == {}
    after = deployed(client, "anew")
    assert automation.ensure(server, [entry("anew")]) == {"anew": after}
    (there,) = automations(client, "anew")
    assert there["actions"][0]["deployment_id"] == after
    automation.ensure(server, [])


def test_automations_of_the_user_are_kept(server: Running, client: Client) -> None:
    deployment = deployed(client, "own")
    body = {
        "name": "mine",
        "trigger": {"type": "event", "posture": "Reactive", "expect": ["mine"], "threshold": 1, "within": 0},
        "actions": [{"type": "pause-deployment", "source": "selected", "deployment_id": deployment}],
    }
    client.post("/automations/", json=body).raise_for_status()
    automation.ensure(server, [])
    found = client.post("/automations/filter", json={"automations": {"name": {"any_": ["mine"]}}}).json()
    assert len(found) == 1


def test_status_of_paused_source_and_its_runs(watched_home: Home, client: Client) -> None:
    deployment = deployed(client, "seen")
    there = Server(watched_home)
    assert there.status("local_files", "absent").deployment is None
    standing = there.status("local_files", "seen")
    assert (standing.newest, standing.waiting, standing.running, standing.paused) == (None, False, False, False)
    run = client.post(f"/deployments/{deployment}/create_flow_run", json={}).raise_for_status().json()
    standing = there.status("local_files", "seen")
    assert (standing.newest, standing.waiting, standing.running) == (run["id"], True, False)
    set_state(client, run, "RUNNING")
    client.post(f"/deployments/{deployment}/pause_deployment").raise_for_status()
    standing = there.status("local_files", "seen")
    assert (standing.waiting, standing.running, standing.paused) == (False, True, True)
    there.close()


@contextmanager
def messenger(client: Client) -> Iterator[tuple[str, list[str]]]:
    """A notification block that posts to a server of this process; yields its ID and the received texts."""
    received: list[str] = []

    def respond(handler: BaseHTTPRequestHandler) -> None:
        received.append(json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))["text"])
        handler.send_response(200)
        handler.end_headers()

    with answering(respond) as port:
        kind = client.get("/block_types/slug/custom-webhook").raise_for_status().json()["id"]
        query = {"block_schemas": {"block_type_id": {"any_": [kind]}}}
        schema = client.post("/block_schemas/filter", json=query).raise_for_status().json()[0]["id"]
        data = {"name": "me", "url": f"http://127.0.0.1:{port}", "json_data": {"text": "{{body}}"}}
        body = {"name": "me", "data": data, "block_type_id": kind, "block_schema_id": schema}
        yield client.post("/block_documents/", json=body).raise_for_status().json()["id"], received


def test_example_automations_act_on_the_events(server: Running, client: Client, tmp_path: Path) -> None:
    deployment = deployed(client, "vanished")
    # As Prefect adds it to the events of a run.
    related = [{"prefect.resource.id": f"prefect.deployment.{deployment}", "prefect.resource.role": "deployment"}]
    held = {"id": str(uuid4()), "occurred": datetime.now(UTC).isoformat(), "event": "catchment.deletions.held"}
    text = (PROJECT / "docs" / "automations.yaml").read_text()
    with messenger(client) as (block, received):
        (tmp_path / "automations.yaml").write_text(text.replace(str(UUID(int=0)), block))
        command = [str(COMMAND.with_name("prefect")), "automation", "create", "--from-file", "automations.yaml"]
        login = {"PREFECT_API_URL": server.api_url, "PREFECT_API_AUTH_STRING": server.login}
        subprocess.run(command, env={**os.environ, **login}, cwd=tmp_path, check=True, timeout=120)
        client.emit("catchment.source.held", resource("mail"), {"reason": "login.refused"}).raise_for_status()
        until(lambda: received == ["mail: catchment.source.held login.refused"])
        event = {**held, "resource": resource("vanished"), "payload": {"items": 20}, "related": related}
        client.post("/events", json=[event]).raise_for_status()
        until(lambda: client.get(f"/deployments/{deployment}").json()["paused"])
    for automation_of in client.post("/automations/filter", json={}).json():
        if automation_of["name"] in text:
            client.delete(f"/automations/{automation_of['id']}")
