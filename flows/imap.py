"""The sync flow for mail accounts."""

from __future__ import annotations

from prefect import flow
from prefect.client.schemas.objects import State

from catchment.settings import PlanId, SourceName
from connectors.imap.settings import ImapSettings
from flows.sync import bring_up_to_date


@flow(name="sync-imap", flow_run_name="{name}: syncing", retries=0, persist_result=False)
async def sync_imap(
    name: SourceName, settings: ImapSettings, deep: bool = False, plan: PlanId | None = None
) -> State | dict[str, int]:
    """Sync a mail account to the library. `deep`: compare all messages and flags, not only new and changed ones.

    `plan`: the ID of a saved plan; only its changes are applied.
    """
    return await bring_up_to_date("imap", name, settings, deep=deep, plan=plan)
