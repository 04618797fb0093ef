"""Intake: records the changes reported by a connector as items and jobs, together with its cursor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace

from sqlalchemy import delete, select

from catchment.errors import SkipReason
from catchment.ledger.db import lookup
from catchment.ledger.db.database import Writing, among, as_map
from catchment.ledger.db.job_states import QUARANTINED, SKIPPED, in_parts
from catchment.ledger.db.schema import items, jobs, syncs
from catchment.ledger.db.schema import marks as marks_table
from catchment.ledger.items.deletion_guard import Deletions
from catchment.ledger.items.item_lookup import ItemLookup
from catchment.ledger.items.known import KnownSource
from catchment.ledger.items.recording import Recording
from catchment.model import PARTS, Failure, Item, Skip, Tombstone, Upsert
from catchment.records.rows import IntakeCounts

_PARTS_AT_ONCE = 5_000


class Intake(Deletions, ItemLookup):
    """The ledger's record of the items at each source, with the guarded deletion of missing items and the lookup by name."""

    def known(self, source_id: int) -> KnownSource:
        """Return the connector's view of the records of a source."""
        return KnownSource(self._store, source_id)

    def places(self, source_id: int, identities: Collection[str]) -> list[tuple[str, str]]:
        """Return identity and locator of the items of the source that have these identities and are not deleted."""
        there = (items.c.source_id == source_id) & (items.c.state != "deleted")
        with self._store.read() as reading:
            have_them = among(reading, items.c.identity, identities)
            statement = select(items.c.identity, items.c.locator).where(there, have_them)
            return list(reading.execute(statement).tuples())

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
            recording = Recording(writing, sync.source_id, sync_id, sync.owner, sync.priority, sync.backfill_id)
            counts = recording.take(changes)
            _keep_marks(writing, sync.source_id, marks)
            return counts

    def record_parts(
        self, source_id: int, carrier: Item, parts: Sequence[Upsert | Skip | Failure], content_hash: str
    ) -> IntakeCounts | None:
        """Record all parts of an item, for the open sync of its source. Former parts that are not among them are missing.

        `content_hash`: of the item. A part in quarantine is tried again when it changes, because the check sum in an archive
        may be right while the data is damaged.

        Idempotent, in transactions that do not block other writers for long. None if the sync was closed meanwhile.
        """
        with self._store.read() as reading:
            is_open = (syncs.c.source_id == source_id) & syncs.c.outcome.is_(None)
            if (sync_id := reading.execute(select(syncs.c.id).where(is_open)).scalar()) is None:
                return None
            inside = among(reading, items.c.container, [carrier.locator + PARTS])
            known = select(items.c.locator).where(items.c.source_id == source_id, inside, items.c.state == "present")
            gone = {*reading.execute(known).scalars()} - {part.item.locator for part in parts}
            current = (jobs.c.item_id == items.c.id) & jobs.c.current & (jobs.c.state == QUARANTINED.value)
            failed = {*reading.execute(known.join(jobs, current)).scalars()}
        again = [_anew(part, content_hash) if part.item.locator in failed else part for part in parts]
        counts: Counter[str] = Counter()
        for changes in in_parts([*map(Tombstone, sorted(gone)), *again], _PARTS_AT_ONCE):
            counts.update(asdict(self.record(sync_id, changes, {})))
        return IntakeCounts(**counts)

    def states(self, item_ids: Collection[int]) -> dict[int, str]:
        """Return the state of each of these items that was not purged."""
        with self._store.read() as reading:
            return as_map(
                reading.execute(select(items.c.id, items.c.state).where(among(reading, items.c.id, item_ids)))
            )

    def excluded(self, source_id: int) -> list[str]:
        """Return the locators of the present items that the source is set to leave out."""
        statement = (
            select(items.c.locator)
            .join(jobs, (jobs.c.item_id == items.c.id) & jobs.c.current)
            .where(items.c.source_id == source_id, items.c.state == "present")
            .where(jobs.c.state == SKIPPED.value, jobs.c.reason == SkipReason.EXCLUDED.value)
        )
        return list(self._store.execute(statement).scalars())


def _anew(part: Upsert | Skip | Failure, content_hash: str) -> Upsert | Skip | Failure:
    version = f"{part.item.version}+{content_hash[:16]}"
    return replace(part, item=replace(part.item, version=version)) if isinstance(part, Upsert) else part


def _keep_marks(writing: Writing, source_id: int, marks: Mapping[str, str | None]) -> None:
    old = (marks_table.c.source_id == source_id) & among(writing, marks_table.c.key, marks)
    writing.execute(delete(marks_table).where(old))
    rows = [{"source_id": source_id, "key": key, "value": value} for key, value in marks.items() if value is not None]
    writing.insert_named(marks_table, rows)
