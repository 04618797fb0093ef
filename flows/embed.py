"""The flow that makes embeddings for search by meaning, after the syncs and at low priority."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State, StateType

from flows.own_failures import resumable
from tasks.coalesce import complete_waiting_runs
from tasks.embed import embed_passages
from tasks.run_states import CRASHED


@flow(name="embed", flow_run_name="embed: starting", retries=0, persist_result=False)
async def embed() -> State[Any]:
    """Make the missing embeddings, so that all passages are found by meaning. Stops while the deployment is paused."""
    return await _embed()


@resumable
async def _embed() -> State[Any]:
    await complete_waiting_runs()
    state: State[Any] = await embed_passages(return_state=True)  # type: ignore[misc]  # typed as not awaitable
    if state.type is StateType.FAILED:
        # No source is at fault, and a text that the model refuses is no failure.
        return CRASHED.because(state.message)
    return State(type=state.type, name=state.name, message=state.message)
