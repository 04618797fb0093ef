"""The runs that the Prefect server remembers, made true: by the processes that live, and not by what was said last."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from catchment.errors import TryAgain
from catchment.places import live_runs
from catchment.runtime.home import Home
from deployments.server.client import Client, ServerUnreachable, api, everything
from deployments.server.environment import POOL
from deployments.server.running import Running, running

GIVEN_UP_AFTER = 3
"""A source whose runs crashed so often in a row is left to its schedule, or to a person."""

_PAGE = 200
_ACTIVE = ["PENDING", "RUNNING", "CANCELLING"]
_FINAL = ["COMPLETED", "FAILED", "CANCELLED", "CRASHED"]
# A retry of a flow waits in the process of the run; without it, nothing ever takes the run up again.
_NEEDS_PROCESS = {"operator": "or_", "type": {"any_": _ACTIVE}, "name": {"any_": ["AwaitingRetry"]}}
_OUR_POOL = {"work_pools": {"name": {"any_": [POOL]}}}
_SOON_SECONDS = 60
_CLOCK_SET = timedelta(seconds=10)
"""A difference that no slow correction of the clock makes."""
_TOLD_SECONDS = 10
"""So long after a run has ended the server has heard of the end of its tasks, if it ever will."""
_NO_PROCESS = "The process of its run is gone"


@dataclass(frozen=True, slots=True)
class SettledRuns:
    """How many runs, and parts of runs, were corrected, and how many the server would not correct now."""

    corrected: int
    refused: int


@dataclass(frozen=True, slots=True)
class Crashed:
    """A source whose latest run crashed: the run, and whether another was asked for."""

    source: str
    run: str
    resumed: bool


def settle(home: Home, state: Running, *, still_for: float = 0) -> SettledRuns:
    """Correct every run of our pool that the server believes active and that no process executes; may be called again.

    One that had begun is marked crashed; one that had not is scheduled again, for nothing of it happened. Its subflows
    and tasks end with it. Left alone is what changed its state less than `still_for` seconds ago: a run that is about to
    start has no process yet.
    """
    executing = live_runs(home)
    with api(state) as client:
        lost = [
            (run, _true_state(run))
            for run in _runs(client, {"state": _NEEDS_PROCESS})
            if run["id"] not in executing and _stands(run, still_for)
        ]
        parts = _runs(client, {"state": _NEEDS_PROCESS, "parent_task_run_id": {"is_null_": False}}, {})
        lost += [(part, _crashed(_NO_PROCESS)) for part in parts if _is_lost(client, part, executing)]
        done = [_set_state(client, "flow_runs", run, true) for run, true in lost]
        # Of these all tasks have ended; of others the server may not have heard yet.
        if lost:
            done += _settle_tasks(client, {"id": {"any_": [run["id"] for run, _ in lost]}})
        told_before = datetime.now(UTC) - timedelta(seconds=min(still_for, _TOLD_SECONDS))
        done += _settle_tasks(client, {"end_time": {"before_": told_before.isoformat()}})
    return SettledRuns(done.count(True), done.count(False))


def resume(state: Running, *, since: float | None = None) -> list[Crashed]:
    """Ask for a run of every source whose latest run crashed, unless one is coming or it crashed too often in a row.

    Looks at what crashed in the last `since` seconds, or ever. May be called again: what was asked for is not asked for twice.
    """
    crashed: dict[str, Any] = {"state": {"type": {"any_": ["CRASHED"]}}}
    if since is not None:
        crashed["end_time"] = {"after_": (datetime.now(UTC) - timedelta(seconds=since)).isoformat()}
    found = []
    with api(state) as client:
        deployments = {run["deployment_id"] for run in _runs(client, crashed)} - {None}
        for deployment in deployments:
            if (one := _resume(client, deployment)) is not None:
                found.append(one)
    return found


def resume_now(home: Home) -> None:
    """As `resume`, for the worker whose runner was lost. The next sweep does the same if the server does not answer."""
    if state := running(home):
        with contextlib.suppress(TryAgain):
            resume(state, since=_SOON_SECONDS)


def drop_overdue(home: Home, state: Running) -> None:
    """Of the runs that a schedule planned and that did not begin in time, keep the latest of each deployment."""
    overdue = {
        "state": {"type": {"any_": ["SCHEDULED"]}},
        "expected_start_time": {"before_": datetime.now(UTC).isoformat()},
    }
    kept: set[str] = set()
    with api(state) as client:
        planned = [run for run in _runs(client, overdue) if run["auto_scheduled"]]
        executing = live_runs(home) if planned else frozenset()
        for run in planned:
            if run["id"] in executing:
                # It has just begun, and the server is yet to hear of it.
                continue
            if run["deployment_id"] in kept:
                client.delete(f"/flow_runs/{run['id']}").raise_for_status()
            kept.add(run["deployment_id"])


def replan(state: Running, back: float) -> None:
    """Bring the runs that are still to begin into a time that is `back` seconds earlier: the clock was set back by that.

    What a schedule planned is dropped, and planned anew by the server; what was asked for begins as soon as it was to.
    What ended in the future is forgotten: the server never plans a time again of which it has a run.
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
            _set_state(client, "flow_runs", run, {"type": "SCHEDULED", "state_details": sooner})


def follow_clock(state: Running) -> float:
    """See whether the clock was set back while nothing ran, and `replan` if it was; by how many seconds at least.

    The worker's last sign of life says what time it was. It is forgotten, for it is no sign of life now.
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


def cancel_active(home: Home, state: Running, *, patience: float, hurry: Callable[[], bool]) -> bool:
    """Ask every active run of our pool to end; whether there were any.

    Waits until each has ended, for `patience` seconds at most, or until `hurry`.
    """
    deadline = time.monotonic() + patience
    found = False
    with api(state) as client:
        while active := _runs(client, {"state": {"type": {"any_": _ACTIVE}}}):
            found = True
            for run in active:
                if run["state_type"] != "CANCELLING":
                    asked = {"type": "CANCELLING", "message": "Catchment is shutting down"}
                    _set_state(client, "flow_runs", run, asked)
            given_up = hurry() or time.monotonic() > deadline
            if given_up or not live_runs(home) & {run["id"] for run in active}:
                break
            time.sleep(0.2)
    return found


def _true_state(run: dict[str, Any]) -> dict[str, str]:
    if run["state_type"] == "PENDING" and run["run_count"] == 0:
        return {"type": "SCHEDULED", "message": "Its start was interrupted; scheduled again"}
    if run["state_type"] == "CANCELLING":
        return {"type": "CANCELLED", "message": "Cancelled, and its process is gone"}
    return _crashed("Its process is gone; the next sync goes on")


def _crashed(message: str) -> dict[str, str]:
    return {"type": "CRASHED", "message": message}


def _is_lost(client: Client, part: dict[str, Any], executing: Collection[str]) -> bool:
    """Whether a subflow belongs to a run of our pool that no process executes, or to one that was deleted."""
    run = part
    while run["parent_task_run_id"] is not None:
        of_part = {"task_runs": {"id": {"any_": [run["parent_task_run_id"]]}}}
        above = client.post("/flow_runs/filter", json=of_part).raise_for_status().json()
        if not above:
            return True
        run = above[0]
    return run["work_pool_name"] == POOL and run["id"] not in executing


def _settle_tasks(client: Client, which: dict[str, Any]) -> list[bool]:
    """End the tasks that seem to go on in runs that have ended. What became of them was never told, or was lost on the way."""
    query = {
        "task_runs": {"state": {"type": {"any_": ["SCHEDULED", *_ACTIVE]}}},
        "flow_runs": {"state": {"type": {"any_": _FINAL}}, **which},
        "limit": _PAGE,
    }
    done: list[bool] = []
    while tasks := client.post("/task_runs/filter", json=query).raise_for_status().json():
        ids = list({task["flow_run_id"] for task in tasks})
        above = client.post("/flow_runs/filter", json={"flow_runs": {"id": {"any_": ids}}}).raise_for_status().json()
        how = {run["id"]: run["state_type"] for run in above}
        now = [_set_state(client, "task_runs", task, _end_of_task(how.get(task["flow_run_id"]))) for task in tasks]
        done += now
        if not all(now) or len(tasks) < _PAGE:
            break
    return done


def _end_of_task(run_ended: str | None) -> dict[str, str]:
    if run_ended == "COMPLETED":
        return {"type": "COMPLETED", "message": "Its end was not told; the run that it is a part of completed"}
    if run_ended == "CANCELLED":
        return {"type": "CANCELLED", "message": "The run that it is a part of was cancelled"}
    return _crashed(_NO_PROCESS)


def _resume(client: Client, deployment: str) -> Crashed | None:
    of_source = {"deployments": {"id": {"any_": [deployment]}, "tags": {"all_": ["source"]}}}
    # Before the clock was set back, some may have ended in what is the future again.
    until_now = {"state": {"type": {"any_": _FINAL}}, "end_time": {"before_": datetime.now(UTC).isoformat()}}
    last = {**of_source, "flow_runs": until_now, "sort": "END_TIME_DESC"}
    ended = client.post("/flow_runs/filter", json={**last, "limit": GIVEN_UP_AFTER}).raise_for_status().json()
    if not ended or ended[0]["state_type"] != "CRASHED" or _is_coming(client, of_source):
        return None
    there = client.get(f"/deployments/{deployment}").raise_for_status().json()
    if there["paused"]:
        return None
    if len(ended) == GIVEN_UP_AFTER and {run["state_type"] for run in ended} == {"CRASHED"}:
        return Crashed(there["name"], ended[0]["id"], resumed=False)
    body: dict[str, Any] = {
        "state": {"type": "SCHEDULED", "message": "The last run crashed; this one goes on"},
        # Whoever else has seen the same crash asks for the same run.
        "idempotency_key": f"goes on for {ended[0]['id']}",
    }
    if asked := {name: ended[0]["parameters"][name] for name in ("deep", "plan") if name in ended[0]["parameters"]}:
        body["parameters"] = asked
    client.post(f"/deployments/{deployment}/create_flow_run", json=body).raise_for_status()
    return Crashed(there["name"], ended[0]["id"], resumed=True)


def _is_coming(client: Client, of_source: dict[str, Any]) -> bool:
    """Whether a run of the source goes on or is about to begin."""
    soon = datetime.now(UTC) + timedelta(seconds=_SOON_SECONDS)
    coming = (
        {"state": {"type": {"any_": _ACTIVE}}},
        {"state": {"type": {"any_": ["SCHEDULED"]}}, "expected_start_time": {"before_": soon.isoformat()}},
    )
    queries = ({**of_source, "flow_runs": flow_runs, "limit": 1} for flow_runs in coming)
    return any(client.post("/flow_runs/filter", json=query).raise_for_status().json() for query in queries)


def _stands(run: dict[str, Any], seconds: float) -> bool:
    """Whether a run has been in its state for so long; a state of the future is one from before the clock was set back."""
    age = (datetime.now(UTC) - datetime.fromisoformat(run["state"]["timestamp"])).total_seconds()
    return age >= seconds or age < -_SOON_SECONDS


def _runs(client: Client, flow_runs: dict[str, Any], where: dict[str, Any] = _OUR_POOL) -> list[dict[str, Any]]:
    """The matching runs of our pool, or of elsewhere, the latest first. Subflows are in no pool."""
    return everything(client, "flow_runs", {"flow_runs": flow_runs, **where, "sort": "EXPECTED_START_TIME_DESC"})


def _set_state(client: Client, kind: str, run: dict[str, Any], state: dict[str, Any]) -> bool:
    """Whether the run is as it should be now: so is one that was deleted meanwhile."""
    # The server drops the connection, or fails, where a slot that the run held is in the way; the next sweep tries again.
    # A connection that it is about to drop must not be the one of the next question.
    last = {"Connection": "close"}
    with contextlib.suppress(ServerUnreachable):
        answer = client.post(f"/{kind}/{run['id']}/set_state", json={"state": state, "force": True}, headers=last)
        return answer.is_success or answer.is_missing
    return False
