"""The state of an item as a sentence: whether it is in the library, and why not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from catchment.model import JobState

if TYPE_CHECKING:
    from catchment.ledger import ItemRow, Ledger


def because(ledger: Ledger, item: ItemRow, when: Callable[[datetime | None], str]) -> str:
    """Return why an item is, or is not, in the library. `when` formats the time of the next attempt."""
    if item.state == "missing":
        return f"missing at the last sync; the deletion is held, see `catchment deletions list {item.source}`"
    if item.state == "kept":
        return f"deleted at the source and restored by `catchment undo` as document {item.document}"
    if item.state == "deleted":
        return "deleted at the source"
    match item.job_state:
        case JobState.SUCCEEDED:
            return f"in the library as document {item.document}"
        case JobState.SKIPPED:
            kept = f"; document {item.document} is kept" if item.document is not None else ""
            # The type as listed: a link, a submodule, vendored.
            kind = f" ({item.attributes['type']})" if "type" in item.attributes else ""
            return f"skipped: {plain(item.job_reason)}{kind}{kept}"
        case JobState.QUARANTINED if item.job is not None:
            entry = ledger.quarantine.show(item.job)
            return f"quarantined ({entry.reason}: {entry.message}); see `catchment quarantine show {item.job}`"
        case JobState.RETRYING:
            return f"failed; next attempt {when(item.not_before)}"
        case JobState.RUNNING:
            return "being processed"
        case JobState.CANCELLED:
            return f"job cancelled: {plain(item.job_reason)}"
        case _:
            return "waiting to be processed"


def plain(reason: str | None) -> str:
    """Return a recorded reason in words."""
    return (reason or "no reason recorded").replace("_", " ")
