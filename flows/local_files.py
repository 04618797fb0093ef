"""The sync flow of a folder of files."""

from __future__ import annotations

from prefect import flow
from prefect.client.schemas.objects import State

from catchment.settings import SourceName
from connectors.local_files import LocalFilesSettings
from flows.sync import bring_up_to_date


@flow(name="sync-local_files", flow_run_name="{name}: syncing", retries=0, persist_result=False)
async def sync_local_files(
    name: SourceName, settings: LocalFilesSettings, deep: bool = False
) -> State | dict[str, int]:
    """Bring a folder of files up to date in the library. `deep` compares contents, not only sizes and times."""
    return await bring_up_to_date("local_files", name, settings, deep=deep)
