"""Intake: records the changes reported by a connector as items and jobs, together with its cursor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import delete, select

from catchment.errors import SkipReason
from catchment.ledger.db import lookup
from catchment.ledger.db.database import Writing, among
from catchment.ledger.db.job_states import SKIPPED, in_parts
from catchment.ledger.db.schema import items, jobs
from catchment.ledger.db.schema import marks as marks_table
from catchment.ledger.items import item_lookup
from catchment.ledger.items.deletion_guard import Deletions
from catchment.ledger.items.known import KnownSource
from catchment.ledger.items.recording import Recording
from catchment.model import Failure, Skip, Tombstone, Upsert
from catchment.records.rows import IntakeCounts, ItemRow


class Intake(Deletions):
    """The ledger's record of the items at each source, with the guarded deletion of missing items."""

    def known(self, source_id: int) -> KnownSource:
        """Return the connector's view of the records of a source."""
        return KnownSource(self._store, source_id)

    def places(self, source_id: int, identities: Iterable[str]) -> list[tuple[str, str]]:
        """Return identity and locator of the items of the source that have these identities and are not deleted."""
        places: list[tuple[str, str]] = []
        with self._store.read() as reading:
            for part in in_parts(identities):
                statement = select(items.c.identity, items.c.locator).where(
                    items.c.source_id == source_id, items.c.identity.in_(part), items.c.state != "deleted"
                )
                places += ((identity, locator) for identity, locator in reading.execute(statement))
        return places

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

    def find(self, text: str, source: str | None = None) -> list[ItemRow]:
        """Return up to 50 items with this name, now or before a move, best match first, in any state: see `match_name`.

        If no path matches, those of the documents with this title.
        """
        with self._store.read() as reading:
            return item_lookup.find(reading, text, source)

    def held_back(self, *, limit: int = 50, offset: int = 0) -> tuple[list[ItemRow], int]:
        """Return a part of the listed items that are not in the library as listed, and their number.

        First items with a held deletion, then quarantined, waiting and skipped items.
        """
        with self._store.read() as reading:
            return item_lookup.held_back(reading, limit, offset)

    def item(self, item_id: int) -> ItemRow | None:
        """Return an item by its ID, in any state; None if it was purged."""
        with self._store.read() as reading:
            return item_lookup.by_id(reading, item_id)

    def states(self, item_ids: Iterable[int]) -> dict[int, str]:
        """Return the state of each of these items that was not purged."""
        states: dict[int, str] = {}
        with self._store.read() as reading:
            for part in in_parts(item_ids):
                rows = reading.execute(select(items.c.id, items.c.state).where(among(reading, items.c.id, part)))
                states |= {row.id: row.state for row in rows}
        return states

    def excluded(self, source_id: int) -> list[str]:
        """Return the locators of the present items that the source is set to leave out."""
        statement = (
            select(items.c.locator)
            .join(jobs, (jobs.c.item_id == items.c.id) & jobs.c.current)
            .where(items.c.source_id == source_id, items.c.state == "present")
            .where(jobs.c.state == SKIPPED.value, jobs.c.reason == SkipReason.EXCLUDED.value)
        )
        with self._store.read() as reading:
            return list(reading.execute(statement).scalars())

    def of_document(self, document: int) -> ItemRow | None:
        """Return the item of a document, which may be withdrawn; None without such a document."""
        with self._store.read() as reading:
            return item_lookup.of_document(reading, document)

    def of_job(self, job: int) -> ItemRow | None:
        """Return the item of a job; None without such a job, or if a later one replaced it."""
        with self._store.read() as reading:
            return item_lookup.of_job(reading, job)

    def similar(self, text: str) -> list[str]:
        """Return up to three paths of documents with a file name that resembles this name."""
        with self._store.read() as reading:
            return item_lookup.similar(reading, text)


def _keep_marks(writing: Writing, source_id: int, marks: Mapping[str, str | None]) -> None:
    for keys in in_parts(marks):
        writing.execute(
            delete(marks_table).where(marks_table.c.source_id == source_id, among(writing, marks_table.c.key, keys))
        )
    rows = [{"source_id": source_id, "key": key, "value": value} for key, value in marks.items() if value is not None]
    writing.insert_named(marks_table, rows)
