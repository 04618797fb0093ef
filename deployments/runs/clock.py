"""The planned runs of a server whose clock was set back. The supervisor calls this; it needs no knowledge of live runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from deployments.server.client import Client, api, everything
from deployments.server.environment import POOL
from deployments.server.running import Running

_FINAL = ["COMPLETED", "FAILED", "CANCELLED", "CRASHED"]
_CLOCK_SET = timedelta(seconds=10)
"""A difference that no slow correction of the clock makes."""


def replan(state: Running, back: float) -> None:
    """Move the runs that have not started to a time `back` seconds earlier: the clock was set back by that.

    What a schedule planned is deleted, and planned anew by the server; a requested run starts as soon as it was to.
    Runs that ended in the future are deleted: the server never plans a time again of which it has a run.
    """
    future = {"after_": datetime.now(UTC).isoformat()}
    with api(state) as client:
        for run in _runs(client, {"state": {"type": {"any_": _FINAL}}, "start_time": future}):
            if run["auto_scheduled"]:
                client.delete(f"/flow_runs/{run['id']}").raise_for_status()
        for run in _runs(client, {"state": {"type": {"any_": ["SCHEDULED"]}}}):
            planned = datetime.fromisoformat(run["next_scheduled_start_time"] or run["expected_start_time"])
            if planned <= datetime.now(UTC):
                continue
            if run["auto_scheduled"]:
                client.delete(f"/flow_runs/{run['id']}").raise_for_status()
                continue
            sooner = {"scheduled_time": (planned - timedelta(seconds=back)).isoformat()}
            body = {"state": {"type": "SCHEDULED", "state_details": sooner}, "force": True}
            answer = client.post(f"/flow_runs/{run['id']}/set_state", json=body)
            if not answer.is_missing:
                answer.raise_for_status()


def follow_clock(state: Running) -> float:
    """Check whether the clock was set back while nothing ran, and `replan` if so; by how many seconds at least.

    The worker's last heartbeat shows what time it was. It is deleted, because it says nothing about the present.
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
