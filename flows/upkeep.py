"""The flow that lets go of what was kept for a while only, and checks the ledger; it runs once a day."""

from __future__ import annotations

from prefect import flow

from tasks.upkeep import TOMBSTONE, check_ledger, forget_deleted, forget_results


@flow(name="upkeep", flow_run_name="upkeep", retries=0, persist_result=False)
async def upkeep() -> dict[str, int]:
    """Forget tombstones after 30 days and old results, and check the ledger; what was let go, and what was found broken."""
    forgotten = {"items": await forget_deleted(TOMBSTONE.days), "results": await forget_results()}
    return {**forgotten, "broken": await check_ledger()}
