"""Contents: parsed text with chunks, links and entities, stored once for equal bytes."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import func, select

from catchment.ledger.db.database import Writing, among, maybe_micros, to_json
from catchment.ledger.db.schema import chunks, contents, documents, entities, links
from catchment.ledger.library import before_images, conversation_index, page_texts, word_index
from catchment.model import Document, Entity, EntityKind, Extraction, Link
from catchment.records.rows import Delivered

_MOST_PROPERTIES = 50_000
"""Maximum indexed characters of properties and of aliases. PostgreSQL cannot index very long texts."""
_LONGEST_NAME = 255


class Content(NamedTuple):
    """A content in the library, with the aliases and properties indexed for its documents."""

    id: int
    is_new: bool
    aliases: str
    properties: str


Key = tuple[str, str]
"""Hash and normalizer of a content."""


def put_contents(writing: Writing, outcomes: Iterable[Delivered]) -> dict[Key, Content]:
    """Return the contents of these outcomes. Adds new contents of outcomes with a document."""
    delivered: dict[Key, Delivered] = {}
    for outcome in outcomes:
        key = outcome.content_hash, outcome.normalizer
        if key not in delivered or delivered[key].document is None:
            delivered[key] = outcome
    page_texts.add(writing, delivered.values())
    stored = _kept(writing, delivered)
    new = {key: outcome for key, outcome in delivered.items() if key not in stored and outcome.document is not None}
    if new:
        numbers = writing.ids("contents", len(new))
        _add(writing, list(zip(numbers, new.values(), strict=True)))
        for number, (key, outcome) in zip(numbers, new.items(), strict=True):
            stored[key] = Content(number, True, *_names(outcome))
    return stored


def _kept(writing: Writing, keys: Iterable[Key]) -> dict[Key, Content]:
    """Return the existing contents. A present or earlier document of each provides its aliases and properties."""
    holders = documents.alias()
    first = select(func.min(holders.c.id)).where(holders.c.content_id == contents.c.id).scalar_subquery()
    statement = select(
        contents.c.hash, contents.c.normalizer, contents.c.id, documents.c.aliases, documents.c.properties
    ).join_from(contents, documents, documents.c.id == first, isouter=True)
    stored: dict[Key, Content] = {}
    without_document: dict[int, Key] = {}
    with_hash = among(writing, contents.c.hash, {digest for digest, _ in keys})
    for digest, normalizer, number, aliases, properties in writing.execute(statement.where(with_hash)):
        if aliases is None:
            without_document[number] = digest, normalizer
        else:
            stored[digest, normalizer] = Content(number, False, aliases, properties)
    for number, names in before_images.names(writing, without_document).items():
        stored[without_document[number]] = Content(number, False, *names)
    return stored


def _names(outcome: Delivered) -> tuple[str, str]:
    """Return the aliases and all other texts in the properties, one per line. Of a note, also the numbers."""
    named, document = outcome.extraction.entities if outcome.extraction else (), outcome.document
    aliases = [entity.value for entity in named if entity.kind is EntityKind.ALIAS]
    is_note = document is not None and document.media_type == "text/markdown"
    texts = dict.fromkeys(_texts(document.properties if document else {}, has_numbers=is_note))
    others = "\n".join(text for text in texts if text not in aliases)
    return "\n".join(aliases)[:_MOST_PROPERTIES], storable_text(others[:_MOST_PROPERTIES])


def _texts(value: Any, *, has_numbers: bool) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif has_numbers and isinstance(value, int | float) and not isinstance(value, bool):
        # As money is written too: 749.90 was read as 749.9.
        yield str(value) if value != round(value, 1) else f"{value}\n{value:.2f}"
    elif isinstance(value, (dict, Mapping)):
        for inner in value.values():
            yield from _texts(inner, has_numbers=has_numbers)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _texts(inner, has_numbers=has_numbers)


def _add(writing: Writing, new: Sequence[tuple[int, Delivered]]) -> None:
    rows, extractions, mails_added = [], [], []
    for number, outcome in new:
        if (document := outcome.document) is None:
            continue
        mails_added.append((number, document))
        rows.append(
            (
                number,
                outcome.content_hash,
                outcome.normalizer,
                document.text,
                document.media_type,
                document.title,
                document.language,
                document.author,
                maybe_micros(document.created),
                maybe_micros(document.modified),
                to_json(document.properties),
                to_json(document.warnings),
            )
        )
        if outcome.extraction is not None:
            extractions.append((number, document.text, outcome.extraction))
    writing.insert(contents, rows)
    conversation_index.add(writing, mails_added)
    _add_chunks(writing, extractions)
    _add_links(writing, extractions)
    _add_entities(writing, extractions)


_Extractions = Sequence[tuple[int, str, Extraction]]
"""Content ID, text and extraction."""


def _add_chunks(writing: Writing, extractions: _Extractions) -> None:
    parts = [(number, text, chunk) for number, text, extraction in extractions for chunk in extraction.chunks]
    if not parts:
        return
    numbers = writing.ids("chunks", len(parts))
    rows, words = [], []
    for chunk_id, (number, text, (start, end, heading)) in zip(numbers, parts, strict=True):
        rows.append((chunk_id, number, start, end, heading))
        words.append((chunk_id, heading, text[start:end]))
    writing.insert(chunks, rows)
    word_index.add_chunks(writing, words)


def _add_links(writing: Writing, extractions: _Extractions) -> None:
    rows = [
        (number, position, str(kind), target, anchor, label, start, end, file_name(target))
        for number, _, extraction in extractions
        for position, (kind, target, anchor, label, start, end) in enumerate(extraction.links)
    ]
    writing.insert(links, rows)


def _add_entities(writing: Writing, extractions: _Extractions) -> None:
    rows = [
        (number, position, str(kind), value, detail, start, end, confidence)
        for number, _, extraction in extractions
        for position, (kind, value, detail, start, end, confidence) in enumerate(extraction.entities)
    ]
    writing.insert(entities, rows)


def file_name(locator: str) -> str:
    """Return the file name of a path or link target: lower case, without `.md`, in Unicode normal form C.

    Truncated to the maximum length of a file name, because PostgreSQL cannot index long values such as an embedded image.
    """
    name = locator.rstrip("/").rpartition("/")[2][:_LONGEST_NAME].lower().removesuffix(".md")
    return name if name.isascii() else unicodedata.normalize("NFC", name.replace("\xa0", " "))


# Storable text


def storable(outcome: Delivered) -> Delivered:
    """Replace characters that the databases cannot store (NUL, lone surrogates). Lengths are unchanged."""
    # The text is checked separately: joined with the others, one emoji would make a page of 4 million characters 15 MB.
    if _can_be_kept(outcome.document.text if outcome.document else "") and _can_be_kept("".join(_strings(outcome))):
        return outcome
    return replace(
        outcome,
        title=storable_text(outcome.title),
        document=outcome.document and _storable_document(outcome.document),
        extraction=outcome.extraction and _storable_extraction(outcome.extraction),
    )


_LINK_TEXTS = itemgetter(*(Link._fields.index(name) for name in ("target", "anchor", "label")))
_ENTITY_TEXTS = itemgetter(*(Entity._fields.index(name) for name in ("value", "detail")))


def _strings(outcome: Delivered) -> Iterator[str]:
    """Return all texts except the document's own and those stored as JSON."""
    document, extraction = outcome.document or Document("", ""), outcome.extraction or Extraction(())
    return chain(
        (outcome.title, document.title or "", document.author or ""),
        [chunk.heading for chunk in extraction.chunks],
        chain.from_iterable(map(_LINK_TEXTS, extraction.links)),
        chain.from_iterable(map(_ENTITY_TEXTS, extraction.entities)),
    )


def _can_be_kept(text: str) -> bool:
    if "\x00" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def storable_text(text: str) -> str:
    """Return a text as the databases can store and compare it."""
    if _can_be_kept(text):
        return text
    return text.replace("\x00", "\ufffd").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _storable_document(document: Document) -> Document:
    title, author = document.title, document.author
    return replace(
        document,
        text=storable_text(document.text),
        title=title and storable_text(title),
        author=author and storable_text(author),
    )


def _storable_extraction(extraction: Extraction) -> Extraction:
    return Extraction(
        tuple(chunk._replace(heading=storable_text(chunk.heading)) for chunk in extraction.chunks),
        tuple(
            link._replace(
                target=storable_text(link.target), anchor=storable_text(link.anchor), label=storable_text(link.label)
            )
            for link in extraction.links
        ),
        tuple(e._replace(value=storable_text(e.value), detail=storable_text(e.detail)) for e in extraction.entities),
    )
