"""Documents and extractions as JSON bytes, for the cache and between processes. The same value gives the same bytes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import orjson

from catchment.model import Chunk, Document, Entity, EntityKind, Extraction, Link, LinkKind

_LINK_KINDS = {kind.value: kind for kind in LinkKind}
_ENTITY_KINDS = {kind.value: kind for kind in EntityKind}


def encode(value: Document | Extraction) -> bytes:
    """The value as JSON with sorted keys."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)


def decode_document(data: bytes) -> Document:
    """The document that was encoded."""
    fields: dict[str, Any] = orjson.loads(data)
    for name in ("created", "modified"):
        fields[name] = moment(fields[name])
    fields["warnings"] = tuple(fields["warnings"])
    return Document(**fields)


def decode_extraction(data: bytes) -> Extraction:
    """The extraction that was encoded."""
    fields: dict[str, Any] = orjson.loads(data)
    return Extraction(
        tuple(Chunk(c["start"], c["end"], c["heading"]) for c in fields["chunks"]),
        tuple(
            Link(_LINK_KINDS[x["kind"]], x["target"], x["anchor"], x["label"], x["start"], x["end"])
            for x in fields["links"]
        ),
        tuple(
            Entity(_ENTITY_KINDS[e["kind"]], e["value"], e["detail"], e["start"], e["end"], e["confidence"])
            for e in fields["entities"]
        ),
    )


def moment(text: str | None) -> datetime | None:
    """An aware time from its ISO form."""
    return None if text is None else datetime.fromisoformat(text)
