"""Set the states that an interrupted run left open, so that the server never shows a dead run as alive."""

from __future__ import annotations

import contextlib
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterParentFlowRunId
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Crashed

_OPEN = (StateType.PENDING, StateType.RUNNING, StateType.CANCELLING)


async def settle(client: PrefectClient, run: UUID, problem: str, *, was_cancelled: bool) -> bool:
    """Correct the state of a run that has ended, and those of its subflows; whether the run completed. May be called again.

    A cancelled run ends `Cancelled`, even if Prefect's engine took the cancellation for a crash; any other run that set no
    final state ends `Crashed`, with the problem in its message.
    """
    with contextlib.suppress(ObjectNotFound):
        flow_run = await client.read_flow_run(run)
        was_cancelled |= flow_run.state is not None and flow_run.state.type is StateType.CANCELLING
        await _correct(client, flow_run, problem, was_cancelled=was_cancelled)
        if problem or was_cancelled:
            of_run = FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[run]))
            for subflow in await client.read_flow_runs(flow_run_filter=of_run):
                await _correct(client, subflow, problem, was_cancelled=was_cancelled)
        # Not `Skipped` and the like, in which a flow ends that did not do its work.
        return flow_run.state is not None and flow_run.state.name == "Completed"
    return False


async def _correct(client: PrefectClient, flow_run: FlowRun, problem: str, *, was_cancelled: bool) -> None:
    state = flow_run.state
    if state is None:
        return
    # The engine calls a cancelled task a crash, without the reason.
    is_unexplained = state.type is StateType.CRASHED and bool(problem)
    if (state.type in _OPEN or is_unexplained) and not was_cancelled:
        crashed: State[None] = Crashed(message=f"The run {problem or 'ended without a result'}; the next sync resumes")
        await client.set_flow_run_state(flow_run.id, crashed, force=True)
    elif was_cancelled and (state.type in _OPEN or state.type is StateType.CRASHED):
        cancelled: State[None] = Cancelled(message=f"Cancelled{f'; it {problem}' if problem else ''}")
        await client.set_flow_run_state(flow_run.id, cancelled, force=True)
