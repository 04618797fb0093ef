"""The sync flow of an account of mail."""

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
    """Bring an account of mail up to date in the library. `deep` compares all flags and all that is there.

    `plan` names one that `catchment sync --plan` has kept: what it foresaw is done, and nothing else.
    """
    return await bring_up_to_date("imap", name, settings, deep=deep, plan=plan)
