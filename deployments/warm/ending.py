"""How a run ended, as the server is told: a run whose process is gone must not look alive."""

from __future__ import annotations

import contextlib
import signal
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterParentFlowRunId,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Crashed

from deployments.warm.link import Ended

_UNFINISHED = (StateType.PENDING, StateType.RUNNING, StateType.CANCELLING)


async def settle(client: PrefectClient, flow_run: UUID, ended: Ended, excess: str) -> None:
    """Correct the states that the process of a run did not leave behind, its subflows' too; may be called again.

    `excess` says what the run took too much of, when it was ended for that.
    """
    how = excess or _how(ended)
    with contextlib.suppress(ObjectNotFound):
        await _correct(client, await client.read_flow_run(flow_run), how)
        if ended.code != 0:
            parts = FlowRunFilter(
                parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[flow_run]),
                state=FlowRunFilterState(type=FlowRunFilterStateType(any_=list(_UNFINISHED))),
            )
            for part in await client.read_flow_runs(flow_run_filter=parts):
                await _correct(client, part, how)


async def _correct(client: PrefectClient, flow_run: FlowRun, how: str) -> None:
    state = flow_run.state
    if state is None or state.type not in _UNFINISHED:
        return
    if state.type is StateType.CANCELLING:
        cancelled: State[None] = Cancelled(message=f"Cancelled; its process {how}")
        await client.set_flow_run_state(flow_run.id, cancelled, force=True)
    else:
        crashed: State[None] = Crashed(message=f"The process of the run {how}")
        await client.set_flow_run_state(flow_run.id, crashed, force=True)


def _how(ended: Ended) -> str:
    if ended.code < 0:
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-ended.code).name}"
        return f"was killed by signal {-ended.code}"
    return f"ended with exit code {ended.code} and without a result"
