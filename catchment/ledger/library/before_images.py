"""Formers: what the library had at a place before a sync changed it, kept for a while so that the sync can be undone.

One row for each place and sync, written by whatever changes, adds or withdraws a document, in the same transaction. It counts
for the latest sync of the source, which is the one that goes on. A row without content says that there was no document.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import timedelta
from importlib import import_module
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, bindparam, delete, exists, func, literal, select, update

from catchment.ledger.db.database import Reading, Writing, among, as_map
from catchment.ledger.db.job_states import in_parts
from catchment.ledger.db.schema import LET_GO, contents, documents, formers, syncs

SAID = ("content_id", "title", "aliases", "properties", "modified", "metadata")
"""The columns of a document that its former keeps."""


def keep(writing: Writing, live: ColumnElement[bool]) -> None:
    """Remember live documents as they are, before they change or leave."""
    said = (documents.c[name] for name in SAID)
    its_sync = _latest_sync(documents.c.source_id)
    rows = select(documents.c.source_id, documents.c.path, its_sync, *said, literal(writing.now)).where(live)
    # SQLAlchemy has it in each dialect apart; the other database's takes a tenth of what a short command imports.
    dialect = import_module(f"sqlalchemy.dialects.{'sqlite' if writing.sqlite else 'postgresql'}")
    statement = dialect.insert(formers)
    names = ["source_id", "path", "sync_id", *SAID, "kept_at"]
    writing.execute(statement.from_select(names, rows).on_conflict_do_nothing())


def keep_absent(writing: Writing, places: Collection[tuple[int, str]]) -> None:
    """Remember that there was no document at these places (source, path), before one comes there."""
    if not places:
        return
    of_source = {number for number, _ in places}
    mine = syncs.c.source_id.in_(of_source)
    latest = as_map(
        writing.execute(select(syncs.c.source_id, func.max(syncs.c.id)).where(mine).group_by(syncs.c.source_id))
    )
    rows = [(number, path, latest[number], writing.now) for number, path in places]
    marks = ", ".join(["?" if writing.sqlite else "%s"] * 4)
    # Past SQLAlchemy's bookkeeping: a first sync writes one for every item.
    writing.connection.exec_driver_sql(
        f"INSERT INTO formers (source_id, path, sync_id, kept_at) VALUES ({marks}) ON CONFLICT DO NOTHING", rows
    )


def has(content_id: ColumnElement[int]) -> ColumnElement[bool]:
    """The condition that a content was a document's."""
    return exists(select(literal(1)).where(formers.c.content_id == content_id))


def names(reading: Reading, content_ids: Collection[int]) -> dict[int, tuple[str, str]]:
    """The aliases and properties that documents with these contents had."""
    if not content_ids:
        return {}
    found = reading.execute(
        select(formers.c.content_id, func.min(formers.c.aliases), func.min(formers.c.properties))
        .where(among(reading, formers.c.content_id, content_ids))
        .group_by(formers.c.content_id)
    )
    return {number: (aliases, properties) for number, aliases, properties in found}


def of_syncs(
    reading: Reading, source_id: int, sync_ids: Iterable[int], paths: Collection[str] | None = None
) -> list[Row[Any]]:
    """What was at each place, or each of these, before these syncs, in order of places: the earliest where several changed it.

    Nothing of a sync that is being let go of.
    """
    mine = (formers.c.source_id == source_id) & formers.c.sync_id.in_(list(sync_ids))
    if paths is not None:
        mine &= among(reading, formers.c.path, paths)
    rows = reading.execute(select(formers).where(mine).order_by(formers.c.path, formers.c.sync_id.desc())).all()
    gone = {row.sync_id for row in rows if row.kept_at == LET_GO}
    return list({row.path: row for row in rows if row.sync_id not in gone}.values())


def after(reading: Reading, source_id: int, sync_id: int, paths: Iterable[str]) -> dict[str, Row[Any]]:
    """What was right after a sync at those of these places that a later one changed."""
    found: dict[str, Row[Any]] = {}
    for part in in_parts(paths):
        later = (
            (formers.c.source_id == source_id) & among(reading, formers.c.path, part) & (formers.c.sync_id > sync_id)
        )
        rows = reading.execute(select(formers).where(later).order_by(formers.c.sync_id.desc()))
        found |= {row.path: row for row in rows}
    return found


def forget(writing: Writing, which: ColumnElement[bool]) -> set[int]:
    """Let go of formers; the contents that may not be needed any more."""
    gone = delete(formers).where(which).returning(formers.c.content_id)
    return {number for number in writing.execute(gone).scalars() if number is not None}


def none_ahead(writing: Writing) -> None:
    """What was kept while the clock was ahead is kept since now: its true age is not known."""
    writing.execute(update(formers).where(formers.c.kept_at > writing.now).values(kept_at=writing.now))


def too_many(reading: Reading, older_than: timedelta, most: int) -> list[int]:
    """The syncs that are older than this, or whose texts take more than so many characters with the later ones.

    One that is open is none of them: it may have more to be kept, and a sync is kept whole or not at all.
    """
    limit = reading.now - older_than // timedelta(microseconds=1)
    used = exists(select(literal(1)).where(documents.c.content_id == formers.c.content_id))
    sizes = (
        select(formers.c.sync_id, func.sum(func.length(contents.c.text)))
        .join(contents, contents.c.id == formers.c.content_id)
        .where(~used)
        .group_by(formers.c.sync_id)
        .order_by(formers.c.sync_id.desc())
    )
    room, first = most, None
    for number, size in reading.execute(sizes).all():
        room -= size
        if room < 0:
            first = number
            break
    old = formers.c.kept_at <= limit
    which = old if first is None else old | (formers.c.sync_id <= first)
    still_open = select(syncs.c.id).where(syncs.c.outcome.is_(None))
    found = select(formers.c.sync_id).where(which, formers.c.sync_id.not_in(still_open)).distinct()
    return list(reading.execute(found.order_by(formers.c.sync_id)).scalars())


def let_go(writing: Writing, sync_ids: Collection[int]) -> None:
    """Mark that these syncs are not undone any more, whatever is left of them: on the last row that will go of each."""
    mine = among(writing, formers.c.sync_id, sync_ids)
    last = select(formers.c.source_id, formers.c.sync_id, func.max(formers.c.path)).where(mine)
    rows = writing.execute(last.group_by(formers.c.source_id, formers.c.sync_id)).all()
    if rows:
        keys = ("source_id", "sync_id", "path")
        marked = and_(*(formers.c[name] == bindparam(f"its_{name}") for name in keys))
        values = [{f"its_{name}": value for name, value in zip(keys, row, strict=True)} for row in rows]
        writing.execute(update(formers).where(marked).values(kept_at=LET_GO), values)


def next_to_go(reading: Reading, sync_ids: Collection[int], limit: int) -> list[tuple[int, int, str, int]]:
    """The first rows of these syncs (sync, source, place, characters of text), in the order in which they go."""
    rows = (
        select(formers.c.sync_id, formers.c.source_id, formers.c.path, func.coalesce(func.length(contents.c.text), 0))
        .outerjoin(contents, contents.c.id == formers.c.content_id)
        .where(among(reading, formers.c.sync_id, sync_ids))
        .order_by(formers.c.sync_id, formers.c.path)
        .limit(limit)
    )
    return [(number, source_id, path, size) for number, source_id, path, size in reading.execute(rows)]


def _latest_sync(source_id: ColumnElement[int]) -> ColumnElement[int]:
    return select(func.max(syncs.c.id)).where(syncs.c.source_id == source_id).scalar_subquery()
