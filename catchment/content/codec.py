"""Encode documents and extractions as JSON bytes for the cache and for other processes. Equal values give equal bytes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import orjson

from catchment.model import Chunk, Document, Entity, EntityKind, Extraction, Link, LinkKind

_LINK_KINDS = {kind.value: kind for kind in LinkKind}
_ENTITY_KINDS = {kind.value: kind for kind in EntityKind}


def encode_document(document: Document) -> bytes:
    """Return the document as JSON with sorted keys."""
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)


def decode_document(data: bytes) -> Document:
    """Return the document that `encode_document` encoded."""
    fields: dict[str, Any] = orjson.loads(data)
    for name in ("created", "modified"):
        fields[name] = moment(fields[name])
    for name in ("warnings", "pictures"):
        fields[name] = tuple(fields[name])
    return Document(**fields)


def encode_extraction(extraction: Extraction) -> bytes:
    """Return the extraction as JSON arrays: chunks, links and entities."""
    return orjson.dumps((extraction.chunks, extraction.links, extraction.entities), default=tuple)


def decode_extraction(data: bytes) -> Extraction:
    """Return the extraction that `encode_extraction` encoded."""
    chunks, links, entities = orjson.loads(data)
    # A call of the kind itself takes twice as long, and a first sync has hundreds of thousands.
    for link in links:
        link[0] = _LINK_KINDS[link[0]]
    for entity in entities:
        entity[0] = _ENTITY_KINDS[entity[0]]
    return Extraction(
        tuple(map(Chunk._make, chunks)), tuple(map(Link._make, links)), tuple(map(Entity._make, entities))
    )


def moment(text: str | None) -> datetime | None:
    """Return an aware time from its ISO 8601 form."""
    return None if text is None else datetime.fromisoformat(text)
