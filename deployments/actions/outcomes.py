"""The outcome of an action, in a sentence: for the page, `/api/v1` and the command line, which adds the next steps.

Quick to import.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from catchment.model import count
from catchment.records.standing import UndoAction

if TYPE_CHECKING:
    from catchment.ledger import Undone
    from catchment.sync.revoke import PurgeProof
    from deployments.actions.inbox import Enqueued
    from deployments.actions.sources import ChangedSetting

ADDED = "added {}: {}"
FILE_KEPT = "{}: 1 file added"
MOVED = "{}: runs on {} ({})"
REMOVED = "removed {}"
PAUSED = "{}: paused"
RESUMED = "{}: resumed"
TESTED = "{}: can be read: {}"
SYNC_STARTED = "{}: started"
SYNC_CANCELLED = "{}: the sync stops after its current step; the next one continues"
NOTHING_TO_BACKFILL = "nothing to do: no item is new, and none was read by an earlier version"
BACKFILL_STARTED = "backfill {} started"
BACKFILL_PAUSED = "backfill {} paused"
JOB_CANCELLED = "job {}: cancelled"
JOB_PRIORITIZED = "job {}: next of its source"
LIMITED = "{}: {}"
LIMITS_REMOVED = "{}: limits removed"
ACKNOWLEDGED = "incident {}: acknowledged"
SINK_ADDED = "added {}; it receives all documents, and every change"
SINK_RESUMED = "{}: resumed; it is compared with the library, and the differences are sent"
SINK_REBUILT = "{}: its next delivery empties and fills it again"
SINK_ADOPTED = "{}: adopted; another home or sink that wrote there is refused from now on"
SINK_REMOVED = "removed {}; the copies in {} stay, delete them there"
_EFFECTS = {
    UndoAction.BRING_BACK: "restored",
    UndoAction.SET_BACK: "reverted",
    UndoAction.TAKE_OUT: "removed",
    UndoAction.LEFT: "skipped, changed since",
}


def changed(name: str, settings: Collection[ChangedSetting]) -> str:
    """`settings`: the changed settings."""
    return f"{name}: changed" if settings else f"{name}: nothing to change"


def deletions_applied(name: str, number: int) -> str:
    """`number`: of the items."""
    return f"{name}: {count(number, 'document')} deleted"


def deletions_dropped(name: str, number: int) -> str:
    """`number`: of the items."""
    return f"{name}: {count(number, 'deletion')} discarded; the next sync compares again"


def undone(undo: Undone) -> str:
    """Of a sync or a backfill, also of a preview."""
    effects = ", ".join(f"{number} {effect}" for action, effect in _EFFECTS.items() if (number := undo.count(action)))
    return f"{undo.source}: {effects}" if effects else f"{undo.source}: nothing that can be undone"


def backfill_cancelled(number: int, jobs: int) -> str:
    """`jobs`: the number of jobs that ended with it."""
    return f"backfill {number} cancelled, with {count(jobs, 'job')}"


def backfill_retried(number: int, items: int) -> str:
    """`items`: their number."""
    return f"backfill {number}: {count(items, 'item')} queued" if items else f"backfill {number}: no item in quarantine"


def consent_given(name: str, scopes: Collection[str], until: str = "") -> str:
    """`until`: the end in words."""
    from deployments.actions.consents import named

    return f"{name}: consent given{f' until {until}' if until else ''} ({named(sorted(scopes))})"


def consent_withdrawn(proof: PurgeProof) -> str:
    """`proof`: of the deletion."""
    return f"{proof.source}: consent withdrawn; {count(proof.items, 'item')} deleted"


def enqueued(inbox: str, result: Enqueued) -> str:
    """`inbox`: the source of the addresses."""
    refused = f", {result.refused:,} refused: not an address" if result.refused else ""
    return f"{inbox}: {result.added:,} added, {result.known:,} known{refused}"


def retried(items: int) -> str:
    """`items`: the number of items that left the quarantine."""
    return f"{count(items, 'item')} queued"


def discarded(items: int) -> str:
    """`items`: the number of items that left the quarantine."""
    return f"{count(items, 'item')} discarded"


def noted(entries: int) -> str:
    """`entries`: of the quarantine."""
    return f"note added to {count(entries, 'entry', 'entries')}"


def purged(entries: int) -> str:
    """`entries`: of the quarantine."""
    return f"{count(entries, 'entry', 'entries')} purged"


def breakers_closed(keys: Collection[str]) -> str:
    """Of a source or a host."""
    return f"{', '.join(keys)}: closed"
