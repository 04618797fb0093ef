"""The flow that copies documents to a sink after each change."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.own_failures import resumable
from tasks.coalesce import complete_waiting_runs
from tasks.deliver import deliver_documents


@flow(name="deliver", flow_run_name="{name}: starting", retries=0, persist_result=False)
async def deliver(name: str) -> State[Any]:
    """Copy the documents that changed since the last delivery to the sink `name`, and delete those that are gone."""
    return await _deliver(name)


@resumable
async def _deliver(name: str) -> State[Any]:
    await complete_waiting_runs()
    state: State[Any] = await deliver_documents(name, return_state=True)  # type: ignore[misc]  # typed as not awaitable
    return State(type=state.type, name=state.name, message=state.message)
