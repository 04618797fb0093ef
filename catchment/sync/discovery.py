"""Finding out what is different at a source, and recording it as jobs, moves and deletions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext

from catchment.contracts import Known, Paced, Watchable
from catchment.ledger import Sync
from catchment.ledger.db.job_states import in_parts
from catchment.model import Change, Checkpoint, Failure, Root, Skip, Tombstone, Upsert
from catchment.sync.batch import Bench
from catchment.sync.fair_share import Share
from catchment.sync.preflight import Permit

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
        """What the changes of a listing pass through on their way into the ledger: a plan that is made, or followed."""
        self.changed: frozenset[str] | None = None
        """The paths that changed since the sync before this one; None: compare everything. So does a sync that follows one
        which was cut short, whatever is set here."""
        self._bench = bench
        self._intake = bench.ledger.intake
        self._sync = sync
        self._share = share
        self._permit = permit
        self._follows_whole = follows_whole
        self._root_changed = False

    def is_first(self) -> bool:
        """Whether no item of the source is known yet."""
        return self._intake.known(self._sync.source_id).is_empty()

    def run(self, *, deep: bool) -> None:
        """List the source and record what is different, as long as the permit holds.

        What was recorded up to a checkpoint stays recorded when this raises SourceError or Stopped; it is listed quickly the
        next time.
        """
        if not self._permit.holds():
            return
        known = self._intake.known(self._sync.source_id)
        pending: list[Change] = []
        late: list[Change] = []
        late_marks: dict[str, str | None] = {}
        for change in self._changes(known, deep):
            self._bench.pulse.beat()
            self._permit.check()
            match change:
                case Root(identity=identity):
                    self._root_changed = self._bench.ledger.sources.root_changed(self._sync.source_id, identity)
                case Checkpoint(marks=marks):
                    if not self._permit.holds():
                        return
                    now, maybe_moved = self._split(pending)
                    late += maybe_moved
                    if late:
                        late_marks.update(marks)
                        marks = taken_back(marks)
                    self._record(now, marks)
                    pending = []
                case _:
                    pending.append(change)
        self._record(late, late_marks)
        self.settle()

    def settle(self) -> None:
        """Delete what is missing, or hold the deletions; may be called again, when more was found under other names."""
        settled = self._intake.settle(self._sync.id, root_changed=self._root_changed)
        self._bench.add(deleted=settled.deleted, held=settled.held - self._bench.progress.held)

    def _changes(self, known: Known, deep: bool) -> Iterator[Change]:
        connector = self._bench.connector
        paths = self.changed if self.through is None and self._follows_whole else None
        # If this listing fails and is repeated, the repetition compares everything.
        self._follows_whole = False
        if paths is not None and isinstance(connector, Watchable):
            yield from connector.changes_at(known, paths)
            return
        with connector.pace.intake() if isinstance(connector, Paced) else nullcontext():
            changes = connector.changes(known, deep=deep)
            yield from changes if self.through is None else self.through(changes)

    def _split(self, changes: Iterable[Change]) -> tuple[list[Change], list[Change]]:
        """Changes to record now, and those that may turn out to be moves once the whole listing is known."""
        changes = list(changes)
        identities = {c.item.identity for c in changes if isinstance(c, Upsert) and c.item.identity}
        known = self._intake.known_identities(self._sync.source_id, identities) if identities else set()
        if not known:
            return changes, []
        moved = [isinstance(c, Upsert) and c.item.identity in known for c in changes]
        return [c for c, m in zip(changes, moved, strict=True) if not m], [
            c for c, m in zip(changes, moved, strict=True) if m
        ]

    def _record(self, changes: Sequence[Change], marks: Mapping[str, str | None]) -> None:
        """The marks go with the last part; those that are taken back go with the first."""
        parts = list(recordable(changes))
        for number, part in enumerate(parts, 1):
            with self._share.step(self._bench.pulse):
                now = marks if number == len(parts) else taken_back(marks)
                counts = self._intake.record(self._sync.id, part, now)
            self._bench.add(listed=len(part), jobs=counts.enqueued, moved=counts.moved, skipped=counts.skipped)
        if marks and not parts:
            self._intake.record(self._sync.id, (), marks)


def recordable(changes: Iterable[Change]) -> Iterator[Sequence[Upsert | Tombstone | Skip | Failure]]:
    """The changes that the ledger records, in parts that bound the memory and the time of one transaction."""
    return in_parts((c for c in changes if isinstance(c, (Upsert, Tombstone, Skip, Failure))), _FLUSH)


def taken_back(marks: Mapping[str, str | None]) -> dict[str, str | None]:
    """The marks that are no more: they promise nothing, so they may go at once. They have to, for a folder that is missed and
    then comes back as it was would be passed over if its mark were still there.
    """
    return {key: None for key, value in marks.items() if value is None}
