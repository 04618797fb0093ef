"""Consistency of ledger and library for one source: each item against its document, its content, and the search index.

`catchment.sync.prove` compares these results with the source itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Select, case, select, text, update

from catchment.errors import Reason, SkipReason
from catchment.ledger.admin import index_check
from catchment.ledger.admin.check import check_words
from catchment.ledger.db.database import AnyRow, Store, Writing, among
from catchment.ledger.db.job_states import UNFINISHED, in_parts, states
from catchment.ledger.db.lookup import carriers, find_open_sync
from catchment.ledger.db.row_records import record
from catchment.ledger.db.schema import chunks, contents, documents, items, jobs
from catchment.ledger.jobs.endings import WAITING, supersede
from catchment.ledger.jobs.repeats import NewJob, add
from catchment.ledger.library import embeddings, withdraw, word_parts
from catchment.ledger.library.documents import CONTENT, content_of
from catchment.model import Chunk, Document, Item, JobState
from catchment.runtime import heartbeat

_AT_ONCE = 500


_DONE = (JobState.SUCCEEDED, JobState.SKIPPED)
_UNREAD = frozenset({Reason.PERMISSION_DENIED, Reason.CONNECTOR_ERROR})


class ItemStatus(StrEnum):
    """Status of an item in the library."""

    STORED = "stored"
    SKIPPED = "skipped"
    QUARANTINED = "in quarantine"
    WAITING = "waiting"
    SET_ASIDE = "set aside"
    HELD = "held"
    KEPT = "kept"
    LOST = "lost"
    """The ledger records it as stored, but the library lacks it or has another content."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An item in the ledger and its content in the library.

    Attributes:
        at_source: True if the last listing contained it.
        given_up: The version that could not be read or that an operator excluded.
        unread: The error, if the source did not let it be read or listed: the state at the source is unknown.
    """

    id: int
    locator: str
    container: str
    status: ItemStatus
    at_source: bool
    expected: str | None
    found: str | None
    content_id: int | None
    given_up: str | None
    unread: str | None


@dataclass(frozen=True, slots=True)
class Kept:
    """A content with its chunks."""

    id: int
    document: Document
    normalizer: str
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """An item with its text in the library, for comparison with a new parse. `carrier`: the item that it is a part of."""

    item_id: int
    item: Item
    content_id: int
    content_hash: str
    normalizer: str
    text: str
    carrier: Item | None


class Proof:
    """Queries and repairs for a consistency check."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def items(self, source_id: int) -> list[Stored]:
        """Return all items of a source that are not deleted, ordered by container and locator."""
        return [_stored(row) for row in self._store.execute(_items(source_id)).all()]

    def contents(self, source_id: int) -> Iterator[Sequence[Kept]]:
        """Yield the contents of a source's documents with their chunks, in groups."""
        live = (documents.c.source_id == source_id) & documents.c.removed_at.is_(None)
        numbers = self._store.execute(select(documents.c.content_id).where(live).distinct()).scalars().all()
        count = 0
        for part in in_parts(numbers, _AT_ONCE):
            with self._store.read() as reading:
                passages: dict[int, list[Chunk]] = {}
                its_chunks = select(chunks).where(among(reading, chunks.c.content_id, part)).order_by(chunks.c.id)
                for row in reading.execute(its_chunks):
                    passages.setdefault(row.content_id, []).append(Chunk(row.start, row.stop, row.heading))
                rows = reading.execute(select(contents.c.id, *CONTENT).where(among(reading, contents.c.id, part))).all()
            yield [Kept(row.id, content_of(row), row.normalizer, tuple(passages.get(row.id, ()))) for row in rows]
            count += len(part)
            heartbeat.report("comparing", count, len(numbers))

    def samples(self, item_ids: Sequence[int]) -> list[Sample]:
        """Return these items of one source with their texts, in any order. Items without a document are omitted."""
        texts = (documents.c.content_id, contents.c.hash, contents.c.normalizer, contents.c.text)
        statement = (
            select(items, *texts)
            .join(documents, (documents.c.item_id == items.c.id) & documents.c.removed_at.is_(None))
            .join(contents, contents.c.id == documents.c.content_id)
        )
        with self._store.read() as reading:
            rows = reading.execute(statement.where(among(reading, items.c.id, item_ids))).all()
            inside = {container: item for container, (_, item) in carriers(reading, rows).items()}
        return [
            record(
                Sample,
                row,
                item_id=row.id,
                item=record(Item, row),
                content_hash=row.hash,
                carrier=inside.get(row.container),
            )
            for row in rows
        ]

    def index(self, source_id: int) -> list[str]:
        """Return sentences about chunks and names of the source that are missing from the search index, or damaged in it."""
        live = f"SELECT id FROM documents WHERE source_id = {int(source_id)} AND removed_at IS NULL"
        content_query = f"SELECT content_id FROM documents WHERE source_id = {int(source_id)} AND removed_at IS NULL"
        expected = (
            ("chunk_index", f"SELECT id FROM chunks WHERE content_id IN ({content_query})", "passages are"),
            ("document_index", live, "names of documents are"),
        )
        findings = []
        with self._store.read() as reading:
            for index, there, what in expected:
                difference = f"SELECT count(*) FROM ({there} EXCEPT {word_parts.indexed(reading, index)}) AS difference"
                if number := int(reading.execute(text(difference)).scalar_one()):
                    findings.append(f"{number} {what} not in the index")
            findings += index_check.check_names(reading, documents.c.source_id == source_id)
            if number := len(embeddings.damaged(reading, text(f"embeddings.content_id IN ({content_query})"))):
                findings.append(f"{number} passages with damaged vectors")
            if number := len(embeddings.damaged_titles(reading, text(f"document_id IN ({live})"))):
                findings.append(f"{number} names with damaged vectors")
        return findings or check_words(self._store)

    def read_again(self, sync_id: int, items_: Collection[int], damaged: Collection[int], actor: str) -> int:
        """Queue items to be read and parsed again, treating damaged contents as unknown. Return their number.

        Raises StaleLease if the sync is closed.
        """
        with self._store.read() as reading:
            # Scans everything, so run it before blocking writers.
            unused = withdraw.unused(reading)
        with self._store.write() as writing:
            source_id = find_open_sync(writing, sync_id).source_id
            for number in damaged:
                # With this name, the next delivery of the same bytes does not find the content and stores a new one.
                named = {"normalizer": f"damaged:{number}"}
                writing.execute(update(contents).where(contents.c.id == number).values(named))
            # Unreferenced contents would be reused by the next delivery.
            withdraw.drop_unused(writing, unused)
            _enqueue(writing, source_id, items_, actor)
            return len(items_)

    def rebuild_index(self) -> None:
        """Rebuild the search index, which takes as long as the first time, and delete damaged embeddings."""
        with self._store.write() as writing:
            embeddings.forget_damaged(writing)
            index_check.rebuild(writing)


def _items(source_id: int) -> Select[Any]:
    return (
        select(
            items.c.id,
            items.c.locator,
            items.c.container,
            items.c.state,
            items.c.content_hash,
            jobs.c.state.label("job_state"),
            jobs.c.reason,
            jobs.c.version,
            jobs.c.error,
            documents.c.content_id,
            contents.c.hash,
        )
        .outerjoin(jobs, (jobs.c.item_id == items.c.id) & jobs.c.current)
        .outerjoin(documents, (documents.c.item_id == items.c.id) & documents.c.removed_at.is_(None))
        .outerjoin(contents, contents.c.id == documents.c.content_id)
        .where(items.c.source_id == source_id, items.c.state != "deleted")
        .order_by(items.c.container, items.c.locator)
    )


def _stored(row: AnyRow) -> Stored:
    status = _status(row)
    return Stored(
        row.id,
        row.locator,
        row.container,
        status,
        row.state == "present",
        row.content_hash,
        row.hash,
        row.content_id,
        row.version if status in (ItemStatus.QUARANTINED, ItemStatus.SET_ASIDE) else None,
        row.error if status in (ItemStatus.QUARANTINED, ItemStatus.WAITING) and row.reason in _UNREAD else None,
    )


def _status(row: AnyRow) -> ItemStatus:
    state = None if row.job_state is None else JobState(row.job_state)
    whole = row.hash is not None and row.hash == row.content_hash
    stored = state is JobState.SUCCEEDED or (state is JobState.SKIPPED and row.reason == SkipReason.UNCHANGED)
    if stored and not whole:
        return ItemStatus.LOST
    if row.state != "present":
        return ItemStatus.HELD if row.state == "missing" else ItemStatus.KEPT
    if state in UNFINISHED:
        return ItemStatus.WAITING
    known = {
        JobState.QUARANTINED: ItemStatus.QUARANTINED,
        JobState.SKIPPED: ItemStatus.SKIPPED,
        JobState.CANCELLED: ItemStatus.SET_ASIDE,
    }
    return ItemStatus.STORED if stored else known.get(state, ItemStatus.LOST) if state else ItemStatus.LOST


def _enqueue(writing: Writing, source_id: int, item_ids: Collection[int], actor: str) -> None:
    chosen = among(writing, items.c.id, item_ids) & (items.c.state == "present")
    # An undo needs these columns to find the sync of an item, and to notice later changes.
    found_by = case((states(WAITING), jobs.c.sync_id)).label("sync_id")
    backfill = case((states(WAITING), jobs.c.backfill_id)).label("backfill_id")
    repeated = case((states(_DONE), jobs.c.id), (states(WAITING), jobs.c.replay_of)).label("replay_of")
    facts = items.c.id, items.c.version, found_by, backfill, repeated
    before = select(*facts).outerjoin(jobs, (jobs.c.item_id == items.c.id) & jobs.c.current)
    rows = writing.execute(before.where(chosen)).all()
    current = among(writing, jobs.c.item_id, [row.id for row in rows]) & jobs.c.current
    supersede(writing, current, actor=actor, reason="read again")
    new = [
        NewJob(row.id, row.version, JobState.PENDING, "read again", row.replay_of, row.sync_id, row.backfill_id)
        for row in rows
    ]
    add(writing, source_id, new, actor=actor)
