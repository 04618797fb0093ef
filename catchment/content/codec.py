"""Documents and extractions as JSON bytes, for the cache and between processes. The same value gives the same bytes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import orjson

from catchment.model import Chunk, Document, Entity, EntityKind, Extraction, Link, LinkKind

_LINK_KINDS = {kind.value: kind for kind in LinkKind}
_ENTITY_KINDS = {kind.value: kind for kind in EntityKind}


def encode_document(document: Document) -> bytes:
    """The document as JSON with sorted keys."""
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)


def decode_document(data: bytes) -> Document:
    """The document that was encoded."""
    fields: dict[str, Any] = orjson.loads(data)
    for name in ("created", "modified"):
        fields[name] = moment(fields[name])
    fields["warnings"] = tuple(fields["warnings"])
    return Document(**fields)


def encode_extraction(extraction: Extraction) -> bytes:
    """The extraction as JSON arrays."""
    return orjson.dumps(
        [
            [list(chunk) for chunk in extraction.chunks],
            [list(link) for link in extraction.links],
            [list(entity) for entity in extraction.entities],
        ]
    )


def decode_extraction(data: bytes) -> Extraction:
    """The extraction that was encoded."""
    chunks, links, entities = orjson.loads(data)
    for link in links:
        link[0] = _LINK_KINDS[link[0]]
    for entity in entities:
        entity[0] = _ENTITY_KINDS[entity[0]]
    return Extraction(
        tuple(map(Chunk._make, chunks)), tuple(map(Link._make, links)), tuple(map(Entity._make, entities))
    )


def moment(text: str | None) -> datetime | None:
    """An aware time from its ISO form."""
    return None if text is None else datetime.fromisoformat(text)
