"""The runs of a source's deployment: start one and wait for it; pause and resume. Does not import Prefect."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from catchment.errors import NotFound, Refused, TryAgain
from catchment.pacing.waits import WaitKind
from catchment.runtime.home import Home
from catchment.runtime.membership import shipped_name
from catchment.runtime.worker_status import WorkerStatus
from deployments.server.client import Client, ServerError, ServerUnreachable, api, deployment_named, everything
from deployments.server.planned import BACKFILL, RETRIES
from deployments.server.running import Running
from tasks.run_states import COALESCED, FINAL
from tasks.source_events import resource

_POLL_SECONDS = 1.0
"""Time between two polls for the end of a run that the worker does not report: each costs the server 15 ms."""
_LOOK_SECONDS = 0.01

_SILENCE = 60.0
"""Seconds without an answer of the server before waiting fails. A killed server is back by then, and the run continues."""


@dataclass(frozen=True, slots=True)
class RunView:
    """A flow run as the server reports it. `state_name` is more specific than `state_type`: "Quarantined" is a FAILED."""

    id: str
    name: str
    state_type: str
    state_name: str
    message: str
    ui_url: str

    @property
    def ended(self) -> bool:
        """Whether its state is final."""
        return self.state_type in FINAL


def start_sync(
    running: Running,
    kind: str,
    name: str,
    *,
    deep: bool = False,
    plan: str | None = None,
    backfill: int | None = None,
) -> str:
    """Request a sync of a source now, with a saved plan or for a backfill if given. Returns the ID of its run.

    Raises NotFound if the source is not deployed, Refused if its deployment is switched off in Prefect.
    """
    with api(running) as client:
        deployment = _deployment(client, kind, name)
        if deployment["paused"]:
            raise Refused(str(WaitKind.SWITCHED_OFF.of(name)))
        return request_run(
            client, deployment["id"], f"{name}: requested", deep=deep or None, plan=plan, backfill=backfill
        )


def request_run(client: Client, deployment: str, name: str | None = None, **parameters: Any) -> str:
    """Request a run of a deployment now, with the parameters that are not None. Returns its ID."""
    chosen = {key: value for key, value in parameters.items() if value is not None}
    body = {"state": {"type": "SCHEDULED"}, "name": name, "parameters": chosen}
    response = client.post(f"/deployments/{deployment}/create_flow_run", json=body)
    return str(response.raise_for_status().json()["id"])


def retry_now(running: Running, names: Collection[str]) -> None:
    """Replace the runs that wait for the end of a limit by runs that start now: one per source, and one per backfill."""
    later = {"after_": datetime.now(UTC).isoformat()}
    which = {"flows": {"name": {"like_": "sync-"}}, "deployments": {"name": {"any_": list(names)}}}
    with api(running) as client:
        planned: dict[str, dict[str, Any]] = {}
        for name in (RETRIES, BACKFILL):
            query = {**which, "flow_runs": {"name": {"like_": name}, "expected_start_time": later}}
            runs = client.post("/flow_runs/filter", json=query).raise_for_status().json()
            planned |= {run["id"]: run for run in runs}
        work = {(run["deployment_id"], run["parameters"].get("backfill")) for run in planned.values()}
        for deployment, backfill in work:
            request_run(client, deployment, backfill=backfill)
        for number in planned:
            client.delete(f"/flow_runs/{number}")


def drop_waiting(running: Running, kind: str, name: str) -> None:
    """Delete the runs of a moved source that wait in the queue of the host that had it."""
    with api(running) as client:
        deployment = _deployment(client, kind, name)
        query = {
            "deployments": {"id": {"any_": [deployment["id"]]}},
            "flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}},
        }
        for run in everything(client, "flow_runs", query):
            if run["work_queue_name"] != deployment["work_queue_name"]:
                client.delete(f"/flow_runs/{run['id']}")


def start_background(running: Running, flow: str) -> bool:
    """Request a run of `embed` or `recognize` now. Returns whether its deployment exists and is not paused."""
    with api(running) as client:
        deployment = deployment_named(client, flow, shipped_name(Home.default(), flow))
        if deployment is None or deployment["paused"]:
            return False
        request_run(client, deployment["id"], f"{flow}: waiting")
        return True


def view(running: Running, run_id: str) -> RunView:
    """Return the current state of a run. Raises NotFound."""
    with api(running) as client:
        return _view(running, client, run_id)


def wait(
    running: Running, run_id: str, on_progress: Callable[[RunView], None] | None = None, timeout: float | None = None
) -> RunView:
    """Wait for the end of a run, passing its state to `on_progress` after each poll. Raises TryAgain after `timeout` seconds.

    Polls once a second, and when the worker of this process's home reports the end of the run. The run continues after a
    timeout. If it is coalesced into another run, waits for that one. Retries a server that does not answer, or reports an
    internal error, while its supervisor is running.
    """
    heard = time.monotonic()
    deadline = None if timeout is None else heard + timeout
    home = Home.default()
    with api(running) as client:
        while True:
            try:
                now = _view(running, client, run_id)
            except (ServerUnreachable, ServerError) as error:
                import psutil

                # Other errors are permanent: the run does not exist, or access is denied.
                is_refusal = isinstance(error, ServerError) and error.status < HTTPStatus.INTERNAL_SERVER_ERROR
                if is_refusal or time.monotonic() - heard > _SILENCE or not psutil.pid_exists(running.pid):
                    raise
                time.sleep(0.5)
                continue
            heard = time.monotonic()
            if on_progress is not None:
                on_progress(now)
            if now.ended and now.state_name == COALESCED.name:
                run_id = now.message.rpartition(" ")[2]
            elif now.ended:
                return now
            if deadline is not None and time.monotonic() > deadline:
                raise TryAgain(f"the sync is still running; see {now.ui_url}")
            _rest(home, run_id)


def _rest(home: Home, run_id: str) -> None:
    """Wait until the worker has reported a run and then its end, at most until the next poll."""
    was_live, next_poll = False, time.monotonic() + _POLL_SECONDS
    while time.monotonic() < next_poll:
        status = WorkerStatus.read(home)
        is_live = status is not None and run_id in status.runs
        if was_live and not is_live:
            return
        was_live = is_live
        time.sleep(_LOOK_SECONDS)


def switch(running: Running, kind: str, name: str, *, on: bool) -> None:
    """Stop a source's schedules, or resume them, also those that were switched off one by one in the Prefect UI.

    Does not affect a run in progress. Idempotent. Emits the event for automations that a resumed source is no longer held.
    """
    with api(running) as client:
        deployment = _deployment(client, kind, name)
        address = f"/deployments/{deployment['id']}"
        client.post(f"{address}/{'resume' if on else 'pause'}_deployment").raise_for_status()
        if on:
            for schedule in deployment["schedules"]:
                if not schedule["active"]:
                    client.patch(f"{address}/schedules/{schedule['id']}", json={"active": True}).raise_for_status()
            client.emit("catchment.source.released", resource(name))


def cancel(running: Running, run_id: str) -> None:
    """Ask the worker to cancel a run, as the Cancel button does. Raises NotFound."""
    with api(running) as client:
        answer = client.post(f"/flow_runs/{run_id}/set_state", json={"state": {"type": "CANCELLING"}})
        if answer.is_missing:
            raise NotFound("the run no longer exists on the server")
        answer.raise_for_status()


def _deployment(client: Client, kind: str, name: str) -> dict[str, Any]:
    if (deployment := deployment_named(client, f"sync-{kind}", name)) is None:
        raise NotFound(f"{name}: not deployed; deploy it with `catchment up --detach`")
    return deployment


def _view(running: Running, client: Client, run_id: str) -> RunView:
    answer = client.get(f"/flow_runs/{run_id}")
    if answer.is_missing:
        raise NotFound("the run no longer exists on the server")
    run = answer.raise_for_status().json()
    state = run["state"] or {}
    return RunView(
        run_id,
        run["name"],
        state.get("type", "PENDING"),
        state.get("name", "Pending"),
        state.get("message") or "",
        running.run_url(run_id),
    )
