"""Prefect events about sources, for automations: names of sources, numbers and reason codes, no private data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from catchment.errors import CatchmentError
from catchment.telemetry.incidents import reason_of

if TYPE_CHECKING:
    from catchment.sync.source_sync import SourceSync


def resource(name: str) -> dict[str, str]:
    """Return the resource of a source in its events."""
    return {"prefect.resource.id": f"catchment.source.{name}", "prefect.resource.name": name}


def emit(event: str, name: str, facts: Mapping[str, str | int]) -> None:
    """Emit `catchment.EVENT` about a source. Never waits: a thread of Prefect sends it over an open connection."""
    # Imported here: commands need only the resource.
    from prefect.events import emit_event
    from prefect.settings import PREFECT_API_URL

    # Without an address, Prefect would start a server for it.
    if PREFECT_API_URL.value():
        emit_event(f"catchment.{event}", resource(name), payload=dict(facts))


def announce(sync: SourceSync, error: CatchmentError | None = None) -> None:
    """Emit the events at the end of a sync, which failed because of `error`."""
    name, progress = sync.source.name, sync.progress
    if sync.was_released:
        emit("source.released", name, {})
    for reason, items in Counter(t.failure.reason for t in sync.troubles.values() if t.retry_at is None).items():
        emit("item.quarantined", name, {"reason": reason, "items": items})
    # An open hold is held again by each sync.
    if progress.held and (sync.before is None or progress.held != sync.before.summary.get("held")):
        emit("deletions.held", name, {"items": progress.held})
    if sync.outcome == "completed":
        emit("sync.completed", name, progress.summary())
    elif sync.outcome == "quarantined":
        emit("source.held", name, {"reason": reason_of(error)})
