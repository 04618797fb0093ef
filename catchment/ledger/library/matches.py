"""The data of hits: for ranked contents, their documents, the matching passages and the definitions around them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from sqlalchemy import func, select

from catchment.ledger.db.database import AnyRow, Reading, among, from_json, maybe_time
from catchment.ledger.db.folding import plain_words
from catchment.ledger.db.schema import chunks, contents, documents, entities, items, sources
from catchment.ledger.library import conversation_index, query_sql, word_index, word_parts
from catchment.ledger.library.mail_relations import carriers, shown_title
from catchment.ledger.library.query import Filter, Query
from catchment.model import GUESSED, EntityKind, recognized
from catchment.records.rows import Copy, Ranked

_OPENING = 400


@dataclass(frozen=True, slots=True)
class Match:
    """A ranked content with live documents.

    Attributes:
        copies: Its documents and those of its copies, oldest first.
        eligible: Those of them that pass the filters of the query; all if none does.
        passage: The best chunk, or the beginning of the text if only a name matched.
        parts: Where identifiers in the passage have a part that is a term of the query.
        symbols: The definitions in program code, with their positions relative to the passage, in order.
        is_recognized: Whether the passage was recognized on a picture.
    """

    ranked: Ranked
    copies: Sequence[Copy]
    eligible: Sequence[Copy]
    passage: str
    parts: Sequence[tuple[int, int]]
    symbols: Sequence[tuple[int, str]]
    is_recognized: bool


def matches(reading: Reading, ranked: Sequence[Ranked], query: Query) -> list[Match]:
    """Return the data of hits for ranked contents, in their order.

    Omits contents without a live document, and copies of a message after the first.
    """
    places = places_of(reading, [hit.content_id for hit in ranked])
    passing = query_sql.passing(reading, query, [place.document for copies in places.values() for place in copies])
    passages = _passages(reading, [hit.chunk_id for hit in ranked if hit.chunk_id is not None])
    openings = _openings(reading, [hit.content_id for hit in ranked if hit.chunk_id is None])
    symbols = _symbols(reading, {row.content_id for row in passages.values()})
    terms = [term for term in query.shown if not term.is_quoted]
    parts = {term.words for term in terms if not term.prefix}, tuple(term.words for term in terms if term.prefix)
    result, shown = [], set[int]()
    for hit in ranked:
        if not (copies := places.get(hit.content_id)) or copies[0].document in shown:
            continue
        shown.add(copies[0].document)
        chunk = passages.get(hit.chunk_id) if hit.chunk_id is not None else None
        opening, is_recognized = openings.get(hit.content_id, ("", False))
        passage, start = (opening, 0) if chunk is None else (chunk.text, chunk.start)
        eligible = [place for place in copies if place.document in passing] or copies
        result.append(
            Match(
                hit,
                copies,
                eligible,
                passage,
                list(word_parts.part_spans(passage, *parts)),
                [(row.start - start, row.value) for row in symbols.get(hit.content_id, ())],
                is_recognized if chunk is None else chunk.heading == GUESSED,
            )
        )
    return result


@dataclass(frozen=True, slots=True)
class Task:
    """A task of a document. `status`: the character in its box. `copies`: as of a match; `shown` is one of them."""

    text: str
    status: str
    shown: Copy
    copies: Sequence[Copy]


def tasks(reading: Reading, filters: Sequence[Filter]) -> list[Task]:
    """Return the tasks in the documents that pass these filters, in the order of the text."""
    rows = query_sql.task_lines(reading, filters)
    places = places_of(reading, {row.content_id for row in rows})
    return [
        Task(row.value, row.detail, copy, copies)
        for row in rows
        for copies in [places.get(row.content_id, [])]
        for copy in copies
        if copy.document == row.document
    ]


def words(reading: Reading, ranked: Sequence[Ranked]) -> dict[int, tuple[str, str]]:
    """Return the folded words of each ranked content, between spaces: of its names and heading, and of its best chunk.

    The parts of identifiers have no place in the chunk, so they are with the names.
    """
    texts: defaultdict[int, list[str]] = defaultdict(list)
    live = documents.c.removed_at.is_(None), documents.c.content_id.in_([hit.content_id for hit in ranked])
    names = select(documents.c.content_id, *(documents.c[name] for name in word_index.NAMES[1:])).where(*live)
    for content, *values in reading.execute(names):
        texts[content] += values
    passages: defaultdict[int, str] = defaultdict(str)
    for row in _passages(reading, [hit.chunk_id for hit in ranked if hit.chunk_id is not None]).values():
        texts[row.content_id] += (row.heading,)
        passages[row.content_id] = row.text
    result = {}
    for content, values in texts.items():
        around, passage = "\n".join(values), passages[content]
        parts = word_parts.parts(f"{around}\n{passage}")
        result[content] = f" {plain_words(around)} {parts} ", f" {plain_words(passage)} "
    return result


def _passages(reading: Reading, chunk_ids: Collection[int]) -> dict[int, AnyRow]:
    piece = func.substr(contents.c.text, chunks.c.start + 1, chunks.c.stop - chunks.c.start)
    columns = chunks.c.id, chunks.c.content_id, chunks.c.start, chunks.c.heading, piece.label("text")
    statement = select(*columns).join(contents, contents.c.id == chunks.c.content_id).where(chunks.c.id.in_(chunk_ids))
    return {row.id: row for row in reading.execute(statement)}


def _openings(reading: Reading, content_ids: Collection[int]) -> dict[int, tuple[str, bool]]:
    """Return the beginning of each text, and whether there is recognized text in it."""
    opening = func.substr(contents.c.text, 1, _OPENING)
    statement = select(contents.c.id, opening, contents.c.media_type, contents.c.properties)
    rows = reading.execute(statement.where(contents.c.id.in_(content_ids)))
    return {number: (text, bool(recognized(kind, from_json(own)))) for number, text, kind, own in rows}


def _symbols(reading: Reading, content_ids: Collection[int]) -> dict[int, list[AnyRow]]:
    """Return the definitions in program code, by content, in the order of the text."""
    columns = entities.c.content_id, entities.c.value, entities.c.start
    is_symbol = entities.c.kind == EntityKind.SYMBOL.value, among(reading, entities.c.content_id, content_ids)
    symbols: dict[int, list[AnyRow]] = {}
    for row in reading.execute(select(*columns).where(*is_symbol).order_by(entities.c.content_id, entities.c.start)):
        symbols.setdefault(row.content_id, []).append(row)
    return symbols


def places_of(reading: Reading, content_ids: Collection[int]) -> dict[int, list[Copy]]:
    """Return the live documents of contents and of their copies, by content, oldest first."""
    same = conversation_index.copies(reading, content_ids)
    statement = (
        select(
            documents.c.content_id,
            documents.c.id,
            documents.c.title,
            sources.c.id,
            sources.c.name,
            items.c.locator,
            contents.c.media_type,
            contents.c.author,
            documents.c.moment,
            documents.c.metadata,
            items.c.attributes,
        )
        .join_from(documents, items, items.c.id == documents.c.item_id)
        .join(sources, sources.c.id == documents.c.source_id)
        .join(contents, contents.c.id == documents.c.content_id)
        .where(documents.c.content_id.in_({*content_ids, *chain(*same.values())}), documents.c.removed_at.is_(None))
        .order_by(documents.c.id)
    )
    alone: defaultdict[int, list[Copy]] = defaultdict(list)
    rows = reading.execute(statement).all()
    messages = carriers(reading, [(row[3], row.locator) for row in rows])
    for content, number, title, source_id, source, item, kind, author, moment, metadata, attributes in rows:
        own, carrier = from_json(metadata), messages.get((source_id, item), (None, None))
        facts = author_of(author, own), maybe_time(moment), own, from_json(attributes), *carrier
        alone[content].append(Copy(number, shown_title(title, item), source, item, kind, *facts))
    together = {
        number: chain.from_iterable(alone[each] for each in same.get(number, [number])) for number in content_ids
    }
    return {number: sorted(copies, key=lambda copy: copy.document) for number, copies in together.items()}


def author_of(author: str | None, metadata: Mapping[str, Any]) -> str | None:
    """Return the author of a document by that of its content: of an attachment, the sender of its message."""
    return metadata.get("from") or author
