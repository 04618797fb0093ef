"""The sync flow for GitHub repositories, read over the network or from a local clone."""

from __future__ import annotations

from prefect import flow
from prefect.client.schemas.objects import State

from catchment.settings import BackfillNumber, PlanId, SourceName
from connectors.github.settings import GitHubSettings
from flows.sync import bring_up_to_date


@flow(name="sync-github", flow_run_name="{name}: syncing", retries=0, persist_result=False)
async def sync_github(
    *,
    deep: bool = False,
    plan: PlanId | None = None,
    backfill: BackfillNumber | None = None,
    name: SourceName,
    settings: GitHubSettings,
) -> State | dict[str, int]:
    """Sync repositories to the library.

    Args:
        deep: Compare all files, issues and pull requests, not only changed ones.
        plan: ID of a saved plan; only its changes are applied.
        backfill: Number of a started backfill; only its work is done.
        name: Name of the source. Another name is refused.
        settings: Settings for this run. Another place to read is refused; edit sources.yaml, or add a source.
    """
    return await bring_up_to_date("github", name, settings, deep=deep, plan=plan, backfill=backfill)
