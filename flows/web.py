"""The sync flow for pages and feeds of the web."""

from __future__ import annotations

from prefect import flow
from prefect.client.schemas.objects import State

from catchment.settings import BackfillNumber, PlanId, SourceName
from connectors.web.settings import WebSettings
from flows.sync import bring_up_to_date


@flow(name="sync-web", flow_run_name="{name}: syncing", retries=0, persist_result=False)
async def sync_web(
    *,
    deep: bool = False,
    plan: PlanId | None = None,
    backfill: BackfillNumber | None = None,
    name: SourceName,
    settings: WebSettings,
) -> State | dict[str, int]:
    """Sync pages, feeds and lists of addresses to the library.

    Args:
        deep: Ask for all addresses now, not only for those that are due.
        plan: ID of a saved plan; only its changes are applied.
        backfill: Number of a started backfill; only its work is done.
        name: Name of the source. Another name is refused.
        settings: Settings for this run. A host without consent is refused; edit sources.yaml, or give consent.
    """
    return await bring_up_to_date("web", name, settings, deep=deep, plan=plan, backfill=backfill)
