"""The sync flow of an Obsidian vault."""

from __future__ import annotations

from prefect import flow
from prefect.client.schemas.objects import State

from catchment.settings import SourceName
from connectors.obsidian import ObsidianSettings
from flows.sync import bring_up_to_date


@flow(name="sync-obsidian", flow_run_name="{name}: syncing", retries=0, persist_result=False)
async def sync_obsidian(name: SourceName, settings: ObsidianSettings, deep: bool = False) -> State | dict[str, int]:
    """Bring an Obsidian vault up to date in the library. `deep` compares contents, not only sizes and times."""
    return await bring_up_to_date("obsidian", name, settings, deep=deep)
