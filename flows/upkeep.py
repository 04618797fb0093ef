"""The daily clean-up flow."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.own_failures import resumable
from tasks.upkeep import check_ledger, forget_deleted, forget_results


@flow(name="upkeep", flow_run_name="upkeep", retries=0, persist_result=False)
async def upkeep() -> dict[str, int] | State[Any]:
    """Daily clean-up: delete expired tombstones, undo data, caches and results, and check the ledger."""
    return await _upkeep()


@resumable
async def _upkeep() -> dict[str, int]:
    forgotten = {"items": await forget_deleted(), "results": await forget_results()}
    return {**forgotten, "broken": await check_ledger()}
