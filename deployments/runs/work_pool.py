"""Our work pool on the Prefect server: its creation, its worker, and its runs after the clock was set back. For the supervisor.

Does not import Prefect, and needs no knowledge of live runs.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from deployments.server.client import Client, api, everything
from deployments.server.environment import POOL
from deployments.server.running import Running
from tasks.run_states import FINAL

_CLOCK_SET = timedelta(seconds=10)
"""Larger than any difference that gradual correction (NTP) makes."""


def ensure_pool(state: Running, queues: Collection[str] = ()) -> None:
    """Create or update the work pool, and create these queues, which a worker can poll only then. Idempotent."""
    template = base_job_template()
    with api(state) as client:
        answer = client.get(f"/work_pools/{POOL}")
        if answer.is_missing:
            # No limit here: the worker adapts its own limit, and sees waiting runs only if the server does not withhold them.
            pool = {"name": POOL, "type": "warm", "base_job_template": template}
            _create(client, "/work_pools/", pool)
        elif answer.raise_for_status().json()["base_job_template"] != template:
            client.patch(f"/work_pools/{POOL}", json={"base_job_template": template}).raise_for_status()
        for queue in queues:
            _create(client, f"/work_pools/{POOL}/queues", {"name": queue})


def _create(client: Client, path: str, row: dict[str, Any]) -> None:
    """Create a row that has a name, unless it exists: two hosts may start together."""
    response = client.post(path, json=row)
    if response.status_code != HTTPStatus.CONFLICT:
        response.raise_for_status()


def worker_online(state: Running) -> bool:
    """Whether a worker has polled our pool since this start. The server's own status lags by a minute."""
    with api(state) as client:
        since = {"workers": {"last_heartbeat_time": {"after_": state.started.isoformat()}}}
        answer = client.post(f"/work_pools/{POOL}/workers/filter", json=since).raise_for_status()
        return bool(answer.json())


def base_job_template() -> dict[str, Any]:
    """The template of a pool of type `warm`. Its variables are a run's resources, which only the worker reads."""
    # Imported here: the description of resources loads heavy modules, which the supervisor needs once.
    from catchment.settings import ResourceChanges

    schema = ResourceChanges.model_json_schema()
    # The server rejects an empty job configuration.
    return {
        "job_configuration": {"labels": {}},
        "variables": {"type": "object", "properties": schema["properties"]},
    }


def replan(state: Running, back: float) -> None:
    """Move the runs that have not started by `back` seconds to the past, because the clock was set back by that.

    Scheduled runs are deleted and scheduled again; by itself the server would do that a minute later. A requested run keeps its
    delay. Runs that ended in the future are deleted: otherwise the server would not schedule the same time again.
    """
    future = {"after_": datetime.now(UTC).isoformat()}
    deployments = set()
    with api(state) as client:
        for run in _runs(client, {"state": {"type": {"any_": FINAL}}, "start_time": future}):
            if run["auto_scheduled"]:
                client.delete(f"/flow_runs/{run['id']}").raise_for_status()
        for run in _runs(client, {"state": {"type": {"any_": ["SCHEDULED"]}}}):
            planned = datetime.fromisoformat(run["next_scheduled_start_time"] or run["expected_start_time"])
            if planned <= datetime.now(UTC):
                continue
            if run["auto_scheduled"]:
                client.delete(f"/flow_runs/{run['id']}").raise_for_status()
                deployments.add(run["deployment_id"])
                continue
            sooner = {"scheduled_time": (planned - timedelta(seconds=back)).isoformat()}
            body = {"state": {"type": "SCHEDULED", "state_details": sooner}, "force": True}
            client.post(f"/flow_runs/{run['id']}/set_state", json=body).raise_unless_missing()
        for deployment in deployments:
            client.post(f"/deployments/{deployment}/schedule", json={}).raise_unless_missing()


def follow_clock(state: Running) -> float:
    """Check whether the clock was set back while Catchment was stopped, and `replan` if so. Returns the minimum in seconds.

    The worker's last heartbeat shows the previous time. It is deleted, because it is no evidence of a running worker.
    """
    now = datetime.now(UTC)
    seen_later = {"workers": {"last_heartbeat_time": {"after_": (now + _CLOCK_SET).isoformat()}}}
    with api(state) as client:
        workers = client.post(f"/work_pools/{POOL}/workers/filter", json=seen_later).raise_for_status().json()
        back = max(
            (datetime.fromisoformat(worker["last_heartbeat_time"]) - now for worker in workers), default=timedelta()
        ).total_seconds()
        if back:
            replan(state, back)
        for worker in workers:
            client.delete(f"/work_pools/{POOL}/workers/{quote(worker['name'], safe='')}").raise_for_status()
    return back


def _runs(client: Client, flow_runs: dict[str, Any]) -> list[dict[str, Any]]:
    return everything(client, "flow_runs", {"flow_runs": flow_runs, "work_pools": {"name": {"any_": [POOL]}}})
