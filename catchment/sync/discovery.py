"""Discovery: list a source and record the differences as jobs, moves and deletions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime

from catchment.contracts import Known, Movable, Paced, Watchable, Windowed
from catchment.errors import SourceInvalid
from catchment.ledger import Sync, in_parts
from catchment.model import Change, Checkpoint, Failure, Root, Skip, Tombstone, Upsert
from catchment.sync.batch import Bench
from catchment.sync.fair_share import Share
from catchment.sync.preflight import DEFECT, Permit

_FLUSH = 5_000


class Discovery:
    """The listing of one sync."""

    def __init__(
        self,
        bench: Bench,
        sync: Sync,
        share: Share,
        permit: Permit,
        *,
        follows_whole: bool,
    ) -> None:
        self.through: Callable[[Iterator[Change]], Iterator[Change]] | None = None
        """Filter between the connector and the ledger: records the changes for a plan, or applies a plan."""
        self.changed: frozenset[str] | None = None
        """Paths changed since the previous sync, or None to compare everything. Ignored if the previous sync was incomplete."""
        self.window: tuple[datetime, datetime] | None = None
        """Compare only the items of this window, without deletions."""
        self.is_whole = False
        """Whether the source was listed to its end, without a part that could not be listed now."""
        self.again: datetime | None = None
        """When the source should be listed again; None if no time is set for it, or the listing is unfinished."""
        self._bench = bench
        self._intake = bench.ledger.intake
        self._sync = sync
        self._share = share
        self._permit = permit
        self._follows_whole = follows_whole
        self._roots: Mapping[str, str] = {}
        self._changed_roots: list[str] = []
        self._is_torn = False

    def is_first(self) -> bool:
        """Return whether the ledger contains no items of this source yet."""
        return self._intake.known(self._sync.source_id).is_empty()

    def run(self, *, deep: bool) -> None:
        """List the source and record the differences, as long as the permit is valid.

        If this raises SourceError or Stopped, everything up to the last checkpoint remains recorded, and the next listing skips
        it quickly.
        """
        if not self._permit.holds():
            return
        # A connector may never return its first change.
        self._bench.deadline.beat()
        known = self._intake.known(self._sync.source_id)
        pending: list[Change] = []
        late: list[Upsert] = []
        late_marks: dict[str, str | None] = {}
        again: datetime | None = None
        for change in self._changes(known, deep):
            self._bench.deadline.beat()
            self._permit.check()
            match change:
                case Root(identities=identities):
                    self._roots = identities
                    self._changed_roots = self._bench.ledger.sources.changed_roots(self._sync.id, identities)
                case Checkpoint(marks=marks):
                    self._is_torn, again = change.is_torn, change.again
                    if not self._permit.holds():
                        return
                    self.again = again  # of a listing that fails after its last checkpoint, too
                    now, maybe_moved = self._split(pending)
                    late += maybe_moved
                    if late:
                        late_marks.update(marks)
                        marks = removed_marks(marks)
                    self._record(now, marks)
                    pending = []
                case Upsert() | Tombstone() | Skip() | Failure():
                    pending.append(change)
                case _:
                    raise SourceInvalid(f"its connector listed a {type(change).__name__}; {DEFECT}")
        if pending:
            raise SourceInvalid(f"its connector ended without a checkpoint; {DEFECT}")
        self._record(self._confirmed(late), late_marks)
        self.is_whole = not self._is_torn
        if self.window is None:
            self.settle()

    def settle(self) -> None:
        """Delete missing items, or hold the deletions. May be called again after more moves were detected."""
        settled = self._intake.settle(self._sync.id, changed_roots=self._changed_roots, torn=self._is_torn)
        self._bench.add(deleted=settled.deleted, held=settled.held - self._bench.progress.held)

    def _changes(self, known: Known, deep: bool) -> Iterator[Change]:
        connector = self._bench.connector
        paths = self.changed if self.through is None and self._follows_whole else None
        # If this listing fails, the retry compares everything.
        self._follows_whole = False
        if paths is not None and isinstance(connector, Watchable):
            yield from connector.changes_at(known, paths)
            return
        with connector.pace.intake() if isinstance(connector, Paced) else nullcontext():
            if self.window is not None and isinstance(connector, Windowed):
                changes = connector.changes_between(known, *self.window)
            else:
                changes = connector.changes(known, deep=deep)
            yield from changes if self.through is None else self.through(changes)

    def _split(self, changes: Iterable[Change]) -> tuple[list[Change], list[Upsert]]:
        """Separate changes to record now from possible moves, which need the whole listing."""
        changes = list(changes)
        listed = Counter(c.item.identity for c in changes if isinstance(c, Upsert) and c.item.identity)
        known = {identity for identity, _ in self._intake.places(self._sync.source_id, listed)}
        known.update(identity for identity, number in listed.items() if number > 1)
        now: list[Change] = []
        late: list[Upsert] = []
        for change in changes:
            if isinstance(change, Upsert) and change.item.identity in known:
                late.append(change)
            else:
                now.append(change)
        return now, late

    def _confirmed(self, late: Sequence[Upsert]) -> Sequence[Change]:
        """Return the moves, with the places that their items have left.

        An item that moves while the source is listed can appear at several places. Only the connector can distinguish this from
        a copy.
        """
        connector = self._bench.connector
        if not late or not isinstance(connector, Movable):
            return late
        listed = {c.item.locator: c.item.identity for c in late if c.item.identity}
        known = {locator: identity for identity, locator in self._intake.places(self._sync.source_id, listed.values())}
        present = connector.still_there(known | listed, self._roots)
        moved = [change for change in late if change.item.locator in present]
        return [*(Tombstone(locator) for locator in known.keys() - listed.keys() - present), *moved]

    def _record(self, changes: Sequence[Change], marks: Mapping[str, str | None]) -> None:
        """Record changes in parts. New marks are stored with the last part; invalidated marks are removed with the first."""
        parts = list(recordable(changes))
        for number, part in enumerate(parts, 1):
            with self._share.step(self._bench.deadline):
                now = marks if number == len(parts) else removed_marks(marks)
                counts = self._intake.record(self._sync.id, part, now)
            self._bench.add(listed=len(part), jobs=counts.enqueued, moved=counts.moved, skipped=counts.skipped)
        if marks and not parts:
            self._intake.record(self._sync.id, (), marks)


def recordable(changes: Iterable[Change]) -> Iterator[Sequence[Upsert | Tombstone | Skip | Failure]]:
    """Yield the changes that the ledger records, in parts that bound the memory and duration of a transaction."""
    return in_parts((c for c in changes if isinstance(c, (Upsert, Tombstone, Skip, Failure))), _FLUSH)


def removed_marks(marks: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the removals among the marks. They can be recorded at any time.

    They must be recorded even if items are pending: a folder that disappears and returns unchanged would be skipped if its mark
    still existed.
    """
    return {key: None for key, value in marks.items() if value is None}
