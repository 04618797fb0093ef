"""Short functions to extract from text and to select results."""

from __future__ import annotations

from catchment.content.extract import extract
from catchment.content.normalize import normalize
from catchment.model import Document, Entity, EntityKind, Extraction, Link, RawContent


def of(text: str, media_type: str = "text/markdown") -> Extraction:
    return extract(Document(text=text, media_type=media_type))


def of_note(text: str) -> Extraction:
    return extract(normalize(RawContent(text.encode(), "note.md")))


def links(text: str) -> list[tuple[str, str, str, str]]:
    return [(link.kind.value, link.target, link.anchor, link.label) for link in of(text).links]


def values(text: str, kind: EntityKind) -> list[str]:
    return [entity.value for entity in of(text).entities if entity.kind is kind]


def details(text: str, kind: EntityKind) -> list[tuple[str, str]]:
    return [(entity.value, entity.detail) for entity in of(text).entities if entity.kind is kind]


def spans(text: str, found: tuple[Link, ...] | tuple[Entity, ...]) -> list[str]:
    return [text[each.start : each.end] for each in found]
