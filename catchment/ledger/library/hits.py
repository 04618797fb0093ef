"""Presentation of search results: the document to show for a content, and the excerpt with marked matches."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import func, select

from catchment.ledger.db.database import AnyRow, Reading, among, as_map, from_json, maybe_time
from catchment.ledger.db.records import Ranked
from catchment.ledger.db.schema import chunks, contents, documents, entities, items, sources
from catchment.ledger.library import word_index
from catchment.ledger.library.query import Query, fold, plain_words
from catchment.ledger.library.word_parts import part_spans
from catchment.model import EntityKind
from catchment.search.results import Hit

_BEGIN, _END = "\ue000", "\ue001"
"""Temporary marks of matches, so that the brackets of a snippet are not mistaken for those of a link."""
_WIKILINK = re.compile(r"!?\[\[(?:[^\[\]|]*\|)?([^\[\]]*)\]\]")
_AROUND = 90
_OPENING = 400


def present(reading: Reading, ranked: Sequence[Ranked], query: Query) -> list[Hit]:
    """Return the hits for ranked contents. Of several copies, one that passes the filters and resembles the query is shown.

    Omits contents without a live document.
    """
    places = places_of(reading, [one.content_id for one in ranked])
    passing = word_index.passing(reading, query, [place.id for copies in places.values() for place in copies])
    passages = _passages(reading, [one.chunk_id for one in ranked if one.chunk_id is not None])
    openings = _openings(reading, [one.content_id for one in ranked if one.chunk_id is None])
    symbols = _symbols(reading, {row.content_id for row in passages.values()})
    hits = []
    for one in ranked:
        copies = places.get(one.content_id)
        if copies is None:
            continue
        eligible = [place for place in copies if place.id in passing] or copies
        shown = eligible[0]
        if len(eligible) > 1:
            shown = max(eligible, key=lambda place: likeness(f"{place.title} {place.locator}", query))
        chunk = passages.get(one.chunk_id) if one.chunk_id is not None else None
        passage = openings.get(one.content_id, "") if chunk is None else chunk.text
        symbol = None
        if chunk is not None and one.content_id in symbols:
            symbol = _symbol_at(symbols[one.content_id], chunk.start, passage, query)
        metadata, attributes = from_json(shown.metadata) or {}, from_json(shown.attributes) or {}
        hits.append(
            Hit(
                document=shown.id,
                title=shown.title,
                source=shown.source,
                item=shown.locator,
                snippet=snippet(passage, query),
                score=one.score,
                places=tuple((place.source, place.locator) for place in copies),
                thread=one.thread,
                alike=one.alike,
                media_type=shown.media_type,
                author=shown.author,
                moment=maybe_time(shown.moment),
                url=_text(metadata, "url"),
                number=number if isinstance(number := metadata.get("number"), int) else None,
                state=_text(attributes, "state"),
                symbol=symbol,
                lexical_rank=one.lexical_rank,
                lexical_score=one.lexical_score,
                semantic_rank=one.semantic_rank,
                cosine=one.cosine,
            )
        )
    return hits


def _text(values: Mapping[str, Any], key: str) -> str | None:
    value = values.get(key)
    return value if isinstance(value, str) and value else None


def likeness(text: str, query: Query) -> int:
    """Return the number of query terms in the text."""
    folded = fold(unicodedata.normalize("NFC", text))
    return sum(re.search(term.pattern(), folded) is not None for term in query.shown)


def snippet(text: str, query: Query) -> str:
    """Return one line of text around the first match, with matches in [brackets]."""
    matches = _matches(text, query)
    first, end = matches[0] if matches else (0, _AROUND)
    start = max(0, first - _AROUND)
    stop = min(len(text), end + _AROUND)
    if start and (space := text.find(" ", start, start + 20)) >= 0:
        start = space + 1
    if stop < len(text) and (space := text.rfind(" ", stop - 20, stop)) > start:
        stop = space
    pieces, done = [], start
    for begin, end in matches:
        if start <= begin and end <= stop:
            pieces += [text[done:begin], _BEGIN, text[begin:end], _END]
            done = end
    line = _WIKILINK.sub(r"\1", "".join([*pieces, text[done:stop]]).replace("\\|", "|"))
    line = " ".join(line.replace(_BEGIN, "[").replace(_END, "]").split())
    return f"{'… ' if start else ''}{line}{' …' if stop < len(text) else ''}"


def _matches(text: str, query: Query) -> list[tuple[int, int]]:
    """Return where the terms of the query match, in order and without overlaps: whole words and parts of identifiers."""
    terms = query.shown
    if not terms:
        return []
    pattern = re.compile("|".join(term.pattern() for term in terms))
    spans = [match.span() for match in pattern.finditer(fold(text))]
    parts = [(plain_words(term.text), term.prefix) for term in terms if not term.is_quoted]
    spans += part_spans(
        text, {part for part, prefix in parts if not prefix}, tuple(part for part, prefix in parts if prefix)
    )
    matches: list[tuple[int, int]] = []
    for begin, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if begin < end and (not matches or begin >= matches[-1][1]):
            matches.append((begin, end))
    return matches


def _passages(reading: Reading, chunk_ids: Collection[int]) -> dict[int, AnyRow]:
    piece = func.substr(contents.c.text, chunks.c.start + 1, chunks.c.stop - chunks.c.start)
    columns = chunks.c.id, chunks.c.content_id, chunks.c.start, piece.label("text")
    statement = select(*columns).join(contents, contents.c.id == chunks.c.content_id).where(chunks.c.id.in_(chunk_ids))
    return {row.id: row for row in reading.execute(statement)}


def _openings(reading: Reading, content_ids: Collection[int]) -> dict[int, str]:
    statement = select(contents.c.id, func.substr(contents.c.text, 1, _OPENING)).where(contents.c.id.in_(content_ids))
    return as_map(reading.execute(statement))


def _symbols(reading: Reading, content_ids: Collection[int]) -> dict[int, list[AnyRow]]:
    """Return the definitions in program code, by content, in the order of the text."""
    columns = entities.c.content_id, entities.c.value, entities.c.start
    is_symbol = entities.c.kind == EntityKind.SYMBOL.value, among(reading, entities.c.content_id, content_ids)
    found: dict[int, list[AnyRow]] = {}
    for row in reading.execute(select(*columns).where(*is_symbol).order_by(entities.c.content_id, entities.c.start)):
        found.setdefault(row.content_id, []).append(row)
    return found


def _symbol_at(symbols: Sequence[AnyRow], start: int, passage: str, query: Query) -> str | None:
    """Return the definition around the first match of a passage that begins at `start`."""
    matches = _matches(passage, query)
    position = start + (matches[0][1] if matches else len(passage))
    before = [symbol.value for symbol in symbols if symbol.start < position]
    return before[-1] if before else None


def places_of(reading: Reading, content_ids: Collection[int]) -> dict[int, list[AnyRow]]:
    """Return the live documents of contents, by content, oldest first."""
    statement = (
        select(
            documents.c.id,
            documents.c.content_id,
            documents.c.source_id,
            documents.c.title,
            documents.c.metadata,
            sources.c.name.label("source"),
            items.c.locator,
            items.c.attributes,
            contents.c.media_type,
            contents.c.author,
            documents.c.moment,
        )
        .join_from(documents, items, items.c.id == documents.c.item_id)
        .join(sources, sources.c.id == documents.c.source_id)
        .join(contents, contents.c.id == documents.c.content_id)
        .where(documents.c.content_id.in_(content_ids), documents.c.removed_at.is_(None))
        .order_by(documents.c.id)
    )
    found: dict[int, list[AnyRow]] = {}
    for row in reading.execute(statement):
        found.setdefault(row.content_id, []).append(row)
    return found
