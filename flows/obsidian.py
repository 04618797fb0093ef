"""The sync flow of an Obsidian vault."""

from __future__ import annotations

from prefect import flow
from prefect.client.schemas.objects import State

from catchment.settings import PlanId, SourceName
from connectors.obsidian import ObsidianSettings
from flows.sync import bring_up_to_date


@flow(name="sync-obsidian", flow_run_name="{name}: syncing", retries=0, persist_result=False)
async def sync_obsidian(
    name: SourceName,
    settings: ObsidianSettings,
    deep: bool = False,
    plan: PlanId | None = None,
    changed_only: bool = False,
) -> State | dict[str, int]:
    """Bring an Obsidian vault up to date in the library. `deep` compares contents, not only sizes and times.

    `plan` names one that `catchment sync --plan` has kept: what it foresaw is done, and nothing else. With `changed_only` only
    what the watcher saw change is looked at, where it told.
    """
    return await bring_up_to_date("obsidian", name, settings, deep=deep, plan=plan, changed_only=changed_only)
