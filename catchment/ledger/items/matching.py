"""Which item is which: telling what a listing shows apart into what stayed, what moved here, and what is back."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catchment.ledger.db.database import maybe_micros, to_json
from catchment.model import Item, JobState, Reason, SkipReason

FACTS = ("locator", "container", "version", "identity", "size", "modified", "attributes")
"""The columns of an item that its listing decides."""
GONE = "gone"
"""Why a job is cancelled whose item is missed by a listing."""
REMOVED = "source removed"
"""Why a job is cancelled whose source is being removed; that may be broken off, and the source resumed."""

_ENDING = re.compile(r"\.[a-z][a-z0-9]{0,9}(?:\.gz)?$")


@dataclass(slots=True)
class Have:
    """An item that the ledger has, with its current job."""

    id: int
    state: str
    facts: tuple[Any, ...]
    job: int | None
    job_version: str | None
    job_state: JobState | None
    job_reason: str | None
    attempt: int

    @property
    def locator(self) -> str:
        """Where it was when it was last seen."""
        return str(self.facts[0])

    @property
    def version(self) -> str:
        """Its version then."""
        return str(self.facts[2])

    @property
    def identity(self) -> str | None:
        """What survives a move."""
        identity: str | None = self.facts[3]
        return identity

    @property
    def is_done(self) -> bool:
        """Whether the library has what this item says. One that was skipped under its old name may be wanted under its new."""
        unchanged = self.job_state is JobState.SKIPPED and self.job_reason == SkipReason.UNCHANGED
        return unchanged or self.job_state is JobState.SUCCEEDED

    @property
    def was_stopped(self) -> bool:
        """Whether nothing is done about it because it was away, or was to be forgotten.

        What an undo or a person decided about it outlasts that its disk was away.
        """
        away = self.state in ("deleted", "kept") or self.job_reason in (GONE, REMOVED)
        return self.job_state is None or (self.job_state is JobState.CANCELLED and away)

    @property
    def had_vanished(self) -> bool:
        """Whether it was given up because it was not there as it was listed, and was missed by the next listing too."""
        given_up = self.job_state is JobState.QUARANTINED and self.job_reason == Reason.INVALID_STATE
        return given_up and self.state == "missing"

    def looks_like(self, item: Item) -> bool:
        """Whether identity, size and time are as they were, and the new name says no other type.

        A move alone changes none of them, though it may change the version.
        """
        if item.version != self.version and (item.identity is None or item.identity != self.identity):
            return False
        as_it_was = self.facts[4:6] == (item.size, maybe_micros(item.modified))
        return as_it_was and _ending(self.locator) == _ending(item.locator)


def _ending(locator: str) -> str:
    """The ending that the type of a file is told by; of a `.gz` also the one before."""
    found = _ENDING.search(locator.lower())
    return found[0] if found else ""


def facts(item: Item) -> tuple[Any, ...]:
    """The values of `FACTS` for an item that is seen."""
    return (
        item.locator,
        item.container,
        item.version,
        item.identity,
        item.size,
        maybe_micros(item.modified),
        to_json(item.attributes),
    )


class Gone:
    """Items that are away, from which one that shows up under an unknown locator may have come."""

    def __init__(self, missing: Iterable[Have], deleted: Iterable[Have]) -> None:
        self._missing: defaultdict[str | None, list[Have]] = defaultdict(list)
        for have in missing:
            self._missing[have.identity].append(have)
        self._deleted = {have.locator: have for have in deleted}

    def take(self, item: Item) -> Have | None:
        """The item that moved here, else the one that was deleted here, else None. Each is given once."""
        candidates = self._missing.get(item.identity) if item.identity is not None else None
        if candidates:
            same = (have for have in candidates if have.version == item.version)
            best = next(same, candidates[0])
            candidates.remove(best)
            return best
        return self._deleted.pop(item.locator, None)


def places_changed(have: Mapping[str, Have], seen: Sequence[Item]) -> dict[str, Have]:
    """Items that took one another's places (a swap, or a chain of renames), by the locator where each is now.

    An item counts only when its old place is empty or was taken by another of them: an editor that keeps the old file as a
    backup and writes a new one in its place moved nothing.
    """
    shown = Counter(item.identity for item in seen)
    held = Counter(h.identity for h in have.values())
    now = {i.identity: i.locator for i in seen if i.identity and shown[i.identity] == held[i.identity] == 1}
    moves = {h.locator: new for h in have.values() if (new := now.get(h.identity or "", h.locator)) != h.locator}
    while True:
        targets = set(moves.values())
        unsure = [
            old
            for old, new in moves.items()
            if (new in have and new not in moves) or (have[old].state == "present" and old not in targets)
        ]
        if not unsure:
            return {new: have[old] for old, new in moves.items()}
        for old in unsure:
            del moves[old]
