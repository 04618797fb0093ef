"""The ledger: what is known of every source, item and job, and the library of documents; the one place that speaks SQL.

ledger = Ledger.open("sqlite:////home/me/ledger.db")
source = ledger.sources.put("notes", "obsidian", Priority.NORMAL)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from catchment.ledger.admin import opening
from catchment.ledger.admin.check import check, pages
from catchment.ledger.db.database import Store, from_micros
from catchment.ledger.db.monotonic_clock import Timeline
from catchment.ledger.db.records import (
    Acks,
    Batch,
    ClaimedJob,
    Cluster,
    Delivered,
    Event,
    FailureInfo,
    Hit,
    Hold,
    IntakeCounts,
    ItemRow,
    JobRow,
    LibraryCounts,
    Named,
    Outcome,
    QuarantineEntry,
    Recovered,
    Settled,
    Shown,
    SkippedOutcome,
    Source,
    SourceState,
    Sync,
    SyncRow,
    Told,
    Waiting,
)
from catchment.ledger.items.consents import Consent, Consents, ConsentState
from catchment.ledger.items.intake import Intake
from catchment.ledger.items.purge import Purging
from catchment.ledger.items.sources import Sources
from catchment.ledger.items.syncs import Syncs
from catchment.ledger.jobs.history import History
from catchment.ledger.jobs.quarantine import Quarantine
from catchment.ledger.jobs.queue import Queue
from catchment.ledger.library.documents import Library
from catchment.ledger.library.vocabulary import Vocabulary
from catchment.ledger.limits.pacing import BucketRow, Pacing
from catchment.ledger.limits.throttles import Throttles
from catchment.pacing.steady import Steady, steady

if TYPE_CHECKING:
    from catchment.ledger.admin.migrations import LedForward
    from catchment.ledger.admin.plan import Step
    from catchment.ledger.admin.proof import Proof
    from catchment.ledger.items.undo import Undo


class Ledger:
    """One ledger, for all threads of one process. Made by `open` or `inspect`; open it after a fork, not before."""

    def __init__(
        self, store: Store, steady: Callable[[], Steady] = steady, led_forward: LedForward | None = None
    ) -> None:
        self._store = store
        self.led_forward = led_forward
        """That it was older than the program when it was opened, and what was kept of it."""
        timeline = self._timeline = Timeline(steady)
        self.sources = Sources(store)
        self.syncs = Syncs(store)
        self.intake = Intake(store, timeline)
        self.queue = Queue(store, timeline)
        self.library = Library(store)
        self.vocabulary = Vocabulary(store)
        self.quarantine = Quarantine(store)
        self.history = History(store)
        self.consents = Consents(store)
        self.purging = Purging(store)
        self.pacing = Pacing(store, timeline)
        self.throttles = Throttles(store, timeline)

    @classmethod
    def open(cls, url: str, *, clock: Callable[[], float] = time.time, steady: Callable[[], Steady] = steady) -> Ledger:
        """Open a ledger to work with it: made when there is none, led forward (after a backup) when it is older.

        `clock` gives seconds since 1970, `steady` is one that nobody can set. Raises LedgerCorrupt (the file is left as it
        is), SchemaMismatch (the ledger is newer than the program), LedgerUnavailable, BadInput.
        """
        return cls._opened(url, clock, opening.prepare, steady)

    @classmethod
    def inspect(cls, url: str, *, clock: Callable[[], float] = time.time, fixed: bool = False) -> Ledger:
        """Open a ledger to look at it: as `open`, but nothing is made or changed. Raises NotFound when there is none.

        `fixed`: for a moment in which nobody can write to its disk, as one that is full; SQLite would need room to read.
        """
        return cls._opened(url, clock, opening.require_current, fixed=fixed)

    @classmethod
    def _opened(
        cls,
        url: str,
        clock: Callable[[], float],
        make_sure: Callable[[Store], LedForward | None],
        steady: Callable[[], Steady] = steady,
        fixed: bool = False,
    ) -> Ledger:
        store = Store(url, clock, fixed=fixed)
        try:
            led_forward = make_sure(store)
        except BaseException:
            store.close()
            raise
        return cls(store, steady, led_forward)

    def close(self) -> None:
        """Close every connection; may be called twice."""
        self._store.close()

    def now(self) -> datetime:
        """The moment, by the clock that the ledger goes by."""
        return from_micros(self._store.now())

    def check(self, deep: bool = False) -> list[str]:
        """Prove the invariants: a sentence for each that does not hold, naming its first row; empty when all hold.

        `deep` reads every page and every indexed word too, and waits for a moment in which nobody writes.
        """
        return check(self._store, deep)

    def is_damaged(self) -> bool:
        """Whether the pages of the file contradict one another; all of it is read."""
        return bool(pages(self._store))

    def back_up(self, target: Path, files: Mapping[str, bytes]) -> list[str]:
        """See `catchment.ledger.admin.backup`."""
        from catchment.ledger.admin import backup

        return backup.back_up(self._store, target, files)

    def scratch(self, source_id: int, file: Path) -> Ledger:
        """A new ledger in this file that knows one source as this one does; see `catchment.ledger.admin.plan`."""
        from catchment.ledger.admin.plan import scratch

        return Ledger(scratch(self._store, source_id, file))

    def steps(self, sync_id: int) -> list[Step]:
        """What a listing did to the items of a scratch ledger; see `catchment.ledger.admin.plan`."""
        from catchment.ledger.admin.plan import steps

        return steps(self._store, sync_id)

    @property
    def undo(self) -> Undo:
        """Undoing what a sync did to the library; see `catchment.ledger.items.undo`."""
        from catchment.ledger.items.undo import Undo

        return Undo(self._store, self._timeline)

    @property
    def proof(self) -> Proof:
        """What the ledger and the library say of a source, item by item; see `catchment.ledger.admin.proof`."""
        from catchment.ledger.admin.proof import Proof

        return Proof(self._store)

    def vacuum(self, alive: Callable[[str], bool]) -> tuple[int, int]:
        """See `catchment.ledger.db.vacuum`."""
        from catchment.ledger.db.vacuum import vacuum

        return vacuum(self._store, alive)


__all__ = [
    "Acks",
    "Batch",
    "BucketRow",
    "ClaimedJob",
    "Cluster",
    "Consent",
    "ConsentState",
    "Delivered",
    "Event",
    "FailureInfo",
    "Hit",
    "Hold",
    "IntakeCounts",
    "ItemRow",
    "JobRow",
    "Ledger",
    "LibraryCounts",
    "Named",
    "Outcome",
    "QuarantineEntry",
    "Recovered",
    "Settled",
    "Shown",
    "SkippedOutcome",
    "Source",
    "SourceState",
    "Sync",
    "SyncRow",
    "Told",
    "Waiting",
]
