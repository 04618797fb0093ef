"""The ledger: the records of sources, items and jobs, and the library of documents. All SQL is in this package.

ledger = Ledger.open("sqlite:////home/me/ledger.db")
source = ledger.sources.put("notes", "obsidian", Priority.NORMAL)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from catchment.errors import CatchmentError, Refused
from catchment.ledger.admin import opening
from catchment.ledger.admin.check import check, pages
from catchment.ledger.admin.migrations import Migrated
from catchment.ledger.db.connections import sqlite_file, time_left, time_limit, without_password
from catchment.ledger.db.database import Store, from_micros, make_file, to_micros
from catchment.ledger.db.driver_errors import DAMAGED
from catchment.ledger.db.folding import Folded, plain_words, word_pattern
from catchment.ledger.db.job_states import in_parts
from catchment.ledger.db.joined_hosts import JoinedHost, JoinedHosts
from catchment.ledger.db.lookup import match_name
from catchment.ledger.db.monotonic_clock import MonotonicClock
from catchment.ledger.items.consents import Consents
from catchment.ledger.items.deletion_guard import HeldFolder, HeldItem
from catchment.ledger.items.intake import Intake
from catchment.ledger.items.purge import Holdings, Purging, items_in_copy
from catchment.ledger.items.sources import Sources
from catchment.ledger.items.sync_changes import ChangeCounts, ChangeKind, PathChange
from catchment.ledger.items.syncs import Syncs, SyncWork
from catchment.ledger.jobs.auto_retry import Circumstances, first_change
from catchment.ledger.jobs.history import History
from catchment.ledger.jobs.job_lists import JobFilter
from catchment.ledger.jobs.quarantine import Quarantine
from catchment.ledger.jobs.queue import Queue
from catchment.ledger.jobs.repeats import unsupported_by
from catchment.ledger.jobs.waiting_pages import Recognition, WaitingPage
from catchment.ledger.library.contents import storable_text
from catchment.ledger.library.documents import LatestDocument, Library
from catchment.ledger.library.embeddings import (
    DEFAULT_MODEL,
    FEW,
    NO_TEXT,
    Embedding,
    EmbeddingCounts,
    Embeddings,
    Passage,
    Space,
    Vector,
    Watermark,
)
from catchment.ledger.library.matches import Match, Task
from catchment.ledger.library.query import AnyOf, Filter, FilterName, Query, Term
from catchment.ledger.library.query_sql import HAS, TASK, UNANSWERED
from catchment.ledger.library.vocabulary import Vocabulary
from catchment.ledger.library.word_parts import pieces_of
from catchment.ledger.limits.pacing import BucketRow, Pacing
from catchment.ledger.limits.throttles import Throttles
from catchment.ledger.measures.incidents import Incidents
from catchment.ledger.measures.rollups import Measures, Point
from catchment.ledger.sinks.outbox import LAST_ID, Outbox, compare_all
from catchment.pacing.boot_clock import ClockReading
from catchment.records.rows import (
    FAILED_OUTCOMES,
    Acks,
    Attached,
    Batch,
    ClaimedJob,
    Cluster,
    ContentFacts,
    ConversationMessage,
    Delivered,
    Event,
    FailureInfo,
    Hold,
    IntakeCounts,
    ItemRow,
    JobRow,
    Named,
    Outcome,
    QuarantineEntry,
    Ranked,
    Ranking,
    Recovered,
    Settled,
    Shown,
    SkippedOutcome,
    Source,
    SourceState,
    Sync,
    SyncRow,
    Waiting,
)
from catchment.records.standing import (
    OFF,
    WHOLE,
    Consent,
    ConsentState,
    Incident,
    ListPage,
    Moment,
    SinkRow,
    SinkState,
    UndoAction,
)
from catchment.runtime.home import Home

T = TypeVar("T")

if TYPE_CHECKING:
    from catchment.ledger.admin.backup import Restored, SavedFiles
    from catchment.ledger.admin.proof import ItemStatus, Kept, Proof, Sample, Stored
    from catchment.ledger.admin.scratch import PlannedAction, Step
    from catchment.ledger.admin.trail import Trail
    from catchment.ledger.items.backfills import (
        Backfill,
        Backfills,
        BackfillSelection,
        BackfillState,
        Readable,
        Survey,
        TextChange,
    )
    from catchment.ledger.items.undo import Undo, Undone
    from catchment.ledger.items.version_history import Version, VersionHistory, Versions
else:

    def __getattr__(name: str) -> Any:
        """Import the records of rare operations on first use: their modules would slow down every command."""
        if name not in _RARE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"catchment.ledger.{_RARE[name]}"), name)


_RARE = {
    name: module
    for module, names in {
        "admin.backup": ("SavedFiles",),
        "admin.proof": ("ItemStatus", "Kept", "Sample", "Stored"),
        "admin.scratch": ("PlannedAction", "Step"),
        "admin.trail": ("Trail",),
        "items.backfills": ("Backfill", "BackfillSelection", "BackfillState", "Readable", "Survey", "TextChange"),
        "items.version_history": ("Version", "Versions"),
        "items.undo": ("Undone",),
    }.items()
    for name in names
}


class _UndoneError(Exception):
    """Rolls a transaction back."""


class Ledger:
    """A ledger, shared by all threads of a process. Create it with `open` or `inspect`, after any fork."""

    def __init__(
        self, store: Store, monotonic: Callable[[], ClockReading] | None = None, migrated: Migrated | None = None
    ) -> None:
        self._store = store
        self.migrated = migrated
        """The migration performed when opening, or None."""
        clock = self._monotonic = MonotonicClock(monotonic)
        self.hosts = JoinedHosts(store)
        self.alive = self.hosts.alive
        """Return whether the owner of a sync, job or slot is still at work; see `JoinedHosts.alive`."""
        self.alone: Callable[[str], AbstractContextManager[bool]] = self.hosts.alone
        self.sources = Sources(store)
        self.syncs = Syncs(store)
        self.intake = Intake(store, clock)
        self.queue = Queue(store, clock)
        self.library = Library(store)
        self.vocabulary = Vocabulary(store)
        self.embeddings = Embeddings(store)
        self.recognition = Recognition(store)
        self.quarantine = Quarantine(store)
        self.history = History(store)
        self.consents = Consents(store)
        self.purging = Purging(store)
        self.outbox = Outbox(store, self.hosts)
        self.pacing = Pacing(store, clock, self.alive)
        self.throttles = Throttles(store, clock)
        self.measures = Measures(store)
        self.incidents = Incidents(store)

    @classmethod
    def open(
        cls,
        at: Home | str,
        *,
        clock: Callable[[], float] | None = None,
        monotonic: Callable[[], ClockReading] | None = None,
        patience: float = 0.0,
    ) -> Ledger:
        """Open a ledger for use: created if missing, migrated (after a backup) if older than the program.

        Args:
            at: The home of the ledger, or a URL. With a home, every change raises Refused if the ledger belongs to
                another home.
            clock: Returns seconds since 1970, for tests; so does `monotonic`, a monotonic clock.
            patience: Seconds to wait for a PostgreSQL server that does not answer.

        Raises LedgerCorrupt (the file is left unchanged), SchemaMismatch (the ledger is newer), LedgerUnavailable or BadInput.
        """
        return cls._opened(at, clock, opening.prepare, monotonic, patience=patience)

    @classmethod
    def inspect(
        cls,
        at: Home | str,
        *,
        clock: Callable[[], float] | None = None,
        fixed: bool = False,
        seconds: float | None = None,
        read_only: bool = False,
        only: Collection[str] | None = None,
    ) -> Ledger:
        """Open an existing ledger without creating or migrating it. Raises like `open`, and NotFound if it does not exist.

        `fixed`: no process can write to the disk, for example because it is full. SQLite would otherwise need space to read.
        `seconds`: time limit of each transaction; exceeding it raises LedgerUnavailable.
        `read_only`: every change raises ReadOnly.
        `only`: the names of the visible sources. The ledger is as if the others did not exist, and read-only.
        """
        options: dict[str, Any] = {"fixed": fixed, "seconds": seconds, "read_only": read_only, "only": only}
        return cls._opened(at, clock, opening.require_current, **options)

    @classmethod
    def ask(cls, home: Home, question: Callable[[Ledger], T], otherwise: T) -> T:
        """Return the answer of an existing ledger, or `otherwise` if it cannot be read, which `catchment check` reports."""
        try:
            with closing(cls.inspect(home)) as ledger:
                return question(ledger)
        except CatchmentError:
            return otherwise

    @classmethod
    def _opened(
        cls,
        at: Home | str,
        clock: Callable[[], float] | None,
        make_sure: Callable[[Store], Migrated | None],
        monotonic: Callable[[], ClockReading] | None = None,
        **options: Any,
    ) -> Ledger:
        home = None if isinstance(at, str) else at
        store = Store(at if isinstance(at, str) else at.database_url, clock, home=home, **options)
        try:
            migrated = make_sure(store)
        except BaseException:
            store.close()
            raise
        return cls(store, monotonic, migrated)

    def close(self) -> None:
        """Close all connections. Idempotent."""
        self._store.close()

    def now(self) -> datetime:
        """Return the current time of the ledger's clock."""
        return from_micros(self._store.now())

    def require_owner(self, *, alone: bool = False) -> None:
        """Raise Refused if the ledger belongs to another home, or with `alone` if hosts share it."""
        if self._store.ownership is not None:
            with self._store.read() as reading:
                self._store.ownership.holds(reading.connection)
            if alone and self.hosts.is_shared:
                raise Refused("ledger: shared by hosts; first run `catchment leave` on each")

    def adopt(self, actor: str, reason: str = "") -> None:
        """Make the home that opened the ledger its owner, in place of another one. Idempotent.

        The places of its sinks are still those of the other home. Raises Refused if hosts share it.
        """
        if self._store.ownership is not None:
            with self._store.write(as_owner=False) as writing:
                self._store.ownership.adopt_unshared(writing.connection)
                compare_all(writing)
                writing.record("ledger adopted", actor=actor, reason=reason or None)

    def try_writing(self) -> None:
        """Write in a transaction that is rolled back. Raises LedgerError if the ledger cannot be written now."""
        with suppress(_UndoneError), self._store.write() as writing:
            writing.ids("incidents")
            raise _UndoneError

    def check(self, deep: bool = False) -> list[str]:
        """Check the invariants. Return one sentence per violated invariant, naming the first row.

        `deep` also reads every page and every indexed word, and waits for other writers.
        """
        return check(self._store, deep)

    @contextmanager
    def trail(self) -> Iterator[Trail]:
        """Return the rows for an audit, as of one moment."""
        from catchment.ledger.admin.trail import Trail

        with self._store.read() as reading:
            yield Trail(reading)

    def is_damaged(self) -> bool:
        """Return whether the pages of the file are inconsistent. Reads the whole file."""
        return bool(pages(self._store))

    def back_up(
        self,
        target: Path,
        files: Mapping[str, bytes],
        signed: Callable[[int], Mapping[str, bytes]] | None = None,
        folders: Iterable[Path] = (),
    ) -> list[str]:
        """Write a backup; see `catchment.ledger.admin.backup`."""
        from catchment.ledger.admin import backup

        return backup.back_up(self._store, target, files, signed, folders)

    @classmethod
    def restore(
        cls,
        target: str,
        file: Path,
        outdated: Iterable[Path],
        places: Iterable[Path],
        prepare: Callable[[Ledger, SavedFiles], None],
    ) -> Restored:
        """Replace the ledger at a URL with a backup; see `catchment.ledger.admin.backup`."""
        from catchment.ledger.admin import backup

        return backup.restore(target, file, outdated, places, lambda copy, saved: prepare(cls(copy), saved))

    def move(self, url: str) -> int:
        """Copy the ledger into the empty database `url`. Return the number of rows of its history; see `admin.transfer`.

        Raises Refused if the ledger belongs to another home, or if hosts share it.
        """
        from catchment.ledger.admin import transfer

        self.require_owner(alone=True)
        with closing(Store(url)) as target:
            if target.file is not None:
                make_file(target.file)
            return transfer.move(self._store, target)

    @property
    def is_restore_unfinished(self) -> bool:
        """Whether a restore was killed before it replaced the files of the home folder."""
        from catchment.ledger.admin import backup

        return backup.is_unfinished(self._store)

    def finish_restore(self, places: Iterable[Path]) -> list[Path] | None:
        """Finish a restore that was killed; see `catchment.ledger.admin.backup.finish`."""
        from catchment.ledger.admin import backup

        return backup.finish(self._store, places)

    def scratch(self, source_id: int, file: Path) -> Ledger:
        """Create a ledger in `file` with the records of one source, for a dry run."""
        from catchment.ledger.admin.scratch import scratch

        return Ledger(scratch(self._store, source_id, file))

    def steps(self, sync_id: int) -> list[Step]:
        """Return the effects of a listing on the items of a scratch ledger."""
        from catchment.ledger.admin.scratch import steps

        return steps(self._store, sync_id)

    @property
    def backfills(self) -> Backfills:
        """Backfills and replays."""
        from catchment.ledger.items.backfills import Backfills

        return Backfills(self._store)

    @property
    def undo(self) -> Undo:
        """Undo of syncs."""
        from catchment.ledger.items.undo import Undo

        return Undo(self._store, self._monotonic)

    @property
    def versions(self) -> VersionHistory:
        """The earlier versions of documents."""
        from catchment.ledger.items.version_history import VersionHistory

        return VersionHistory(self._store)

    @property
    def proof(self) -> Proof:
        """Consistency of ledger and library for one source, item by item."""
        from catchment.ledger.admin.proof import Proof

        return Proof(self._store)

    def vacuum(self, alive: Callable[[str], bool]) -> tuple[int, int]:
        """Compact the database. Return its size in bytes before and after."""
        from catchment.ledger.db.vacuum import vacuum

        return vacuum(self._store, alive)
