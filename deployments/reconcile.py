"""What the Prefect server remembers, made true: its pool, and the runs whose process is gone."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from deployments.api import api
from deployments.environment import POOL
from deployments.processes import executing_flow_runs
from deployments.server import Running

_PAGE = 200
_ACTIVE = ["PENDING", "RUNNING", "CANCELLING"]
_OUR_POOL = {"work_pools": {"name": {"any_": [POOL]}}}
_RUNS_AT_ONCE = max(2, min(8, os.cpu_count() or 1))


def ensure_pool(state: Running) -> None:
    """Make the work pool, or bring it up to date; may be called again."""
    properties = {
        "command": {"type": "string", "title": "Command"},
        "env": {"type": "object", "title": "Environment Variables", "default": {}},
        "working_dir": {"type": "string", "title": "Working Directory"},
        "stream_output": {"type": "boolean", "title": "Stream Output", "default": True},
    }
    template = {
        "job_configuration": {key: "{{ " + key + " }}" for key in properties},
        "variables": {"type": "object", "properties": properties},
    }
    with api(state) as client:
        found = client.get(f"/work_pools/{POOL}")
        if found.status_code == httpx.codes.NOT_FOUND:
            pool = {
                "name": POOL,
                "type": "warm",
                "base_job_template": template,
                "concurrency_limit": _RUNS_AT_ONCE,
            }
            client.post("/work_pools/", json=pool).raise_for_status()
        elif found.raise_for_status().json()["base_job_template"] != template:
            client.patch(f"/work_pools/{POOL}", json={"base_job_template": template}).raise_for_status()


def settle(state: Running, *, still_for: float = 0) -> None:
    """Correct every run of our pool that the server believes active and that no process executes; may be called again.

    One that had begun is marked crashed; one that had not is scheduled again, for nothing of it happened. Left alone is
    what changed its state less than `still_for` seconds ago: a run that is about to start has no process yet.
    """
    executing = executing_flow_runs()
    changed_before = datetime.now(UTC) - timedelta(seconds=still_for)
    with api(state) as client:
        for run in _runs(client, {"state": {"type": {"any_": _ACTIVE}}}):
            if run["id"] in executing or datetime.fromisoformat(run["state"]["timestamp"]) > changed_before:
                continue
            if run["state_type"] == "PENDING" and run["run_count"] == 0:
                _set_state(client, run, {"type": "SCHEDULED", "message": "Its start was interrupted; scheduled again"})
            elif run["state_type"] == "CANCELLING":
                _set_state(client, run, {"type": "CANCELLED", "message": "Cancelled, and its process is gone"})
            else:
                _set_state(client, run, {"type": "CRASHED", "message": "Its process is gone; the next sync goes on"})
        for part in _runs(
            client, {"state": {"type": {"any_": _ACTIVE}}, "parent_task_run_id": {"is_null_": False}}, {}
        ):
            if not executing & _parents(client, part):
                _set_state(client, part, {"type": "CRASHED", "message": "The process of its run is gone"})


def drop_overdue(state: Running) -> None:
    """Of the runs that a schedule planned and that did not begin in time, keep the latest of each deployment."""
    overdue = {
        "state": {"type": {"any_": ["SCHEDULED"]}},
        "expected_start_time": {"before_": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())},
    }
    kept: set[str] = set()
    with api(state) as client:
        for run in _runs(client, overdue):
            if not run["auto_scheduled"]:
                continue
            if run["deployment_id"] in kept:
                client.delete(f"/flow_runs/{run['id']}").raise_for_status()
            kept.add(run["deployment_id"])


def cancel_active(state: Running, *, patience: float, hurry: Callable[[], bool]) -> None:
    """Ask every active run of our pool to end; wait until each has, for `patience` seconds at most, or until `hurry`."""
    deadline = time.monotonic() + patience
    with api(state) as client:
        while active := _runs(client, {"state": {"type": {"any_": _ACTIVE}}}):
            for run in active:
                if run["state_type"] != "CANCELLING":
                    _set_state(client, run, {"type": "CANCELLING", "message": "Catchment is shutting down"})
            given_up = hurry() or time.monotonic() > deadline
            if given_up or not executing_flow_runs() & {run["id"] for run in active}:
                return
            time.sleep(0.2)


def worker_online(state: Running) -> bool:
    """Whether a worker has served our pool since this start; the server calls one of before online for a minute."""
    with api(state) as client:
        since = {"workers": {"last_heartbeat_time": {"after_": state.started.isoformat()}}}
        answer = client.post(f"/work_pools/{POOL}/workers/filter", json=since).raise_for_status()
        return bool(answer.json())


def _runs(client: httpx.Client, flow_runs: dict[str, Any], where: dict[str, Any] = _OUR_POOL) -> list[dict[str, Any]]:
    """The matching runs of our pool, or of elsewhere, the latest first. Subflows are in no pool."""
    runs: list[dict[str, Any]] = []
    while True:
        query = {
            "flow_runs": flow_runs,
            **where,
            "sort": "EXPECTED_START_TIME_DESC",
            "limit": _PAGE,
            "offset": len(runs),
        }
        page = client.post("/flow_runs/filter", json=query).raise_for_status().json()
        runs += page
        if len(page) < _PAGE:
            return runs


def _parents(client: httpx.Client, part: dict[str, Any]) -> set[str]:
    """The run that a subflow is a part of; none when it was deleted."""
    of_part = {"task_runs": {"id": {"any_": [part["parent_task_run_id"]]}}}
    return {run["id"] for run in client.post("/flow_runs/filter", json=of_part).raise_for_status().json()}


def _set_state(client: httpx.Client, run: dict[str, Any], state: dict[str, Any]) -> None:
    # A run that was deleted meanwhile needs no correction. One whose concurrency slot was taken when the server was killed
    # cannot be corrected until the lease of the slot ends, within a minute (the server fails at it): the next sweep does it.
    with contextlib.suppress(httpx.HTTPStatusError, httpx.RemoteProtocolError, httpx.ReadError):
        client.post(f"/flow_runs/{run['id']}/set_state", json={"state": state, "force": True}).raise_for_status()
