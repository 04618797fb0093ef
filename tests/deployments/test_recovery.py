"""What a Prefect server still believes of runs whose process is gone, and which syncs go on by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from catchment.settings import Home
from deployments.runs import recovery, runs
from deployments.runs.recovery import GIVEN_UP_AFTER, replan, resume, settle
from deployments.server.client import api
from deployments.server.running import Running
from deployments.sources.deploy import deploy, undeploy
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.server

_SOURCE = """\
  - name: {name}
    entrypoint: tests.deployments.standin_flow.sync_standin
    tags: [source]
    parameters: {{name: {name}, settings: {{seconds: 0}}}}
    work_pool: {{name: catchment}}
    concurrency_limit: {{limit: 1, collision_strategy: ENQUEUE}}
    schedules: []
"""
_TESTS = 12
_TOMORROW = (datetime.now(UTC) + timedelta(days=1)).isoformat()
T = TypeVar("T")


@pytest.fixture(scope="module")
def deployed(
    server_home: Home, server: Running, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Iterator[dict[str, Any]]]:
    """Sources, one for each test: deploying takes seconds, however many there are."""
    names = [f"recovery-{number}" for number in range(_TESTS)]
    file = tmp_path_factory.mktemp("recovery") / "prefect.yaml"
    file.write_text("pull: []\ndeployments:\n" + "".join(_SOURCE.format(name=name) for name in names))
    deploy(server_home, server, file=file)
    with api(server) as client:
        found = [client.get(f"/deployments/name/sync-standin/{name}").raise_for_status().json() for name in names]
    yield iter(found)
    for name in names:
        undeploy(server_home, server, name)


@pytest.fixture
def source(deployed: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """A deployed source of this test's own."""
    return next(deployed)


@pytest.mark.parametrize(
    ("believed", "true"),
    [
        ({"type": "RUNNING"}, "CRASHED"),
        ({"type": "CANCELLING"}, "CANCELLED"),
        ({"type": "SCHEDULED", "name": "AwaitingRetry", "state_details": {"scheduled_time": _TOMORROW}}, "CRASHED"),
    ],
    ids=["running", "cancelling", "awaiting a retry"],
)
def test_no_run_stays_active_for_ever_without_a_process(
    server_home: Home, server: Running, source: dict[str, Any], believed: dict[str, Any], true: str
) -> None:
    run = planned(server, source)
    force(server, "flow_runs", run, believed)
    settle(server_home, server)
    assert runs.view(server, run).state_type == true


def test_a_run_whose_start_was_interrupted_is_started_again(
    server_home: Home, server: Running, source: dict[str, Any]
) -> None:
    run = planned(server, source)
    force(server, "flow_runs", run, {"type": "PENDING"})
    settle(server_home, server)
    assert runs.wait(server, run, timeout=PATIENCE).state_type == "COMPLETED"


def test_the_subflows_and_tasks_of_a_dead_run_end_with_it(
    server_home: Home, server: Running, source: dict[str, Any]
) -> None:
    run = planned(server, source)
    step = task(server, run)
    with api(server) as client:
        part = {"flow_id": source["flow_id"], "parent_task_run_id": step, "state": {"type": "RUNNING"}}
        subflow = str(client.post("/flow_runs/", json=part).raise_for_status().json()["id"])
    inner = task(server, subflow)
    force(server, "flow_runs", run, {"type": "RUNNING"})
    settle(server_home, server)
    assert runs.view(server, subflow).state_type == "CRASHED"
    assert [state_of_task(server, one) for one in (step, inner)] == ["CRASHED", "CRASHED"]


@pytest.mark.parametrize("ended", ["COMPLETED", "CANCELLED"])
def test_a_task_whose_end_was_never_told_ends_as_its_run_did(
    server_home: Home, server: Running, source: dict[str, Any], ended: str
) -> None:
    run = planned(server, source)
    step = task(server, run)
    force(server, "flow_runs", run, {"type": ended})
    settle(server_home, server)
    assert state_of_task(server, step) == ended


def test_a_sync_that_crashed_goes_on_in_a_new_run_as_deep_as_it_was(server: Running, source: dict[str, Any]) -> None:
    crash(server, source, deep=True)
    resume(server)
    resume(server)
    latest = until(lambda: of_source(server, source)[0], lambda run: run["state_type"] == "COMPLETED")
    assert latest["parameters"]["deep"] is True
    resume(server)
    assert len(of_source(server, source)) == 2


def test_two_that_see_the_same_crash_at_once_ask_for_one_run(
    server: Running, source: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "_is_coming", lambda *_: False)
    crash(server, source)
    resume(server)
    resume(server)
    assert len(of_source(server, source)) == 2


def test_a_source_that_crashes_every_time_is_left_to_its_schedule(server: Running, source: dict[str, Any]) -> None:
    with api(server) as client:
        # Else the run that goes on might come in between.
        client.post(f"/deployments/{source['id']}/pause_deployment").raise_for_status()
    for _ in range(GIVEN_UP_AFTER):
        crash(server, source)
    with api(server) as client:
        client.post(f"/deployments/{source['id']}/resume_deployment").raise_for_status()
    assert [(one.source, one.resumed) for one in resume(server) if one.source == source["name"]] == [
        (source["name"], False)
    ]
    assert len(of_source(server, source)) == GIVEN_UP_AFTER


def test_a_source_that_is_paused_stays_paused_when_its_run_crashed(server: Running, source: dict[str, Any]) -> None:
    with api(server) as client:
        client.post(f"/deployments/{source['id']}/pause_deployment").raise_for_status()
    crash(server, source)
    resume(server)
    assert len(of_source(server, source)) == 1


def test_what_was_asked_for_begins_as_much_sooner_as_the_clock_was_set_back(
    server: Running, source: dict[str, Any]
) -> None:
    planned(server, source)
    replan(server, timedelta(hours=6).total_seconds())
    (run,) = of_source(server, source)
    assert datetime.fromisoformat(run["next_scheduled_start_time"]) == datetime.fromisoformat(_TOMORROW) - timedelta(
        hours=6
    )


def planned(server: Running, source: dict[str, Any], *, deep: bool = False) -> str:
    """A run that the worker leaves alone, for it is due tomorrow."""
    body = {
        "state": {"type": "SCHEDULED", "state_details": {"scheduled_time": _TOMORROW}},
        "parameters": {"deep": deep},
    }
    with api(server) as client:
        return str(
            client.post(f"/deployments/{source['id']}/create_flow_run", json=body).raise_for_status().json()["id"]
        )


def crash(server: Running, source: dict[str, Any], *, deep: bool = False) -> None:
    force(server, "flow_runs", planned(server, source, deep=deep), {"type": "CRASHED"})


def force(server: Running, kind: str, run: str, state: dict[str, Any]) -> None:
    with api(server) as client:
        client.post(f"/{kind}/{run}/set_state", json={"state": state, "force": True}).raise_for_status()


def task(server: Running, run: str) -> str:
    """A task of a run that seems to go on."""
    body = {"flow_run_id": run, "task_key": "step", "dynamic_key": "0", "state": {"type": "RUNNING"}}
    with api(server) as client:
        return str(client.post("/task_runs/", json=body).raise_for_status().json()["id"])


def state_of_task(server: Running, run: str) -> str:
    with api(server) as client:
        return str(client.get(f"/task_runs/{run}").raise_for_status().json()["state_type"])


def of_source(server: Running, source: dict[str, Any]) -> list[dict[str, Any]]:
    """The runs of a source, the latest first."""
    with api(server) as client:
        query = {"deployments": {"id": {"any_": [source["id"]]}}}
        found = client.post("/flow_runs/filter", json=query).raise_for_status().json()
    return sorted(found, key=lambda run: str(run["created"]), reverse=True)
