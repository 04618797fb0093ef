"""The sync flow for GitHub repositories, read over the network or from a local clone."""

from __future__ import annotations

from prefect import flow
from prefect.client.schemas.objects import State

from catchment.settings import PlanId, SourceName
from connectors.github.settings import GitHubSettings
from flows.sync import bring_up_to_date


@flow(name="sync-github", flow_run_name="{name}: syncing", retries=0, persist_result=False)
async def sync_github(
    name: SourceName, settings: GitHubSettings, deep: bool = False, plan: PlanId | None = None
) -> State | dict[str, int]:
    """Sync repositories to the library. `deep`: compare all files, issues and pull requests, not only changed ones.

    `plan`: the ID of a saved plan; only its changes are applied.
    """
    return await bring_up_to_date("github", name, settings, deep=deep, plan=plan)
