"""The sync flow of repositories on GitHub, or of a clone on this machine."""

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
    """Bring repositories up to date in the library. `deep` compares all files and all that has a number.

    `plan` names one that `catchment sync --plan` has kept: what it foresaw is done, and nothing else.
    """
    return await bring_up_to_date("github", name, settings, deep=deep, plan=plan)
