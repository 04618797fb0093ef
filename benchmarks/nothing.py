"""A flow that does nothing: what is left is what a run costs."""

from __future__ import annotations

from prefect import flow


@flow(name="nothing")
async def nothing() -> None:
    """Do nothing."""
