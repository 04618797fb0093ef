"""The text on pictures of pages, by the hash of the content: which pages wait for recognition, and what was recognized."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from sqlalchemy import delete, exists, select, update

from catchment.ledger.db.database import AnyRow, Reading, Writing, among
from catchment.ledger.db.row_records import record
from catchment.ledger.db.schema import contents
from catchment.ledger.db.schema import page_texts as table
from catchment.model import WITH_RECOGNIZED, PageText, PlacedWord
from catchment.records.rows import Delivered


def add(writing: Writing, outcomes: Collection[Delivered]) -> None:
    """Let the pages wait whose text a document lacks, also if it is known: its document was made without it."""
    stored_already = {
        each.content_hash for each in outcomes if each.document is None and WITH_RECOGNIZED not in each.normalizer
    }
    read = ((outcome.content_hash, outcome.document.pictures) for outcome in outcomes if outcome.document)
    pages = {(digest, page) for digest, pictures in read for page in pictures}
    hashes = stored_already | {digest for digest, _ in pages}
    if not hashes:
        return
    of_contents = among(writing, table.c.content_hash, hashes)
    again = update(table).where(of_contents).values(waits=True, problem=None)
    stored = set(writing.execute(again.returning(table.c.content_hash, table.c.page)).tuples())
    rows = [{"content_hash": digest, "page": page, "waits": True} for digest, page in sorted(pages - stored)]
    writing.insert_named(table, rows)


def forget(writing: Writing, hashes: Collection[str]) -> None:
    """Delete the pages of these contents, except of those that another document still has."""
    owned = exists(select(contents.c.id).where(contents.c.hash == table.c.content_hash))
    writing.execute(delete(table).where(among(writing, table.c.content_hash, hashes), ~owned))


def await_again(writing: Writing, content_ids: Collection[int]) -> None:
    """Let all pages of these contents wait again. Their documents keep the former text meanwhile."""
    hashes = select(contents.c.hash).where(among(writing, contents.c.id, content_ids))
    writing.execute(
        update(table).where(table.c.content_hash.in_(hashes)).values(waits=True, picture=None, problem=None)
    )


def is_awaited(reading: Reading, content_hash: str) -> bool:
    """Return whether a page of a content waits for recognition."""
    return (
        reading.execute(select(table.c.page).where(table.c.content_hash == content_hash, table.c.waits)).first()
        is not None
    )


def page_text(row: AnyRow) -> PageText:
    """Return the text of a row."""
    return record(PageText, row, words=tuple(PlacedWord._make(word) for word in json.loads(row.words or "[]")))


def values(read: PageText) -> dict[str, Any]:
    """Return the columns of a recognized page."""
    return asdict(read) | {"words": json.dumps(read.words, ensure_ascii=False) if read.words else None}
