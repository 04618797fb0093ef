"""Lookup of items by name: a path in the source, a part of it, or the title of the document."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from sqlalchemy import ColumnElement, Select, case, func, literal, select, union_all

from catchment.ledger.db import lookup
from catchment.ledger.db.database import Reading, Store
from catchment.ledger.db.row_records import record
from catchment.ledger.db.schema import documents, items, jobs, moves, sources
from catchment.model import JobState
from catchment.records.rows import ItemRow

_STATES = ("present", "missing", "kept", "former", "deleted")
"""States in the order of their matches; `former`: the item had the path before it moved."""
_HELD_BACK = (
    "missing",
    *(state.value for state in (JobState.QUARANTINED, JobState.RETRYING, JobState.RUNNING, JobState.PENDING)),
    *(state.value for state in (JobState.CANCELLED, JobState.SKIPPED)),
)
"""States of items that are not in the library as listed, in the order in which they are returned."""
_MOST_FOUND = 50
_MOST_COMPARED = 5_000
"""Names compared for similarity, in 33 ms."""


class ItemLookup:
    """Items with their current jobs and their documents, to be shown."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, text: str, source: str | None = None) -> list[ItemRow]:
        """Return up to 50 items with this name, now or before a move, best match first, in any state: see `match_name`.

        If no path matches, those of the documents with this title.
        """
        with self._store.read() as reading:
            numbers = _by_path(reading, text, source) or _by_title(reading, text, source)
            rows = {row.id: row for row in reading.execute(_rows().where(items.c.id.in_(numbers)))}
        return [record(ItemRow, rows[number]) for number in numbers]

    def item(self, item_id: int) -> ItemRow | None:
        """Return an item by its ID, in any state; None if it was purged."""
        return self._item(items.c.id == item_id)

    def of_job(self, job: int) -> ItemRow | None:
        """Return the item of a job; None without such a job, or if a later one replaced it."""
        return self._item(jobs.c.id == job)

    def of_document(self, document: int) -> ItemRow | None:
        """Return the item of a document, which may be withdrawn; None without such a document."""
        return self._item(items.c.id == select(documents.c.item_id).where(documents.c.id == document).scalar_subquery())

    def _item(self, which: ColumnElement[bool]) -> ItemRow | None:
        row = self._store.execute(_rows().where(which)).first()
        return None if row is None else record(ItemRow, row)

    def held_back(self, *, limit: int = 50, offset: int = 0) -> tuple[list[ItemRow], int]:
        """Return a part of the listed items that are not in the library as listed, and their number.

        First items with a held deletion, then quarantined, waiting and skipped items.
        """
        job_state = func.coalesce(jobs.c.state, JobState.PENDING.value)
        is_kept = (job_state == JobState.SKIPPED.value) & documents.c.id.is_not(None)
        state = case((items.c.state == "missing", "missing"), else_=job_state)
        waiting = _rows().where(items.c.state.in_(("present", "missing")), state.in_(_HELD_BACK), ~is_kept)
        order = case({name: rank for rank, name in enumerate(_HELD_BACK)}, value=state)
        part = waiting.order_by(order, items.c.source_id, items.c.locator).limit(limit).offset(offset)
        with self._store.read() as reading:
            total = reading.execute(select(func.count()).select_from(waiting.subquery())).scalar_one()
            return [record(ItemRow, row) for row in reading.execute(part)], total

    def similar(self, text: str) -> list[str]:
        """Return up to three paths of documents with a file name that resembles this name."""
        stem_of_text = _stem(text)
        compared = (
            select(items.c.locator)
            .join(documents, documents.c.item_id == items.c.id)
            .where(documents.c.removed_at.is_(None))
            .order_by(items.c.id)
            .limit(_MOST_COMPARED)
        )
        paths: dict[str, str] = {}
        with self._store.read() as reading:
            alike = lookup.similar_condition(reading, items.c.locator, stem_of_text)
            for path in reading.execute(compared.where(alike)).scalars():
                paths.setdefault(_stem(path), path)
        return [paths[stem] for stem in get_close_matches(stem_of_text, paths, n=3)]


def _rows() -> Select[tuple[object, ...]]:
    return (
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


def _by_path(reading: Reading, text: str, source: str | None) -> list[int]:
    """Return the matching items, best first: present items before missing, moved and deleted ones."""
    names = select(items.c.id, items.c.locator, items.c.state).where(
        lookup.name_condition(reading, items.c.locator, text)
    )
    moved = (
        select(items.c.id, moves.c.locator, literal("former"))
        .join(moves, moves.c.item_id == items.c.id)
        .where(items.c.state != "deleted", lookup.name_condition(reading, moves.c.locator, text))
    )
    if source is not None:
        of_source = items.c.source_id == select(sources.c.id).where(sources.c.name == source).scalar_subquery()
        names, moved = names.where(of_source), moved.where(of_source)
    matched = sorted(
        (match, _STATES.index(state), len(locator), -number)
        for number, locator, state in reading.execute(union_all(names, moved))
        if (match := lookup.match_name(locator, text))
    )
    return list(dict.fromkeys(-negative for *_, negative in matched))[:_MOST_FOUND]


def _by_title(reading: Reading, text: str, source: str | None) -> list[int]:
    """Return the items of the documents with this title."""
    titles = (
        select(items.c.id, documents.c.title)
        .join(documents, documents.c.item_id == items.c.id)
        .where(documents.c.removed_at.is_(None), lookup.text_condition(reading, documents.c.title, text))
    )
    if source is not None:
        titles = titles.join(sources, sources.c.id == items.c.source_id).where(sources.c.name == source)
    matched: Iterable[tuple[lookup.NameMatch, int]] = sorted(
        (match, number)
        for number, title in reading.execute(titles)
        if (match := lookup.match_name(title, text)) and match.is_whole
    )
    return [number for _, number in matched][:_MOST_FOUND]


def _stem(path: str) -> str:
    """Return the file name without its suffix, for comparison."""
    return lookup.nfc(path).casefold().rpartition("/")[2].partition(".")[0]
