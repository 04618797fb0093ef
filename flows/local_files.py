"""The sync flow for folders of files."""

from __future__ import annotations

from prefect import flow
from prefect.client.schemas.objects import State

from catchment.settings import BackfillNumber, PlanId, SourceName
from connectors.local_files import LocalFilesSettings
from flows.sync import bring_up_to_date


@flow(name="sync-local_files", flow_run_name="{name}: syncing", retries=0, persist_result=False)
async def sync_local_files(
    *,
    deep: bool = False,
    plan: PlanId | None = None,
    backfill: BackfillNumber | None = None,
    changed_only: bool = False,
    name: SourceName,
    settings: LocalFilesSettings,
) -> State | dict[str, int]:
    """Sync a folder of files to the library.

    Args:
        deep: Compare contents, not only sizes and times.
        plan: ID of a saved plan; only its changes are applied.
        backfill: Number of a started backfill; only its work is done.
        changed_only: Check only the paths that the watcher reported.
        name: Name of the source. Another name is refused.
        settings: Settings for this run. Another place to read is refused; edit sources.yaml, or add a source.
    """
    return await bring_up_to_date(
        "local_files", name, settings, deep=deep, plan=plan, backfill=backfill, changed_only=changed_only
    )
