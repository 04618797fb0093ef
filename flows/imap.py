"""The sync flow for mail accounts."""

from __future__ import annotations

from prefect import flow
from prefect.client.schemas.objects import State

from catchment.settings import BackfillNumber, PlanId, SourceName
from connectors.imap.settings import ImapSettings
from flows.sync import bring_up_to_date


@flow(name="sync-imap", flow_run_name="{name}: syncing", retries=0, persist_result=False)
async def sync_imap(
    *,
    deep: bool = False,
    plan: PlanId | None = None,
    backfill: BackfillNumber | None = None,
    name: SourceName,
    settings: ImapSettings,
) -> State | dict[str, int]:
    """Sync a mail account to the library.

    Args:
        deep: Compare all messages and flags, not only new and changed ones.
        plan: ID of a saved plan; only its changes are applied.
        backfill: Number of a started backfill; only its work is done.
        name: Name of the source. Another name is refused.
        settings: Settings for this run. Another place to read is refused; edit sources.yaml, or add a source.
    """
    return await bring_up_to_date("imap", name, settings, deep=deep, plan=plan, backfill=backfill)
