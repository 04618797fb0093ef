"""Reads flow runs of the Prefect server by filters, which are written as in its API."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    DeploymentFilter,
    FlowRunFilter,
    TaskRunFilter,
    WorkPoolFilter,
    WorkQueueFilter,
)
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.sorting import FlowRunSort

_PAGE = 200


async def read_runs(
    client: PrefectClient,
    runs: Mapping[str, Any],
    *,
    pool: str = "",
    queues: Collection[str] = (),
    deployment: Mapping[str, Any] | None = None,
    task: Mapping[str, Any] | None = None,
    sort: FlowRunSort = FlowRunSort.EXPECTED_START_TIME_DESC,
    limit: int | None = None,
) -> list[FlowRun]:
    """Return the runs that match the filters, latest first; all, or the first `limit`. Subflows have no pool."""
    gathered: list[FlowRun] = []
    while True:
        page = await client.read_flow_runs(
            flow_run_filter=FlowRunFilter.model_validate(runs),
            work_pool_filter=WorkPoolFilter.model_validate({"name": {"any_": [pool]}}) if pool else None,
            work_queue_filter=WorkQueueFilter.model_validate({"name": {"any_": queues}}) if queues else None,
            deployment_filter=DeploymentFilter.model_validate(deployment) if deployment else None,
            task_run_filter=TaskRunFilter.model_validate(task) if task else None,
            sort=sort,
            limit=limit or _PAGE,
            offset=len(gathered),
        )
        gathered += page
        if limit or len(page) < _PAGE:
            return gathered
