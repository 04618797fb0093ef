"""Intake: records the changes reported by a connector as items and jobs, together with its cursor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from sqlalchemy import delete, select

from catchment.ledger.db import lookup
from catchment.ledger.db.database import AnyRow, Reading, Store, Writing, among, from_json, from_micros, maybe_time
from catchment.ledger.db.job_states import in_parts
from catchment.ledger.db.monotonic_clock import MonotonicClock
from catchment.ledger.db.records import Hold, IntakeCounts, ItemRow, Settled
from catchment.ledger.db.schema import documents, items, jobs, sources
from catchment.ledger.db.schema import marks as marks_table
from catchment.ledger.items.deletion_guard import Deletions
from catchment.ledger.items.known import KnownSource
from catchment.ledger.items.recording import Recording
from catchment.model import Failure, JobState, Skip, Tombstone, Upsert

_STATES = ("present", "missing", "kept", "deleted")
_MOST_FOUND = 50


class Intake:
    """The ledger's record of the items at each source."""

    def __init__(self, store: Store, monotonic: MonotonicClock) -> None:
        self._store = store
        self._deletions = Deletions(store, monotonic)

    def known(self, source_id: int) -> KnownSource:
        """Return the connector's view of the records of a source."""
        return KnownSource(self._store, source_id)

    def places(self, source_id: int, identities: Iterable[str]) -> list[tuple[str, str]]:
        """Return identity and locator of the items of the source that have these identities and are not deleted."""
        found: list[tuple[str, str]] = []
        with self._store.read() as reading:
            for part in in_parts(identities):
                statement = select(items.c.identity, items.c.locator).where(
                    items.c.source_id == source_id, items.c.identity.in_(part), items.c.state != "deleted"
                )
                found += ((identity, locator) for identity, locator in reading.execute(statement))
        return found

    def record(
        self,
        sync_id: int,
        changes: Sequence[Upsert | Tombstone | Skip | Failure],
        marks: Mapping[str, str | None],
    ) -> IntakeCounts:
        """Record changes and the corresponding marks in one transaction.

        Idempotent: recorded changes count as unchanged. For several changes of one locator, the last one counts. Raises
        StaleLease if the sync is closed.
        """
        with self._store.write() as writing:
            sync = lookup.find_open_sync(writing, sync_id)
            recording = Recording(writing, sync.source_id, sync_id, sync.owner, sync.priority)
            counts = recording.take(changes)
            _keep_marks(writing, sync.source_id, marks)
            return counts

    def settle(self, sync_id: int, *, changed_roots: Sequence[str] = (), torn: bool = False) -> Settled:
        """Delete the missing items, or hold the deletions if they are suspiciously many.

        Versioned deletions are applied. The others are all held if a root changed, or if they are more than 10 items and more
        than a tenth of the source. After a torn listing (see `Checkpoint`), only items missing for an hour count. Raises
        StaleLease if the sync is closed.
        """
        return self._deletions.settle(sync_id, changed_roots, torn=torn)

    def holds(self, source_id: int | None = None) -> list[Hold]:
        """Return the deletions that wait for an operator's decision."""
        return self._deletions.holds(source_id)

    def apply_hold(self, source_id: int, actor: str, reason: str) -> int:
        """Carry out held deletions and accept the present root. Return the number of items. Raises NotFound without a hold."""
        return self._deletions.apply(source_id, actor, reason)

    def drop_hold(self, source_id: int, actor: str, reason: str) -> int:
        """Keep the items until the next listing decides again. Return the number of items. Raises NotFound without a hold."""
        return self._deletions.drop(source_id, actor, reason)

    def purge(self, older_than: timedelta) -> int:
        """Purge deleted items with tombstones older than this, and their documents. Return the number of items."""
        return self._deletions.purge(older_than)

    def find(self, text: str, source: str | None = None) -> list[ItemRow]:
        """Find up to 50 items by locator, the end of a locator, or a file name, in any state.

        Case and Unicode normalization only matter if several items would match otherwise. An exact match excludes all others.
        """
        statement = (
            select(
                items,
                sources.c.name.label("source"),
                sources.c.kind,
                jobs.c.id.label("job"),
                jobs.c.state.label("job_state"),
                jobs.c.reason.label("job_reason"),
                jobs.c.not_before,
                documents.c.id.label("document"),
            )
            .join(sources, sources.c.id == items.c.source_id)
            .outerjoin(jobs, (jobs.c.item_id == items.c.id) & jobs.c.current)
            .outerjoin(documents, (documents.c.item_id == items.c.id) & documents.c.removed_at.is_(None))
        )
        with self._store.read() as reading:
            numbers = _called(reading, text, source)
            rows = {row.id: row for row in reading.execute(statement.where(items.c.id.in_(numbers)))}
            return [_item(rows[number]) for number in numbers]


def _called(reading: Reading, text: str, source: str | None) -> list[int]:
    """Return the matching items, best first: present items before missing and deleted ones."""
    names = select(items.c.id, items.c.locator, items.c.state).where(
        lookup.name_condition(reading, items.c.locator, text)
    )
    if source is not None:
        names = names.join(sources, sources.c.id == items.c.source_id).where(sources.c.name == source)
    found = sorted(
        (match, _STATES.index(state), len(locator), -number)
        for number, locator, state in reading.execute(names)
        if (match := lookup.match_name(locator, text))
    )
    alone = bool(found) and found[0][0].is_whole
    return [-negative for match, *_, negative in found if not alone or match == found[0][0]][:_MOST_FOUND]


def _keep_marks(writing: Writing, source_id: int, marks: Mapping[str, str | None]) -> None:
    for keys in in_parts(marks):
        writing.execute(
            delete(marks_table).where(marks_table.c.source_id == source_id, among(writing, marks_table.c.key, keys))
        )
    rows = [{"source_id": source_id, "key": key, "value": value} for key, value in marks.items() if value is not None]
    writing.insert_named(marks_table, rows)


def _item(row: AnyRow) -> ItemRow:
    return ItemRow(
        id=row.id,
        source=row.source,
        kind=row.kind,
        locator=row.locator,
        container=row.container,
        version=row.version,
        identity=row.identity,
        size=row.size,
        modified=maybe_time(row.modified),
        attributes=from_json(row.attributes),
        state=row.state,
        content_hash=row.content_hash,
        first_seen=from_micros(row.first_seen_at),
        changed=from_micros(row.changed_at),
        gone=maybe_time(row.gone_at),
        sync_id=row.sync_id,
        job=row.job,
        job_state=None if row.job_state is None else JobState(row.job_state),
        job_reason=row.job_reason,
        not_before=maybe_time(row.not_before),
        document=row.document,
    )
