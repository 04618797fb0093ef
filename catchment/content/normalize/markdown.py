"""Read Markdown notes: separate the properties and determine title, author, language and times. Text is unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from catchment.content.normalize import frontmatter
from catchment.content.normalize.decode import decode
from catchment.content.normalize.language_detection import declared_language, language
from catchment.content.normalize.titles import headings, title_of, unlinked
from catchment.model import Document, time_of

_CREATED = ("created", "date", "date created", "created_at", "creation date")
_MODIFIED = ("modified", "updated", "date modified", "updated_at", "last modified", "lastmod")
_TITLE = ("title",)
_AUTHOR = ("author", "authors", "creator")
_LANGUAGE = ("lang", "language")


def markdown(data: bytes, encoding: str | None = None) -> Document:
    """Read a note into a document. `encoding` applies to notes that are not UTF-8."""
    text, warnings, properties = decode(data, encoding)
    document = note(text, "text/markdown", warnings)
    if properties:
        document = replace(document, properties=dict(sorted({**properties, **document.properties}.items())))
    return document


def note(text: str, media_type: str, warnings: tuple[str, ...] = ()) -> Document:
    """Return a document from Markdown text. Properties that are not valid stay in the text, with a warning."""
    fields: Mapping[str, Any] = {}
    body = text
    if head := frontmatter.split(text):
        try:
            read = frontmatter.toml_properties if text.startswith("+++") else frontmatter.properties
            fields, flaws = read(head[0])
            warnings = (*warnings, *flaws)
            if fields or "#" not in head[0]:  # else a heading between two rules, which YAML reads as a comment
                body = text[head[1] :]
        except frontmatter.PropertiesError as error:
            warnings = (*warnings, str(error))
    return Document(
        text=body,
        media_type=media_type,
        title=unlinked(_first_value(fields, _TITLE) or "") or title_of(headings(body)),
        language=declared_language(_first_value(fields, _LANGUAGE)) or language(body),
        author=unlinked(_first_value(fields, _AUTHOR) or "") or None,
        created=_moment(fields, _CREATED),
        modified=_moment(fields, _MODIFIED),
        properties=fields,
        warnings=warnings,
    )


def _first_value(fields: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    """Return the first non-empty value of these properties on one line."""
    for key in keys:
        value = fields.get(key)
        members = value if isinstance(value, list) else [value]
        words = ", ".join(str(each).strip() for each in members if isinstance(each, str | int) and each is not True)
        if words := " ".join(words.split()):
            return words
    return None


def _moment(fields: Mapping[str, Any], keys: tuple[str, ...]) -> datetime | None:
    """Return the first of these properties that is an ISO 8601 date or time, in UTC."""
    for key in keys:
        value = fields.get(key)
        if isinstance(value, str) and (moment := time_of(value.strip())):
            return moment
    return None
