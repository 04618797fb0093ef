"""The daily clean-up flow."""

from __future__ import annotations

from prefect import flow

from tasks.upkeep import TOMBSTONE, check_ledger, forget_deleted, forget_results


@flow(name="upkeep", flow_run_name="upkeep", retries=0, persist_result=False)
async def upkeep() -> dict[str, int]:
    """Daily clean-up: delete expired tombstones, undo data, caches and results, and check the ledger."""
    forgotten = {"items": await forget_deleted(TOMBSTONE.days), "results": await forget_results()}
    return {**forgotten, "broken": await check_ledger()}
