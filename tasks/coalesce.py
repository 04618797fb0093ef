"""Coalescing of runs: one run of a source does the work of identical runs that wait for it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.exceptions import ObjectNotFound
from prefect.runtime import deployment, flow_run
from prefect.states import Scheduled

from tasks.flow_runs import read_runs
from tasks.run_states import AWAITING_SLOT, COALESCED, SKIPPED

_WAITED = timedelta(seconds=3)
"""If a run started this long after its scheduled time, other runs of its source may be waiting."""
_SOON = timedelta(seconds=10)
"""A waiting run starts within this time; the runs of a schedule are due later."""
_ENDING = timedelta(seconds=1)
_SCHEDULED = {"type": {"any_": ["SCHEDULED"]}}
_WAITING = {"type": {"any_": ["SCHEDULED", "PENDING"]}}
_ORDINARY = {"deep": False, "plan": None, "backfill": None, "changed_only": False}


async def coalesce_into_next(name: str, seconds: float, parameters: dict[str, Any]) -> State[None]:
    """Request another run of this deployment, `seconds` after this one. Returns the final state of this run."""
    moment = datetime.now(UTC) + _ENDING + timedelta(seconds=seconds)
    if (run := await request_run(f"{name}: continued", moment, f"after {flow_run.id}", parameters)) is None:
        message = "The deployment was deleted; the rest is done when the source is deployed again"
        return SKIPPED.because(message)
    return _coalesced(run)


async def request_run(name: str, moment: datetime, key: str, parameters: dict[str, Any]) -> UUID | None:
    """Schedule a run of this deployment, at most one for each key. Returns its ID; None if the deployment was deleted."""
    async with get_client() as client:
        try:
            run = await client.create_flow_run_from_deployment(
                UUID(deployment.id),
                name=name,
                parameters=parameters,
                state=Scheduled(scheduled_time=moment),
                idempotency_key=key,
            )
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.NOT_FOUND:
                raise
            return None
    return run.id


async def request_backfill(source: str, number: int, moment: datetime) -> None:
    """Request a run of this deployment for a backfill, unless one waits that starts by then.

    The key is that of this run: a restored ledger gives the numbers of its syncs again.
    """
    if number not in await _backfills_of_runs(_WAITING, moment):
        name = f"{source}: backfill {number}"
        await request_run(name, moment, f"{name} after {flow_run.id}", {"backfill": number})


async def request_once(flow: str, name: str) -> None:
    """Request a run of another deployment, unless one is waiting already, or it is paused or was deleted.

    Does nothing if the server does not respond.
    """
    # A run that has started may have seen the library before the latest change.
    waiting = {"state": _WAITING, "expected_start_time": {"before_": datetime.now(UTC) + _SOON}}
    with suppress(httpx.HTTPError, ObjectNotFound):
        async with get_client() as client:
            deployment_row = await client.read_deployment_by_name(f"{flow}/{name}")
            of_flow = {"id": {"any_": [deployment_row.id]}}
            if not deployment_row.paused and not await read_runs(client, waiting, deployment=of_flow, limit=1):
                await client.create_flow_run_from_deployment(deployment_row.id, name=f"{name}: waiting")


async def complete_waiting_runs(start: datetime | None = None) -> None:
    """Complete the runs of this source that were due before now: this run does their work.

    `start`: when that work began, if it is done. The newest of the runs remains then: the watcher, or the request of a retry,
    may have relied on it for what changed meanwhile.

    Sends no request if this run started on time, because no other run is waiting then.
    """
    before = start or datetime.now(UTC)
    if deployment.id is None or before - flow_run.scheduled_start_time < _WAITED:
        return
    state = _coalesced(UUID(flow_run.id))
    async with get_client() as client:
        own = (await client.read_flow_run(UUID(flow_run.id))).parameters
        waiting = await _runs_of_source(client, _SCHEDULED, before)
        covered = [run for run in waiting if covers(own, run.parameters)]
        for other in covered[1:] if start else covered:
            # It may have been deleted meanwhile.
            with suppress(ObjectNotFound):
                await client.set_flow_run_state(other.id, state)


async def another_run_waits() -> bool:
    """Whether an ordinary run of this source waits for this one to end."""
    return None in await _backfills_of_runs({"name": {"any_": [AWAITING_SLOT.name]}})


async def another_run_starts_by(moment: datetime) -> bool:
    """Whether an ordinary run of this source is scheduled to start at this time or before."""
    return None in await _backfills_of_runs(_SCHEDULED, moment)


async def _backfills_of_runs(state: Mapping[str, Any], moment: datetime | None = None) -> set[int | None]:
    """Return the backfills of the runs of this source in these states; None for an ordinary run."""
    if deployment.id is None:
        return set()
    async with get_client() as client:
        return {run.parameters.get("backfill") for run in await _runs_of_source(client, state, moment)}


async def _runs_of_source(client: PrefectClient, state: Mapping[str, Any], moment: datetime | None) -> list[FlowRun]:
    """Return the runs of this source in these states that are due at this time, or at any."""
    start = moment and {"before_": moment}
    runs = {"state": state, "expected_start_time": start}
    return await read_runs(client, runs, deployment={"id": {"any_": [deployment.id]}})


def covers(own: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether a run with the parameters `own` covers a run with the parameters `other`.

    A deep sync covers an ordinary sync, and a full sync covers a sync of changed paths. A sync of changed paths covers no other
    run, because the paths of that run may have changed later.
    """
    own, other = {**_ORDINARY, **own}, {**_ORDINARY, **other}
    alike = own | {"deep": other["deep"], "changed_only": other["changed_only"]} == other
    return alike and other["deep"] <= own["deep"] and not own["changed_only"]


def _coalesced(run: UUID) -> State[None]:
    """The final state of a run after `run` has taken over its work."""
    return COALESCED.because(f"Continued by run {run}")
