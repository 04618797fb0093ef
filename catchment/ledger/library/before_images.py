"""Before-images (table `formers`): the state of the library at a path before a sync changed it, kept so that it can be undone.

There is one row per path and sync, written in the same transaction that changes, adds or withdraws a document. It belongs to
the latest sync of the source, which is the running one, or to the sync that found a deletion which an operator applies. A row
without content means that there was no document.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from importlib import import_module
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Row,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    literal,
    select,
    update,
)

from catchment.ledger.db.database import Reading, Writing, among, as_map
from catchment.ledger.db.schema import BEING_DELETED, contents, documents, sources, syncs
from catchment.ledger.db.schema import before_images as images

_DAY = 86_400_000_000
_LAST = 2**63 - 1
DOCUMENT_COLUMNS = ("content_id", "title", "aliases", "properties", "modified", "metadata")
"""The document columns that a before-image contains."""

TAKEN = "document of item "
"""How the reason of a move begins if an item took the document of another one."""


def save(writing: Writing, live: ColumnElement[bool], sync_id: int | None = None) -> None:
    """Store before-images of live documents before they change or are withdrawn.

    `sync_id`: the sync that they belong to, except at paths that a later one changed; without it, the latest one.
    """
    columns = (documents.c[name] for name in DOCUMENT_COLUMNS)
    its_sync = latest_sync(documents.c.source_id)
    if sync_id is not None:
        changed_later = exists_at(writing, documents.c.source_id, documents.c.path, images.c.sync_id > sync_id)
        its_sync = case((changed_later, its_sync), else_=sync_id)
    rows = select(documents.c.source_id, documents.c.path, its_sync, *columns, literal(writing.now)).where(live)
    # The dialects define `insert` separately. Importing both would add a tenth to the start-up time of a short command.
    dialect = import_module(f"sqlalchemy.dialects.{'sqlite' if writing.sqlite else 'postgresql'}")
    statement = dialect.insert(images)
    names = ["source_id", "path", "sync_id", *DOCUMENT_COLUMNS, "kept_at"]
    writing.execute(statement.from_select(names, rows).on_conflict_do_nothing())


def save_absent(writing: Writing, places: Collection[tuple[int, str]]) -> None:
    """Record that these paths (source, path) have no document, before one is added."""
    if not places:
        return
    of_source = {number for number, _ in places}
    of_syncs = syncs.c.source_id.in_(of_source)
    latest = as_map(
        writing.execute(select(syncs.c.source_id, func.max(syncs.c.id)).where(of_syncs).group_by(syncs.c.source_id))
    )
    rows = [(number, path, latest[number], writing.now) for number, path in places]
    # Bypass SQLAlchemy's bookkeeping: a first sync writes one row per item.
    values: Any = rows
    row_values = "VALUES (?, ?, ?, ?)"
    if not writing.sqlite:
        values = tuple(map(list, zip(*rows, strict=True)))
        row_values = "SELECT * FROM unnest(%s::bigint[], %s::text[], %s::bigint[], %s::bigint[])"
    into = "formers (source_id, path, sync_id, kept_at)"
    writing.connection.exec_driver_sql(f"INSERT INTO {into} {row_values} ON CONFLICT DO NOTHING", values)


def exists_at(
    reading: Reading, source_id: Any, path: ColumnElement[str], by_sync: ColumnElement[bool]
) -> ColumnElement[bool]:
    """Return the condition that there is a before-image at a path of a source, by a sync that meets `by_sync`."""
    there = (images.c.source_id == source_id) & (images.c.path == path)
    if not reading.sqlite:
        # As its index has it.
        there &= func.md5(images.c.path) == func.md5(path)
    return exists(select(images.c.path).where(there, by_sync))


def uses(content_id: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the condition that a content is in a before-image."""
    return exists(select(literal(1)).where(images.c.content_id == content_id))


def names(reading: Reading, content_ids: Collection[int]) -> dict[int, tuple[str, str]]:
    """Return the aliases and properties of earlier documents with these contents."""
    if not content_ids:
        return {}
    rows = reading.execute(
        select(images.c.content_id, func.min(images.c.aliases), func.min(images.c.properties))
        .where(among(reading, images.c.content_id, content_ids))
        .group_by(images.c.content_id)
    )
    return {number: (aliases, properties) for number, aliases, properties in rows}


def paths_of(reading: Reading, source_id: int, sync_ids: Iterable[int]) -> tuple[list[str], frozenset[int]]:
    """Return the paths that these syncs changed, in their order, and the syncs with complete undo data."""
    of_syncs = (images.c.source_id == source_id) & images.c.sync_id.in_(list(sync_ids))
    rows = reading.execute(
        select(images.c.path, images.c.sync_id, images.c.kept_at).where(of_syncs).order_by(images.c.path)
    ).all()
    deleted = {row.sync_id for row in rows if row.kept_at == BEING_DELETED}
    live_rows = [row for row in rows if row.sync_id not in deleted]
    return list(dict.fromkeys(row.path for row in live_rows)), frozenset(row.sync_id for row in live_rows)


def kept_whole(reading: Reading, sync_ids: Collection[int]) -> frozenset[int]:
    """Return which of these syncs have undo data that is kept whole."""
    deleted = func.max(case((images.c.kept_at == BEING_DELETED, 1), else_=0))
    whole = select(images.c.sync_id).where(among(reading, images.c.sync_id, sync_ids)).group_by(images.c.sync_id)
    return frozenset(reading.execute(whole.having(deleted == 0)).scalars())


def since(reading: Reading, source_id: int, sync_id: int, paths: Collection[str]) -> dict[str, list[Row[Any]]]:
    """Return the before-images of these paths by this sync and all later ones, oldest first."""
    by_path: dict[str, list[Row[Any]]] = {}
    later = (images.c.source_id == source_id) & among(reading, images.c.path, paths) & (images.c.sync_id >= sync_id)
    for row in reading.execute(select(images).where(later).order_by(images.c.path, images.c.sync_id)):
        by_path.setdefault(row.path, []).append(row)
    return by_path


def places(events: Iterable[Row[Any]], locator: str) -> Iterator[tuple[str, int, int]]:
    """Yield the places of an item that is at `locator` now, as of `along`, from the events of its history."""
    arrival = 0
    for event in events:
        if event.locator is not None and event.sync_id is not None:
            yield event.locator, arrival, event.sync_id
            arrival = event.sync_id
    yield locator, arrival, _LAST


def along(reading: Reading, source_id: int, places: Iterable[tuple[str, int, int]]) -> list[tuple[Row[Any], bool]]:
    """Return the before-images at the places of a document, oldest first; True for images of its arrival at a place.

    A place: path, the sync of the arrival (0: none), the last sync. Excludes images that are being deleted, and older ones.
    """
    steps: list[tuple[Row[Any], bool]] = []
    for path, arrival, last in places:
        between = (images.c.source_id == source_id) & (images.c.path == path) & images.c.sync_id.between(arrival, last)
        rows = reading.execute(select(images).where(between).order_by(images.c.sync_id))
        steps += [(row, row.sync_id == arrival) for row in rows]
    deleted = max((place for place, (row, _) in enumerate(steps, 1) if row.kept_at == BEING_DELETED), default=0)
    return steps[deleted:]


def forget(writing: Writing, which: ColumnElement[bool]) -> set[int]:
    """Delete before-images. Return the contents that may now be unused."""
    deleted = delete(images).where(which).returning(images.c.content_id)
    return {number for number in writing.execute(deleted).scalars() if number is not None}


def clamp_future_times(writing: Writing) -> None:
    """Reset times that were recorded while the clock was ahead: the true age is unknown, so count from now."""
    writing.execute(update(images).where(images.c.kept_at > writing.now).values(kept_at=writing.now))


def expired_syncs(reading: Reading, most: int) -> list[int]:
    """Return the syncs older than their source keeps them, or that exceed `most` characters of text with the later ones.

    Open syncs are excluded, because they may add more before-images. The data of a sync is kept or deleted as a whole.
    """
    used = exists(select(literal(1)).where(documents.c.content_id == images.c.content_id))
    sizes = (
        select(images.c.sync_id, func.sum(func.length(contents.c.text)))
        .join(contents, contents.c.id == images.c.content_id)
        .where(~used)
        .group_by(images.c.sync_id)
        .order_by(images.c.sync_id.desc())
    )
    room, first = most, None
    for number, size in reading.execute(sizes).all():
        room -= size
        if room < 0:
            first = number
            break
    old = images.c.kept_at <= kept_from(reading)
    which = old if first is None else old | (images.c.sync_id <= first)
    still_open = select(syncs.c.id).where(syncs.c.outcome.is_(None))
    query = select(images.c.sync_id).join(sources, sources.c.id == images.c.source_id).distinct()
    query = query.where(which, images.c.sync_id.not_in(still_open))
    return list(reading.execute(query.order_by(images.c.sync_id)).scalars())


def kept_from(reading: Reading) -> ColumnElement[int]:
    """Return the time since when a source (in the statement) keeps deleted items and before-images."""
    return reading.now - sources.c.keep_days * literal(_DAY, BigInteger)


def mark_for_deletion(writing: Writing, sync_ids: Collection[int]) -> None:
    """Mark the undo data of these syncs as being deleted, on the row of each that will be deleted last."""
    of_syncs = among(writing, images.c.sync_id, sync_ids)
    last = select(images.c.source_id, images.c.sync_id, func.max(images.c.path)).where(of_syncs)
    rows = writing.execute(last.group_by(images.c.source_id, images.c.sync_id)).all()
    if rows:
        keys = ("source_id", "sync_id", "path")
        marked = and_(*(images.c[name] == bindparam(f"its_{name}") for name in keys))
        values = [{f"its_{name}": value for name, value in zip(keys, row, strict=True)} for row in rows]
        writing.execute(update(images).where(marked).values(kept_at=BEING_DELETED), values)


def next_deletions(reading: Reading, sync_ids: Collection[int], limit: int) -> list[tuple[int, int, str, int]]:
    """Return the first rows of these syncs (sync, source, path, characters of text) in the order of their deletion."""
    rows = (
        select(images.c.sync_id, images.c.source_id, images.c.path, func.coalesce(func.length(contents.c.text), 0))
        .outerjoin(contents, contents.c.id == images.c.content_id)
        .where(among(reading, images.c.sync_id, sync_ids))
        .order_by(images.c.sync_id, images.c.path)
        .limit(limit)
    )
    return [(number, source_id, path, size) for number, source_id, path, size in reading.execute(rows)]


def latest_sync(source_id: ColumnElement[int] | int) -> ColumnElement[int]:
    """Return the subquery of the latest sync of a source, to which its before-images belong."""
    return select(func.max(syncs.c.id)).where(syncs.c.source_id == source_id).scalar_subquery()
