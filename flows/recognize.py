"""The flow that recognizes the text on pictures of pages, after the syncs and at low priority."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.own_failures import of_background
from tasks.background_work import recognize_pages


@flow(name="recognize", flow_run_name="recognize: starting", retries=0, persist_result=False)
async def recognize() -> State[Any]:
    """Recognize the text on pictures of pages, so that it is found by searches. Stops while the deployment is paused."""
    return await of_background(recognize_pages)
