"""The flow that lets go of what was kept for a while only; it runs once a day."""

from __future__ import annotations

from prefect import flow

from tasks.upkeep import TOMBSTONE, forget_deleted, forget_results


@flow(name="upkeep", flow_run_name="upkeep", retries=0, persist_result=False)
async def upkeep() -> dict[str, int]:
    """Forget tombstones after 30 days and old results; the figures of what was let go."""
    return {"items": await forget_deleted(TOMBSTONE.days), "results": await forget_results()}
