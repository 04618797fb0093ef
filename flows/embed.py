"""The flow that makes embeddings for search by meaning, after the syncs and at low priority."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.own_failures import of_background
from tasks.background_work import embed_passages


@flow(name="embed", flow_run_name="embed: starting", retries=0, persist_result=False)
async def embed() -> State[Any]:
    """Make the missing embeddings, so that all passages are found by meaning. Stops while the deployment is paused."""
    return await of_background(embed_passages)
