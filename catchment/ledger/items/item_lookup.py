"""Lookup of items by name: a path in the source, a part of it, or the title of the document."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from sqlalchemy import Select, case, func, literal, select, union_all

from catchment.ledger.db import lookup
from catchment.ledger.db.database import AnyRow, Reading, from_json, from_micros, maybe_time
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


def find(reading: Reading, text: str, source: str | None) -> list[ItemRow]:
    """Return the items with this name, best first; by the titles of documents if no path has it."""
    numbers = _by_path(reading, text, source) or _by_title(reading, text, source)
    rows = {row.id: row for row in reading.execute(_rows().where(items.c.id.in_(numbers)))}
    return [_item(rows[number]) for number in numbers]


def of_job(reading: Reading, job: int) -> ItemRow | None:
    """Return the item of a job; None without such a job, or if a later one replaced it."""
    row = reading.execute(_rows().where(jobs.c.id == job)).first()
    return None if row is None else _item(row)


def by_id(reading: Reading, item_id: int) -> ItemRow | None:
    """Return an item in any state; None without such an item."""
    row = reading.execute(_rows().where(items.c.id == item_id)).first()
    return None if row is None else _item(row)


def of_document(reading: Reading, document: int) -> ItemRow | None:
    """Return the item of a document, which may be withdrawn; None without such a document."""
    its_item = select(documents.c.item_id).where(documents.c.id == document).scalar_subquery()
    row = reading.execute(_rows().where(items.c.id == its_item)).first()
    return None if row is None else _item(row)


def held_back(reading: Reading, limit: int, offset: int) -> tuple[list[ItemRow], int]:
    """Return a part of the listed items that are not in the library as listed, and their number; see `_HELD_BACK`."""
    job_state = func.coalesce(jobs.c.state, JobState.PENDING.value)
    is_kept = (job_state == JobState.SKIPPED.value) & documents.c.id.is_not(None)
    state = case((items.c.state == "missing", "missing"), else_=job_state)
    waiting = _rows().where(items.c.state.in_(("present", "missing")), state.in_(_HELD_BACK), ~is_kept)
    order = case({name: rank for rank, name in enumerate(_HELD_BACK)}, value=state)
    total = reading.execute(select(func.count()).select_from(waiting.subquery())).scalar_one()
    part = waiting.order_by(order, items.c.source_id, items.c.locator).limit(limit).offset(offset)
    return [_item(row) for row in reading.execute(part)], total


def similar(reading: Reading, text: str) -> list[str]:
    """Return up to three paths of documents with a file name that resembles this name."""
    stem_of_text = _stem(text)
    statement = (
        select(items.c.locator)
        .join(documents, documents.c.item_id == items.c.id)
        .where(documents.c.removed_at.is_(None), lookup.similar_condition(reading, items.c.locator, stem_of_text))
        .order_by(items.c.id)
        .limit(_MOST_COMPARED)
    )
    paths: dict[str, str] = {}
    for path in reading.execute(statement).scalars():
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
