"""Guarantees for the result of any parser on bad input."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from catchment.content.codec import decode_document, decode_extraction, encode_document, encode_extraction
from catchment.content.extract import extract
from catchment.content.normalize import normalize
from catchment.content.secret_masking import masked
from catchment.errors import ItemError
from catchment.model import Document, Extraction, LinkKind, RawContent
from console import render

_OBEYED = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Refusal:
    """The refusal of an item, with its message."""

    kind: str
    words: str


def twice(function: Callable[[], T]) -> T | None:
    """Call a function twice and return its result, which must be repeatable; None if it refuses the item both times."""
    first, second = _outcome(function), _outcome(function)
    assert first == second, "it depends on more than its input"
    return None if isinstance(first, _Refusal) else first


def read(data: bytes, name: str, address: str = "") -> Document | None:
    """Return the checked document of a file; None if the file is refused."""
    document = twice(lambda: normalize(RawContent(data, name, address=address)))
    if document is not None:
        sound(document)
    return document


def sound(document: Document) -> Extraction:
    """Check that a document can be stored, masked, split and shown, and that its offsets are correct."""
    text = document.text
    assert decode_document(encode_document(document)) == document
    assert "\x00" not in text
    for moment in (document.created, document.modified):
        assert moment is None or moment.tzinfo is UTC
    assert masked(masked(document)).text == masked(document).text
    extraction = extract(document)
    assert extraction == extract(document)
    assert decode_extraction(encode_extraction(extraction)) == extraction
    _cover(text, extraction)
    for link in extraction.links:
        assert 0 <= link.start <= link.end <= len(text)
        if link.start != link.end and link.kind in (LinkKind.WIKILINK, LinkKind.EMBED, LinkKind.CANVAS):
            assert text[link.start : link.end].startswith(("[[", "![[", "!["))
    for entity in extraction.entities:
        assert 0 <= entity.start <= entity.end <= len(text)
        assert 0 <= entity.confidence <= 1
    shown(document.title or "")
    shown(text[:2_000])
    return extraction


def shown(text: str) -> None:
    """Check that the printed form of a text has no terminal control characters."""
    assert not _OBEYED.search(render.clean(text))
    assert not _OBEYED.search(render.clean_block(text).replace("\n", ""))


def storable(value: Any) -> None:
    """Check that any database can store every text in a value, and that every time is in UTC."""
    if isinstance(value, str):
        value.encode()
        assert "\x00" not in value, "no database keeps NUL"
    elif isinstance(value, datetime):
        assert value.tzinfo is not None
        value.astimezone(UTC)
    elif isinstance(value, dict):
        for key, inner in value.items():
            storable(key)
            storable(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            storable(inner)


def _outcome(function: Callable[[], T]) -> T | _Refusal:
    try:
        return function()
    except ItemError as error:
        return _Refusal(type(error).__name__, str(error))


def _cover(text: str, extraction: Extraction) -> None:
    """Check that the chunks are in order, none is blank, and together they cover all text except white space."""
    place = 0
    for chunk in extraction.chunks:
        assert 0 <= chunk.start < chunk.end <= len(text)
        assert not text[chunk.start : chunk.end].isspace()
        assert chunk.start <= place or not text[place : chunk.start].strip()
        place = max(place, chunk.end)
    assert not text[place:].strip()
