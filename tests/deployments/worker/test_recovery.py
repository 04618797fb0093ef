"""Recovery on a real server, in a work pool without a worker: none of its runs is live unless a test sets that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import pytest
from prefect.client.orchestration import PrefectClient

from catchment.runtime.membership import ANY, HOST_LABEL
from deployments.runs import recovery, work_pool
from deployments.runs.recovery import GIVEN_UP_AFTER, CrashedSource, Executed
from deployments.server.client import Client, api
from deployments.server.environment import POOL
from deployments.server.running import Running
from tasks.run_states import INTERRUPTED

pytestmark = pytest.mark.server

_TOMORROW = (datetime.now(UTC) + timedelta(days=1)).isoformat()
T = TypeVar("T")


@dataclass(frozen=True)
class DeadPool:
    """A work pool without a worker, with the deployment of one source."""

    server: Running
    client: Client
    name: str
    flow: str
    deployment: str

    def recover(self, step: Callable[[PrefectClient], Awaitable[T]]) -> T:
        async def recovering() -> T:
            async with PrefectClient(self.server.api_url, auth_string=self.server.login) as client:
                return await step(client)

        return asyncio.run(recovering())

    def correct(self, *live: str) -> None:
        self.recover(lambda client: recovery.correct(client, Executed(self.name), lambda: {UUID(run) for run in live}))

    def resume(self) -> CrashedSource | None:
        return self.recover(lambda client: recovery.resume(client, UUID(self.deployment)))

    def run(self, state: dict[str, Any], *, deep: bool = False) -> str:
        """Create a run of the source with this state."""
        body = {"state": {"type": "SCHEDULED", "state_details": {"scheduled_time": _TOMORROW}}}
        run = self.post(
            f"/deployments/{self.deployment}/create_flow_run",
            body | {"name": "notes: syncing", "parameters": {"deep": deep}},
        )["id"]
        self.post(f"/flow_runs/{run}/set_state", {"state": state, "force": True})
        return str(run)

    def task(self, run: str) -> str:
        """Create a task run with the state Running."""
        body = {"flow_run_id": run, "task_key": "step", "dynamic_key": "0", "state": {"type": "RUNNING"}}
        return str(self.post("/task_runs/", body)["id"])

    def state(self, run: str, kind: str = "flow_runs") -> str:
        return str(self.client.get(f"/{kind}/{run}").raise_for_status().json()["state_type"])

    def runs(self) -> list[dict[str, Any]]:
        """Return the runs of the source, latest first."""
        found = self.post("/flow_runs/filter", {"deployments": {"id": {"any_": [self.deployment]}}})
        return sorted(found, key=lambda run: str(run["created"]), reverse=True)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return self.client.post(path, json=body).raise_for_status().json()


@pytest.fixture
def dead(server: Running) -> Iterator[DeadPool]:
    with api(server) as client:
        name = f"dead-{time.time_ns()}"
        client.post("/work_pools/", json={"name": name, "type": "warm"}).raise_for_status()
        flow = client.post("/flows/", json={"name": "sync-standin"}).raise_for_status().json()["id"]
        body = {"name": name, "flow_id": flow, "work_pool_name": name, "tags": ["source"]}
        deployment = client.post("/deployments/", json=body).raise_for_status().json()["id"]
        yield DeadPool(server, client, name, flow, deployment)
        client.delete(f"/work_pools/{name}").raise_for_status()


def test_host_corrects_only_runs_that_it_executes(dead: DeadPool) -> None:
    """Runs of other hosts, and runs that a Prefect worker takes from the queue `any`, stay as they are."""
    runs = {}
    for queue, host in (("host-attic", ""), ("host-barn", ""), (ANY, "attic"), (ANY, "barn"), (ANY, "")):
        placed = {"work_pool_name": dead.name, "work_queue_name": queue}
        dead.client.patch(f"/deployments/{dead.deployment}", json=placed).raise_for_status()
        run = runs[queue, host] = dead.run({"type": "RUNNING"})
        if host:
            dead.client.patch(f"/flow_runs/{run}/labels", json={HOST_LABEL: host}).raise_for_status()

    dead.recover(lambda client: recovery.correct(client, Executed(dead.name, "attic"), frozenset))

    assert [key for key, run in runs.items() if dead.state(run) == "CRASHED"] == [("host-attic", ""), (ANY, "attic")]


@pytest.mark.parametrize(
    ("believed", "true"),
    [
        ({"type": "RUNNING"}, "CRASHED"),
        ({"type": "CANCELLING"}, "CANCELLED"),
        ({"type": "SCHEDULED", "name": "AwaitingRetry", "state_details": {"scheduled_time": _TOMORROW}}, "CRASHED"),
        ({"type": "PENDING"}, "SCHEDULED"),
        ({"type": "SCHEDULED", "state_details": {"scheduled_time": _TOMORROW}}, "SCHEDULED"),
        ({"type": "COMPLETED"}, "COMPLETED"),
    ],
    ids=["running", "cancelling", "awaiting retry", "starting", "scheduled", "completed"],
)
def test_state_and_name_of_a_lost_run_are_corrected(dead: DeadPool, believed: dict[str, Any], true: str) -> None:
    run = dead.run(believed)

    dead.correct()

    assert dead.state(run) == true
    name = dead.client.get(f"/flow_runs/{run}").raise_for_status().json()["name"]
    # The server itself ends a cancelled run that has not started.
    assert name == f"notes: {'crashed' if true == 'CRASHED' else 'syncing'}"


def test_live_runs_keep_their_state(dead: DeadPool) -> None:
    live, lost = dead.run({"type": "RUNNING"}), dead.run({"type": "RUNNING"})

    dead.correct(live)

    assert (dead.state(live), dead.state(lost)) == ("RUNNING", "CRASHED")


def test_subflows_and_tasks_of_a_lost_run_end_with_it(dead: DeadPool) -> None:
    run = dead.run({"type": "RUNNING"})
    step = dead.task(run)
    part = {"flow_id": dead.flow, "parent_task_run_id": step, "state": {"type": "RUNNING"}}
    subflow = str(dead.post("/flow_runs/", part)["id"])
    inner = dead.task(subflow)

    dead.correct()

    assert dead.state(subflow) == "CRASHED"
    assert [dead.state(one, "task_runs") for one in (step, inner)] == ["CRASHED", "CRASHED"]


@pytest.mark.parametrize("ended", ["COMPLETED", "CANCELLED"])
def test_task_whose_end_was_not_reported_ends_as_its_run(
    dead: DeadPool, ended: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "_REPORTED_AFTER", timedelta(0))
    run = dead.run({"type": "RUNNING"})
    step = dead.task(run)
    dead.post(f"/flow_runs/{run}/set_state", {"state": {"type": ended}, "force": True})

    dead.correct()

    assert dead.state(step, "task_runs") == ended


def test_crashed_sync_resumes_once_with_its_parameters(dead: DeadPool) -> None:
    crashed = dead.run({"type": "CRASHED"}, deep=True)

    resumed = dead.resume()

    assert resumed is not None
    assert (str(resumed.run), resumed.is_resumed) == (crashed, True)
    latest, _ = dead.runs()
    assert latest["parameters"]["deep"] is True
    assert dead.resume() is None
    assert len(dead.runs()) == 2


def test_two_that_see_the_same_crash_request_one_run(dead: DeadPool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing_is_coming(*_: object) -> bool:
        return False

    monkeypatch.setattr(recovery, "_has_next_run", nothing_is_coming)
    dead.run({"type": "CRASHED"})

    assert [found is not None and found.is_resumed for found in (dead.resume(), dead.resume())] == [True, False]
    assert len(dead.runs()) == 2


def test_source_that_crashes_every_time_is_left_to_its_schedule(dead: DeadPool) -> None:
    for _ in range(GIVEN_UP_AFTER):
        dead.run({"type": "CRASHED"})

    found = dead.resume()

    assert found is not None
    assert not found.is_resumed
    assert len(dead.runs()) == GIVEN_UP_AFTER


def test_pause_before_the_next_run_grows_with_each_crash_in_a_row(dead: DeadPool) -> None:
    pauses = []
    for _ in range(GIVEN_UP_AFTER - 1):
        dead.run({"type": "CRASHED"})
        before = datetime.now(UTC)
        assert dead.resume() is not None
        assert dead.resume() is None, "a run that is planned for later is the successor already"
        planned = dead.runs()[0]
        pauses.append(round((datetime.fromisoformat(planned["expected_start_time"]) - before).total_seconds(), -1))
        dead.client.delete(f"/flow_runs/{planned['id']}")
    assert pauses == sorted(set(pauses))
    assert pauses[0] == 0


@pytest.mark.parametrize("tag", ["embed", "upkeep"])
def test_crashed_run_of_no_source_resumes_too(dead: DeadPool, tag: str) -> None:
    dead.client.patch(f"/deployments/{dead.deployment}", json={"tags": [tag]}).raise_for_status()
    dead.run({"type": "CRASHED"})

    found = dead.resume()

    assert found is not None
    assert found.is_resumed


def test_interrupted_runs_do_not_count_as_crashes_of_their_source(dead: DeadPool) -> None:
    for _ in range(GIVEN_UP_AFTER):
        dead.run({"type": "CRASHED", "name": INTERRUPTED.name})

    found = dead.resume()

    assert found is not None
    assert found.is_resumed


def test_paused_source_stays_paused_after_a_crash(dead: DeadPool) -> None:
    dead.client.post(f"/deployments/{dead.deployment}/pause_deployment").raise_for_status()
    dead.run({"type": "CRASHED"})

    assert dead.resume() is None
    assert len(dead.runs()) == 1


def test_requested_run_starts_sooner_by_what_the_clock_was_set_back(
    dead: DeadPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert work_pool.POOL == POOL
    monkeypatch.setattr(work_pool, "POOL", dead.name)
    dead.run({"type": "SCHEDULED", "state_details": {"scheduled_time": _TOMORROW}})

    work_pool.replan(dead.server, timedelta(hours=6).total_seconds())

    (run,) = dead.runs()
    planned = datetime.fromisoformat(run["next_scheduled_start_time"])
    assert planned == datetime.fromisoformat(_TOMORROW) - timedelta(hours=6)


def test_schedule_is_planned_at_once_after_the_clock_was_set_back(
    dead: DeadPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_pool, "POOL", dead.name)
    dead.post(f"/deployments/{dead.deployment}/schedules", [{"schedule": {"interval": 3_600}, "active": True}])
    dead.post(f"/deployments/{dead.deployment}/schedule", {})
    before = {run["id"] for run in dead.runs()}
    assert before

    work_pool.replan(dead.server, timedelta(hours=6).total_seconds())

    now = [run["id"] for run in dead.runs() if run["auto_scheduled"]]
    assert now
    assert before.isdisjoint(now)
