"""Read Markdown notes: separate the properties and determine title, author, language and times. Text is unchanged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from heapq import merge
from typing import Any

from catchment.content.normalize import frontmatter
from catchment.content.normalize.decode import decode
from catchment.content.normalize.language_detection import language
from catchment.model import Document, time_of

_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]++([^\n]++)", re.MULTILINE)
_UNDERLINED = re.compile(r"\n[ \t]*\n {0,3}(?![-*+>|#=]|\d{1,9}[.)][ \t])([^\s][^\n]*+)\n(?:==++|--++)[ \t]*(?=\n|\Z)")
_CLOSING = re.compile(r"(?:\A|[ \t])#+\Z")
_LINKED = re.compile(r"!?\[\[(?:[^\[\]|\n]*\|)?([^\[\]|\n]*)\]\]|!?\[([^\[\]\n]*)\]\([^()\n]*\)")
_CREATED = ("created", "date", "date created", "created_at", "creation date")
_MODIFIED = ("modified", "updated", "date modified", "updated_at", "last modified", "lastmod")
_AUTHOR = ("author", "authors", "creator")
_LANGUAGE = ("lang", "language")
_CODE_FENCE = re.compile(r"^ {0,3}(`{3,}+|~{3,}+)[^\n]*+\n.*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"^ {0,3}<!--", re.MULTILINE)


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
            fields, flaws = frontmatter.properties(head[0])
            warnings = (*warnings, *flaws)
            if fields or "#" not in head[0]:  # else a heading between two rules, which YAML reads as a comment
                body = text[head[1] :]
        except frontmatter.PropertiesError as error:
            warnings = (*warnings, str(error))
    return Document(
        text=body,
        media_type=media_type,
        title=_title(fields, body),
        language=_first_value(fields, _LANGUAGE) or language(body),
        author=_unlinked(_first_value(fields, _AUTHOR) or "") or None,
        created=_moment(fields, _CREATED),
        modified=_moment(fields, _MODIFIED),
        properties=fields,
        warnings=warnings,
    )


def _title(fields: Mapping[str, Any], body: str) -> str | None:
    if title := _unlinked(_first_value(fields, ("title",)) or ""):
        return title
    if "```" in body or "~~~" in body:
        body = _CODE_FENCE.sub("", body)
    if "<!--" in body:
        body = _uncommented(body)
    for _, words in merge(_marked(body), _underlined(body)):
        heading = words.strip()
        if title := _unlinked(_CLOSING.sub("", heading) if heading.endswith("#") else heading):
            return title
    return None


def _uncommented(body: str) -> str:
    """Remove comments that start at the beginning of a line. Linear even if none of them ends."""
    parts, done = [], 0
    while (opening := _COMMENT.search(body, done)) and (end := body.find("-->", opening.end())) >= 0:
        parts.append(body[done : opening.start()])
        done = end + 3
    return "".join((*parts, body[done:]))


def _marked(body: str) -> Iterator[tuple[int, str]]:
    """Yield offset and text of each heading with `#`."""
    if "#" in body:
        for match in _HEADING.finditer(body):
            yield match.start(), match[1]


def _underlined(body: str) -> Iterator[tuple[int, str]]:
    """Yield offset and text of each heading underlined with `===` or `---`."""
    if "\n==" in body or "\n--" in body:
        for match in _UNDERLINED.finditer("\n\n" + body):
            yield match.start(1) - 2, match[1]


def _unlinked(text: str) -> str:
    """Replace links by their labels, including linked images."""
    for _ in range(2):
        text = _LINKED.sub(lambda link: link[1] or link[2] or "", text)
    return text.strip()


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
