"""A stand-in for a sync flow, with a duration from its settings."""

from __future__ import annotations

import asyncio

from prefect import flow
from pydantic import BaseModel, ConfigDict


class StandinSettings(BaseModel):
    model_config = ConfigDict(extra="forbid")

    seconds: float = 0


@flow(name="sync-standin")
async def sync_standin(name: str, settings: StandinSettings, deep: bool = False) -> dict[str, object]:
    """Sleep for the seconds in the settings."""
    await asyncio.sleep(settings.seconds)
    return {"name": name, "deep": deep}
