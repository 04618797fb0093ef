"""Correct the flow runs on the Prefect server that are dead, and resume their sources. `live_runs` decides which runs live.

Only this module sets the state of a run that has started and did not set its own final state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter
from prefect.client.schemas.objects import FlowRun, State, StateType, TaskRun
from prefect.client.schemas.sorting import FlowRunSort
from prefect.exceptions import ObjectNotFound
from prefect.states import Scheduled

from catchment.runtime.membership import ANY, executes, queue_for
from deployments.runs.live_runs import Ending
from tasks.flow_runs import read_runs
from tasks.run_states import ACTIVE, AWAITING_RETRY, CANCELLED, COMPLETED, CRASHED, FINAL, INTERRUPTED

_PAUSES = (0, 15, 60, 240)
"""Seconds until the next run after the first, second, … crash in a row. A missing resource, such as memory, may return."""
GIVEN_UP_AFTER = len(_PAUSES) + 1
"""Consecutive crashes after which a deployment is not resumed; only its schedule or the user starts it then."""
_RESUMED = ("source", "embed", "recognize", "upkeep")
"""Tags of the deployments that are resumed: those of Catchment."""

_PAGE = 200
# A retry of a flow waits in the run's process. If that process is lost, no worker starts the run again.
_NEEDS_PROCESS = {"operator": "or_", "type": {"any_": ACTIVE}, "name": {"any_": [AWAITING_RETRY.name]}}
_SOON = timedelta(minutes=1)
_REPORTED_AFTER = timedelta(seconds=10)
"""Within this time the server receives the end of each task of a run, if at all."""
_PATIENCE_SECONDS = 3.0
"""Time for one correction. The server drops the connection while the lease of a slot that the run held has not expired."""
_PROCESS_EXITED = Ending("the process of the run has exited", may_restart=True)


@dataclass(frozen=True, slots=True)
class Executed:
    """The runs of a pool that one host executes: all of them if `host` is empty, because its home runs alone.

    Otherwise the runs of its own queue, and the runs of the queue `any` with its label.
    """

    pool: str
    host: str = ""

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues with such runs, and maybe others; empty for all queues."""
        return (queue_for(self.host), ANY) if self.host else ()

    def has(self, run: FlowRun) -> bool:
        """Whether the host executes this run, or was the last to do so."""
        is_own = not self.host or executes(self.host, run.work_queue_name, run.labels)
        return is_own and run.work_pool_name == self.pool


@dataclass(frozen=True, slots=True)
class CrashedSource:
    """A source after a crash of its latest run: its deployment's name, the run, and whether another run was requested.

    Also for `embed`, `recognize` and `upkeep`, which belong to no source.
    """

    name: str
    run: UUID
    is_resumed: bool

    def __str__(self) -> str:
        if self.is_resumed:
            return f"{self.name}: the run crashed; it resumes in a new run"
        return (
            f"{self.name}: the run crashed {GIVEN_UP_AFTER} times in a row and waits for its schedule; "
            "see its runs in the Prefect UI"
        )


async def finish(client: PrefectClient, run: UUID, ending: Ending) -> State[Any] | None:
    """Correct the state of a run that has ended, and those of its subflows. Returns its final state. Idempotent."""
    try:
        flow_run = await client.read_flow_run(run)
    except ObjectNotFound:
        return None
    if (state := ending.state_for(flow_run)) is not None:
        await _end(client, flow_run, state)
    state = state or flow_run.state
    was_cancelled = ending.was_cancelled or (state is not None and state.type is StateType.CANCELLED)
    if ending.problem or was_cancelled:
        with_it = replace(ending, was_cancelled=was_cancelled)
        for subflow in await read_runs(client, {"parent_flow_run_id": {"any_": [run]}}):
            if (corrected := with_it.state_for(subflow)) is not None:
                await _end(client, subflow, corrected)
    return state


async def correct(
    client: PrefectClient, executed: Executed, live: Callable[[], Set[UUID]], ending: Ending = _PROCESS_EXITED
) -> bool:
    """Correct each of these runs that the server counts as active and that is not `live`. Idempotent.

    Returns False if the server refused some of the corrections for now.

    A run that had started is marked as crashed; other runs are scheduled again. Subflows and tasks end with their run.
    """
    # A run that ends meanwhile is live before the query, and a run that starts meanwhile is live after it.
    executing = set(live())
    open_runs = await read_runs(client, {"state": _NEEDS_PROCESS}, pool=executed.pool, queues=executed.queues)
    subflows = await read_runs(client, {"state": _NEEDS_PROCESS, "parent_task_run_id": {"is_null_": False}})
    executing |= live()
    lost = [run for run in open_runs if run.id not in executing and executed.has(run)]
    lost += [part for part in subflows if await _is_lost(client, part, executed, executing)]
    corrected = [
        await _corrected(_end(client, run, state)) for run in lost if (state := ending.state_for(run)) is not None
    ]
    if lost:
        corrected += await _finish_tasks(client, {"id": {"any_": [run.id for run in lost]}})
    corrected += await _finish_tasks(client, {"end_time": {"before_": datetime.now(UTC) - _REPORTED_AFTER}})
    return all(corrected)


async def resume(client: PrefectClient, deployment: UUID) -> CrashedSource | None:
    """Request a run of a source after a crash of its latest run, unless a run is due soon or it crashed too often in a row.

    The pause until that run grows with the crashes in a row. Returns None if no run crashed, if the deployment is paused, or
    if it is not one of Catchment. Idempotent: a crash is followed by one run.
    """
    of_source = {"id": {"any_": [deployment]}, "tags": {"any_": list(_RESUMED)}}
    # If the clock was set back, some runs have an end time in the future.
    ended: dict[str, Any] = {"state": {"type": {"any_": FINAL}}, "end_time": {"before_": datetime.now(UTC)}}
    latest = await read_runs(client, ended, deployment=of_source, sort=FlowRunSort.END_TIME_DESC, limit=1)
    if not latest or latest[0].state_type is not StateType.CRASHED or await _has_next_run(client, of_source):
        return None
    (crashed,) = latest
    # The key prevents a second run if another caller sees the same crash.
    key = f"resumes {crashed.id}"
    if await read_runs(client, {"idempotency_key": {"any_": [key]}}, limit=1):
        return None
    found_deployment = await client.read_deployment(deployment)
    if found_deployment.paused:
        return None
    pause = 0
    if crashed.state_name != INTERRUPTED.name:
        ended["state"]["name"] = {"not_any_": [INTERRUPTED.name]}
        in_a_row = await read_runs(
            client, ended, deployment=of_source, sort=FlowRunSort.END_TIME_DESC, limit=GIVEN_UP_AFTER
        )
        crashes = len(list(takewhile(lambda run: run.state_type is StateType.CRASHED, in_a_row)))
        if crashes == GIVEN_UP_AFTER:
            return CrashedSource(found_deployment.name, crashed.id, is_resumed=False)
        pause = _PAUSES[crashes - 1]
    await client.create_flow_run_from_deployment(
        deployment,
        parameters={
            name: crashed.parameters[name] for name in ("deep", "plan", "backfill") if name in crashed.parameters
        },
        state=Scheduled(
            scheduled_time=datetime.now(UTC) + timedelta(seconds=pause),
            message="The last run crashed; this one resumes",
        ),
        idempotency_key=key,
    )
    return CrashedSource(found_deployment.name, crashed.id, is_resumed=True)


async def resume_all(
    client: PrefectClient, executed: Executed, since: timedelta | None, *, queue: str | None = None
) -> list[CrashedSource]:
    """Resume each source with one of these runs that crashed within `since`, or ever. Idempotent.

    `queue`: only sources with the next run in this queue.
    """
    crashed: dict[str, Any] = {"state": {"type": {"any_": [StateType.CRASHED]}}}
    if since is not None:
        crashed["end_time"] = {"after_": datetime.now(UTC) - since}
    runs = await read_runs(client, crashed, pool=executed.pool, queues=executed.queues)
    deployments = {run.deployment_id for run in runs if executed.has(run)}
    resumed = []
    for deployment in deployments:
        if deployment is None or (queue and (await client.read_deployment(deployment)).work_queue_name != queue):
            continue
        if (source := await resume(client, deployment)) is not None:
            resumed.append(source)
    return resumed


async def drop_overdue(client: PrefectClient, executed: Executed, live: Set[UUID]) -> None:
    """Delete the scheduled runs that did not start in time, except the latest of each deployment.

    The worker must start no run meanwhile. Hosts leave those of the queue `any`, because another one may start them.
    """
    overdue = {
        "state": {"type": {"any_": [StateType.SCHEDULED]}},
        "expected_start_time": {"before_": datetime.now(UTC)},
    }
    deployment_ids: set[UUID | None] = set()
    for run in await read_runs(client, overdue, pool=executed.pool, queues=executed.queues):
        # The server does not know yet that a live run has started.
        if run.auto_scheduled and run.id not in live and executed.has(run):
            if run.deployment_id in deployment_ids:
                await client.delete_flow_run(run.id)
            deployment_ids.add(run.deployment_id)


async def _end(client: PrefectClient, run: FlowRun, state: State[Any]) -> None:
    """Set the state of a run, and replace the progress in its name by its end."""
    source, separator, _ = run.name.partition(": ")
    if separator and state.is_final():
        # Before the state: a run with the right state is corrected by no later round.
        await client.update_flow_run(run.id, name=f"{source}: {str(state.name).lower()}")
    await client.set_flow_run_state(run.id, state, force=True)


async def _is_lost(client: PrefectClient, part: FlowRun, executed: Executed, executing: Collection[UUID]) -> bool:
    """Whether a subflow belongs to a deleted run, or to one of these runs that no runner executes."""
    run = part
    while run.parent_task_run_id is not None:
        above = await read_runs(client, {}, task={"id": {"any_": [run.parent_task_run_id]}})
        if not above:
            return True
        run = above[0]
    return run.id not in executing and executed.has(run)


async def _finish_tasks(client: PrefectClient, which: Mapping[str, Any]) -> list[bool]:
    """Set the final states of open tasks of ended runs: the end of these tasks was never reported, or the report was lost."""
    is_open = TaskRunFilter.model_validate({"state": {"type": {"any_": [StateType.SCHEDULED, *ACTIVE]}}})
    of_ended = FlowRunFilter.model_validate({"state": {"type": {"any_": FINAL}}, **which})
    finished: list[bool] = []
    while tasks := await client.read_task_runs(task_run_filter=is_open, flow_run_filter=of_ended, limit=_PAGE):
        above = await read_runs(client, {"id": {"any_": {task.flow_run_id for task in tasks}}})
        states = {run.id: run.state_type for run in above}
        now = [
            await _corrected(client.set_task_run_state(task.id, _end_of_task(task, states), force=True))
            for task in tasks
        ]
        finished += now
        if not all(now) or len(tasks) < _PAGE:
            break
    return finished


def _end_of_task(task: TaskRun, states: Mapping[UUID, StateType | None]) -> State[Any]:
    match states.get(task.flow_run_id) if task.flow_run_id else None:
        case StateType.COMPLETED:
            return COMPLETED.because("The end was not reported; the run completed")
        case StateType.CANCELLED:
            return CANCELLED.because("The run was cancelled")
        case _:
            return CRASHED.because("The process of the run has exited")


async def _has_next_run(client: PrefectClient, of_source: Mapping[str, Any]) -> bool:
    """Whether a run of the source is active or due soon."""
    soon = {
        "state": {"type": {"any_": [StateType.SCHEDULED]}},
        "expected_start_time": {"before_": datetime.now(UTC) + _SOON},
    }
    active = {"state": {"type": {"any_": ACTIVE}}}
    return any([await read_runs(client, which, deployment=of_source, limit=1) for which in (active, soon)])


async def _corrected(correction: Awaitable[object]) -> bool:
    """Whether a run has the right state now. True if it was deleted meanwhile."""
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await correction
    except ObjectNotFound:
        return True
    except (httpx.HTTPError, TimeoutError):
        return False
    return True
