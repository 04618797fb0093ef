"""Match listed items to known ones: unchanged, moved or restored."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catchment.errors import Reason, SkipReason
from catchment.ledger.db.database import maybe_micros, to_json
from catchment.ledger.db.job_states import UNFINISHED
from catchment.model import Item, JobState

LISTED_COLUMNS = ("locator", "container", "version", "identity", "size", "modified", "attributes")
"""The columns of an item that the listing determines."""
MISSING_FROM_LISTING = "gone"
"""Cancellation reason: the item is missing from the listing. (The stored value predates the name.)"""
SOURCE_REMOVED = "source removed"
"""Cancellation reason: the source is being removed. Removal can be interrupted and the source resumed."""
BACKFILL_CANCELLED = "backfill cancelled"
"""Cancellation reason: the item was found by a backfill, and another one may want it."""
TAKEN_OUT = "taken out by an undo until it changes"
"""Reason of the cancelled job of an item that an undo took out."""

_SUFFIX = re.compile(r"\.[a-z][a-z0-9]{0,9}(?:\.gz)?$")


@dataclass(slots=True)
class RecordedItem:
    """An item in the ledger, with its current job."""

    id: int
    state: str
    listed: tuple[Any, ...]
    job: int | None
    job_version: str | None
    job_state: JobState | None
    job_reason: str | None
    attempt: int
    window: int | None
    """The backfill of a window that found its job."""

    @property
    def locator(self) -> str:
        """Last known locator."""
        return str(self.listed[0])

    @property
    def container(self) -> str:
        """Last known container."""
        return str(self.listed[1])

    @property
    def version(self) -> str:
        """Version at the last listing."""
        return str(self.listed[2])

    @property
    def identity(self) -> str | None:
        """Identifier that survives a move, if the source has one."""
        identity: str | None = self.listed[3]
        return identity

    @property
    def is_done(self) -> bool:
        """True if the library has the current version. False for a skipped item, since a new name may change that decision."""
        unchanged = self.job_state is JobState.SKIPPED and self.job_reason == SkipReason.UNCHANGED
        return unchanged or self.job_state is JobState.SUCCEEDED

    @property
    def was_stopped(self) -> bool:
        """True if its job was cancelled only because of the item's absence, or of the end of its source or of a backfill.

        Cancellations by an undo or by an operator remain in force after the item returns.
        """
        stopped = (MISSING_FROM_LISTING, SOURCE_REMOVED, BACKFILL_CANCELLED)
        away = self.state in ("deleted", "kept") or self.job_reason in stopped
        return self.job_state is None or (self.job_state is JobState.CANCELLED and away)

    @property
    def stays_out(self) -> bool:
        """True if an undo removed it, so that only a change of the item itself returns it."""
        return self.job_state is JobState.CANCELLED and self.job_reason == TAKEN_OUT

    @property
    def waits_for_window(self) -> bool:
        """True if a backfill of a window keeps its unfinished job for itself."""
        return self.window is not None and self.job_state in UNFINISHED

    @property
    def has_vanished(self) -> bool:
        """True if it was quarantined because it disappeared after listing, and the next listing missed it too."""
        given_up = self.job_state is JobState.QUARANTINED and self.job_reason == Reason.INVALID_STATE
        return given_up and self.state == "missing"

    def looks_like(self, item: Item) -> bool:
        """Return whether identity, size and time are equal, and both names imply the same type.

        A plain move changes none of these, though it may change the version.
        """
        if item.version != self.version and (item.identity is None or item.identity != self.identity):
            return False
        as_it_was = self.listed[4:6] == (item.size, maybe_micros(item.modified))
        return as_it_was and _suffix(self.locator) == _suffix(item.locator)


def _suffix(locator: str) -> str:
    """Return the suffix that determines the type of a file; for `.gz`, including the suffix before it."""
    match = _SUFFIX.search(locator.lower())
    return match[0] if match else ""


def listed_values(item: Item) -> tuple[Any, ...]:
    """Return the values of `LISTED_COLUMNS` for a listed item."""
    return (
        item.locator,
        item.container,
        item.version,
        item.identity,
        item.size,
        maybe_micros(item.modified),
        to_json(item.attributes),
    )


class MissingItems:
    """Missing and deleted items, as candidates for the origin of an item at an unknown locator."""

    def __init__(self, missing: Iterable[RecordedItem], deleted: Iterable[RecordedItem]) -> None:
        deleted = list(deleted)
        self._missing = _by_identity(missing)
        self._deleted = _by_identity(deleted)
        self._deleted_at = {recorded.locator: recorded for recorded in deleted}
        self._taken: set[int] = set()

    def take(self, item: Item) -> RecordedItem | None:
        """Return the item that is now here, and never again: one missing, deleted here, or deleted elsewhere; else None."""
        missing = self._moved(self._missing, item) or self._deleted_at.get(item.locator)
        if missing is None or missing.id in self._taken:
            missing = self._moved(self._deleted, item)
        if missing is not None:
            self._taken.add(missing.id)
        return missing

    def _moved(self, candidates: Mapping[str | None, list[RecordedItem]], item: Item) -> RecordedItem | None:
        left = candidates.get(item.identity) if item.identity is not None else None
        while left:
            best = next((recorded for recorded in left if recorded.version == item.version), left[0])
            left.remove(best)
            if best.id not in self._taken:
                return best
        return None


def _by_identity(candidates: Iterable[RecordedItem]) -> Mapping[str | None, list[RecordedItem]]:
    groups: defaultdict[str | None, list[RecordedItem]] = defaultdict(list)
    for recorded in candidates:
        groups[recorded.identity].append(recorded)
    return groups


def exchanged_locators(recorded: Mapping[str, RecordedItem], listed: Sequence[Item]) -> dict[str, RecordedItem]:
    """Find items that exchanged their locators (a swap or a chain of renames), by new locator.

    An item only counts if its old locator is now empty or taken by another such item. If an editor renames the old file to a
    backup and writes a new one under the old name, no item has moved.
    """
    shown = Counter(item.identity for item in listed)
    held = Counter(h.identity for h in recorded.values())
    now = {i.identity: i.locator for i in listed if i.identity and shown[i.identity] == held[i.identity] == 1}
    moves = {h.locator: new for h in recorded.values() if (new := now.get(h.identity or "", h.locator)) != h.locator}
    while True:
        targets = set(moves.values())
        unsure = [
            old
            for old, new in moves.items()
            if (new in recorded and new not in moves) or (recorded[old].state == "present" and old not in targets)
        ]
        if not unsure:
            return {new: recorded[old] for old, new in moves.items()}
        for old in unsure:
            del moves[old]
