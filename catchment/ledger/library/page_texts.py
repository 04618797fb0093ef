"""The text on pictures of pages, by the hash of the content: which pages wait for recognition, and what was recognized."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import delete, exists, select, update

from catchment.ledger.db.database import AnyRow, Reading, Writing, among
from catchment.ledger.db.schema import contents
from catchment.ledger.db.schema import page_texts as table
from catchment.model import PageText, PlacedWord
from catchment.records.rows import Delivered


def add(writing: Writing, outcomes: Iterable[Delivered]) -> None:
    """Let the pages wait whose text a document lacks, also if it is known: its document was made without it."""
    pages = {
        (outcome.content_hash, page)
        for outcome in outcomes
        if outcome.document is not None
        for page in outcome.document.pictures
    }
    if not pages:
        return
    with_hash = among(writing, table.c.content_hash, {digest for digest, _ in pages})
    stored = set(writing.execute(select(table.c.content_hash, table.c.page).where(with_hash)).tuples())
    writing.execute(update(table).where(with_hash).values(waits=True))
    rows = [{"content_hash": digest, "page": page, "waits": True} for digest, page in sorted(pages - stored)]
    writing.insert_named(table, rows)


def forget(writing: Writing, hashes: Collection[str]) -> None:
    """Delete the pages of these contents, except of those that another document still has."""
    owned = exists(select(contents.c.id).where(contents.c.hash == table.c.content_hash))
    writing.execute(delete(table).where(among(writing, table.c.content_hash, hashes), ~owned))


def await_again(writing: Writing, content_ids: Collection[int]) -> None:
    """Let all pages of these contents wait again. Their documents keep the former text meanwhile."""
    hashes = select(contents.c.hash).where(among(writing, contents.c.id, content_ids))
    again = update(table).where(table.c.content_hash.in_(hashes)).values(waits=True, picture=None)
    writing.execute(again)


def texts(reading: Reading, hashes: Collection[str]) -> dict[str, dict[int, PageText]]:
    """Return what was recognized, by hash of the content and number of the page."""
    read: dict[str, dict[int, PageText]] = {}
    if hashes:
        with_text = among(reading, table.c.content_hash, hashes) & table.c.text.is_not(None)
        for row in reading.execute(select(table).where(with_text)):
            read.setdefault(row.content_hash, {})[row.page] = page_text(row)
    return read


def page_text(row: AnyRow) -> PageText:
    """Return the text of a row."""
    words = tuple(PlacedWord._make(word) for word in json.loads(row.words or "[]"))
    return PageText(row.text, row.confidence, row.turn, words, row.problem)


def values(read: PageText) -> dict[str, Any]:
    """Return the columns of a recognized page."""
    return {
        "text": read.text,
        "confidence": read.confidence,
        "turn": read.turn,
        "words": json.dumps(read.words, ensure_ascii=False) if read.words else None,
        "problem": read.problem,
    }
