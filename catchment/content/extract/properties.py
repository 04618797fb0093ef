"""Read links, tags, aliases, people and dates from the properties of a document. Their offsets in the text are 0."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from catchment.content.extract import plain
from catchment.content.extract.notes import wikilink
from catchment.model import Entity, EntityKind, Link, LinkKind

_WIKILINK = re.compile(r"\[\[([^\[\]\n]++)\]\]")
TAGS = frozenset({"tags", "tag"})
ALIASES = frozenset({"aliases", "alias"})
_PEOPLE = frozenset(
    {"author", "authors", "people", "person", "attendees", "participants", "creator", "from", "to", "cc"}
)
_IDENTIFIERS = frozenset({"message-id", "in-reply-to", "references", "list-id"})
_TAG_BREAK = re.compile(r"[,\s]+")
_MAILBOX = re.compile(r"<[^<>]*>|\([^()]*\)|\"")
_MAX_DEPTH = 8


def links(properties: Mapping[str, Any]) -> Iterator[Link]:
    """Yield the wikilinks and URLs in the values."""
    text = "\n".join(_texts(properties))
    for match in _WIKILINK.finditer(text) if "[[" in text else ():
        if link := wikilink(LinkKind.FRONTMATTER, match[1]):
            yield link
    for url in plain.urls(text):
        yield Link(LinkKind.URL, url.target)


def entities(properties: Mapping[str, Any]) -> Iterator[Entity]:
    """Yield tags, aliases, people, e-mail addresses and dates, without duplicates within a property."""
    for key, value in properties.items():
        name = key.lower()
        if name in TAGS:
            yield from (Entity(EntityKind.TAG, tag) for tag in _tags(value))
        elif name in ALIASES:
            yield from (Entity(EntityKind.ALIAS, alias) for alias in _members(value))
        elif name in _PEOPLE:
            yield from (Entity(EntityKind.PERSON, person) for person in _people(value))
    text = "\n".join(_texts({key: value for key, value in properties.items() if key.lower() not in _IDENTIFIERS}))
    for kind, value in dict.fromkeys(
        (entity.kind, entity.value) for entity in (*plain.emails(text), *plain.dates(text))
    ):
        yield Entity(kind, value)


def _tags(value: Any) -> list[str]:
    """Return tags from a list or from a string separated by commas or white space, without `#`."""
    words = value if isinstance(value, list) else _TAG_BREAK.split(value) if isinstance(value, str) else [value]
    tags = (str(word).strip().lstrip("#").rstrip("/").lower() for word in words if isinstance(word, str | int))
    return list(dict.fromkeys(tag for tag in tags if tag and not tag.isdecimal()))


def _members(value: Any) -> list[str]:
    members = value if isinstance(value, list) else value.split(",") if isinstance(value, str) else [value]
    names = (str(member).strip() for member in members if isinstance(member, str | int | float) and member is not True)
    return list(dict.fromkeys(name for name in names if name))


def _people(value: Any) -> list[str]:
    """Return names only: `Ada L.` for `"Ada L." <ada@example.org>` and for `[[Ada L.]]`."""
    names = []
    for member in _members(value):
        linked = _WIKILINK.search(member)
        name = linked[1].partition("|")[0].rpartition("/")[2] if linked else _MAILBOX.sub("", member)
        if (name := name.strip()) and "@" not in name:
            names.append(name)
    return list(dict.fromkeys(names))


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth < _MAX_DEPTH:
        members = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
        for member in members:
            yield from _texts(member, depth + 1)
