"""Withdrawal, restoration, renaming and deletion of documents. Withdrawn documents remain until they are purged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from sqlalchemy import ColumnElement, bindparam, delete, exists, func, select, update

from catchment.ledger.db.database import Reading, Writing
from catchment.ledger.db.job_states import in_parts
from catchment.ledger.db.schema import chunks, contents, documents, entities, items, jobs, links, moves, quarantine
from catchment.ledger.library import before_images, conversation_index, embeddings, page_texts, word_index


def withdraw_items(writing: Writing, item_ids: Iterable[int], sync_id: int | None = None) -> None:
    """Remove the documents of these items from listings and searches. Rows remain, for a return or an undo.

    `sync_id`: the sync whose undo restores them, as of `before_images.save`.
    """
    for part in in_parts(item_ids):
        _withdraw(writing, documents.c.item_id.in_(part), sync_id)
        writing.execute(update(items).where(items.c.id.in_(part)).values(content_hash=None))


def _withdraw(writing: Writing, which: ColumnElement[bool], sync_id: int | None) -> None:
    live = which & documents.c.removed_at.is_(None)
    before_images.save(writing, live, sync_id)
    word_index.forget_names(writing, live)
    writing.execute(update(documents).where(live).values(removed_at=writing.now))


def restore_items(writing: Writing, item_ids: Iterable[int]) -> None:
    """Restore the withdrawn documents of these items."""
    for part in in_parts(item_ids):
        withdrawn = documents.c.item_id.in_(part) & documents.c.removed_at.is_not(None)
        rows = writing.execute(
            select(documents.c.item_id, contents.c.hash, documents.c.source_id, documents.c.path)
            .join(contents, contents.c.id == documents.c.content_id)
            .where(withdrawn)
        ).all()
        if not rows:
            continue
        before_images.save_absent(writing, [(row.source_id, row.path) for row in rows])
        writing.execute(update(documents).where(withdrawn).values(removed_at=None))
        word_index.learn_names(writing, documents.c.item_id.in_([row.item_id for row in rows]))
        statement = update(items).where(items.c.id == bindparam("item_id")).values(content_hash=bindparam("hash"))
        writing.execute(statement, [{"item_id": row.item_id, "hash": row.hash} for row in rows])


def rename(writing: Writing, moves: Sequence[tuple[int, str, str]]) -> None:
    """Apply moves of items (ID, old locator, new locator) to their documents. Titles equal to the file name change too."""
    for part in in_parts([item_id for item_id, _, _ in moves]):
        # All before-images first, because the items may have exchanged their locators.
        before_images.save(writing, documents.c.item_id.in_(part) & documents.c.removed_at.is_(None))
    for part in in_parts(moves):
        names = {item_id: (old, new) for item_id, old, new in part}
        of_items = documents.c.item_id.in_(names)
        rows = []
        for number, item_id, title in writing.execute(
            select(documents.c.id, documents.c.item_id, documents.c.title).where(of_items)
        ).all():
            old, new = (PurePosixPath(name) for name in names[item_id])
            called = {old.stem: new.stem, old.name: new.name}.get(title, title)
            rows.append({"document": number, "path": str(names[item_id][1]), "title": called})
        if rows:
            live = of_items & documents.c.removed_at.is_(None)
            word_index.forget_names(writing, live)
            writing.execute(update(documents).where(documents.c.id == bindparam("document")), rows)
            before_images.save_absent(writing, _places(writing, live))
            word_index.learn_names(writing, live)


def _places(writing: Writing, which: ColumnElement[bool]) -> list[tuple[int, str]]:
    rows = writing.execute(select(documents.c.source_id, documents.c.path).where(which))
    return [(row.source_id, row.path) for row in rows]


def forget_items(writing: Writing, item_ids: Iterable[int]) -> None:
    """Delete items with all derived data except the history."""
    for part in in_parts(item_ids):
        of_items = documents.c.item_id.in_(part)
        content_ids = writing.execute(select(documents.c.content_id).where(of_items).distinct()).scalars().all()
        old_jobs = select(jobs.c.id).where(jobs.c.item_id.in_(part))
        word_index.forget_names(writing, of_items)
        writing.execute(delete(documents).where(of_items))
        writing.execute(delete(quarantine).where(quarantine.c.job_id.in_(old_jobs)))
        writing.execute(delete(jobs).where(jobs.c.item_id.in_(part)))
        writing.execute(delete(moves).where(moves.c.item_id.in_(part)))
        writing.execute(delete(items).where(items.c.id.in_(part)))
        drop_unused(writing, content_ids)


def sizes_of_items(reading: Reading, item_ids: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the items with the size of their documents' text in characters."""
    size = func.coalesce(func.length(contents.c.text), 0)
    statement = (
        select(items.c.id, size)
        .outerjoin(documents, documents.c.item_id == items.c.id)
        .outerjoin(contents, contents.c.id == documents.c.content_id)
        .order_by(items.c.id)
    )
    for part in in_parts(item_ids):
        yield from ((number, size) for number, size in reading.execute(statement.where(items.c.id.in_(part))))


def forget_before_images(writing: Writing, which: ColumnElement[bool]) -> None:
    """Delete before-images and the contents that only they use."""
    drop_unused(writing, before_images.forget(writing, which))


def unused(reading: Reading) -> Sequence[int]:
    """Return the contents that no document or before-image uses. Scans all contents."""
    return reading.execute(select(contents.c.id).where(~_is_used())).scalars().all()


def _is_used() -> ColumnElement[bool]:
    return exists(select(documents.c.id).where(documents.c.content_id == contents.c.id)) | before_images.uses(
        contents.c.id
    )


def drop_unused(writing: Writing, content_ids: Iterable[int]) -> None:
    """Delete those contents that no document or before-image uses, with their chunks and index entries."""
    for part in in_parts(content_ids):
        unused_ids = select(contents.c.id).where(contents.c.id.in_(part), ~_is_used())
        unused_contents = writing.execute(unused_ids).scalars().all()
        if not unused_contents:
            continue
        word_index.forget_chunks(writing, unused_contents)
        conversation_index.forget(writing, unused_contents)
        embeddings.forget(writing, unused_contents)
        for table in (chunks, links, entities):
            writing.execute(delete(table).where(table.c.content_id.in_(unused_contents)))
        gone = contents.c.id.in_(unused_contents)
        hashes = writing.execute(delete(contents).where(gone).returning(contents.c.hash)).scalars().all()
        page_texts.forget(writing, hashes)
