"""An empty flow, which measures the overhead of a run."""

from __future__ import annotations

from prefect import flow


@flow(name="nothing")
async def nothing() -> None:
    """Do nothing."""
