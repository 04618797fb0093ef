"""The document of a record: which fields are its title, texts and dates is guessed by their names and values, or set."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
from pydantic import Field

from catchment.contracts import Parse
from catchment.model import RawContent, time_of
from catchment.settings import Strict

_TITLES = ("title", "name", "subject", "headline", "full_name", "display_name", "label", "filename", "summary", "key")
_TEXTS = (
    "body",
    "text",
    "content",
    "description",
    "message",
    "comment",
    "notes",
    "note",
    "html",
    "markdown",
    "summary",
)
_MODIFIED = ("updated_at", "modified_at", "last_modified", "modified", "updated", "last_edited_time", "edited_at")
_CREATED = ("created_at", "published_at", "date", "created", "published", "timestamp", "time", "sent_at")
_ADDRESSES = ("html_url", "web_url", "permalink", "url", "link", "href")
_LONG = 200
"""Characters from which a text of any field is part of the document."""
_LONGEST_TITLE = 300
_MOST_PROPERTIES = 48_000
"""Bytes of all properties. The others are in the text."""
_HTML = re.compile(r"<(?:p|div|br|span|ul|ol|table|h[1-6]|a\s|article|body|html)\b[^>]*>", re.IGNORECASE)
_LATEST_SECONDS = 1e11
"""Greater numbers are times in milliseconds."""


class StreamFields(Strict, title="Fields"):
    """The fields of a stream by their use. Without a setting they are guessed. A dot leads into a field: `user.login`."""

    key: tuple[str, ...] = Field((), title="Key", description="Fields that together identify a record")
    title: str | None = Field(None, title="Title", description="Field with the title")
    texts: tuple[str, ...] = Field((), title="Texts", description="Fields with the text, as Markdown or HTML")
    modified: str | None = Field(None, title="Modified", description="Field with the date")
    address: str | None = Field(None, title="Address", description="Field with the web address of the record")
    cursor: str | None = Field(
        None, title="Cursor", description="Field that grows with each change, if only new records shall be read by it"
    )
    leave_out: tuple[str, ...] = Field((), title="Leave out", description="Fields that are no part of the document")


def value_at(record: Mapping[str, Any], path: Sequence[str]) -> Any:
    """Return the value at a path of field names; None without one."""
    value: Any = record
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def content_of(record: Mapping[str, Any], stream: str, key: str, fields: StreamFields, parse: Parse) -> RawContent:
    """Return the document of a record as Markdown, with its other fields as properties. `parse` converts HTML."""
    rest = {
        name: value
        for name, value in record.items()
        if name not in fields.leave_out and value not in (None, "", [], {})
    }
    title = _first(rest, fields.title, _TITLES, lambda value: isinstance(value, str | int))
    # Also if its field is left out: then it alone makes no change.
    moment = _first(record, fields.modified, (*_MODIFIED, *_CREATED), time_in)
    address = _first(rest, fields.address, _ADDRESSES, _is_address)
    words = " ".join(str(value_at(rest, title.split("."))).split())[:_LONGEST_TITLE] if title else ""
    texts = {name: value for name in _text_names(rest, fields, title) if isinstance(value := _pop(rest, name), str)}
    used = {title, address} - {None}
    properties = {name: value for name, value in rest.items() if name not in used}
    head, further = _divided(properties)
    lines = ["---", *(f"{_json(name)}: {_json(value)}" for name, value in head.items()), "---", ""] if head else []
    for name, text in texts.items():
        if len(texts) > 1:
            lines += [f"## {name.replace('_', ' ').capitalize()}", ""]
        lines += [parse(_markdown, text) if _HTML.search(text) else text, ""]
    if not texts:
        # So that a search finds it by its words.
        lines += [f"- {name}: {_words(value)}" for name, value in head.items()]
    lines += _fenced(further)
    metadata = {"stream": stream, **({"url": value_at(rest, address.split("."))} if address else {})}
    modified = time_in(value_at(record, moment.split("."))) if moment else None
    # With NUL, a text is no text.
    text = "\n".join(lines).replace("\0", "\ufffd")
    return RawContent(text.encode(), f"{key}.md", words or f"{stream} {key}", modified=modified, metadata=metadata)


def time_in(value: Any) -> datetime | None:
    """Return the time that a field states: ISO 8601, or seconds or milliseconds since 1970."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, str):
        return time_of(value)
    return time_of(
        value / 1_000 if abs(value) > _LATEST_SECONDS else value, lambda number: datetime.fromtimestamp(number, UTC)
    )


def _first(record: Mapping[str, Any], name: str | None, guesses: Sequence[str], is_it: Any) -> str | None:
    names = [name] if name else _present(record, guesses)
    return next((name for name in names if (value := value_at(record, name.split("."))) and is_it(value)), None)


def _present(record: Mapping[str, Any], guesses: Sequence[str]) -> list[str]:
    """Return the fields that have one of these names, such as UPDATED_AT or updatedAt."""
    names = {name.lower().replace("_", ""): name for name in reversed([*record])}
    return [names[plain] for guess in guesses if (plain := guess.replace("_", "")) in names]


def _is_address(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(("https://", "http://"))


def _pop(record: dict[str, Any], name: str) -> Any:
    return record.pop(name) if name in record else value_at(record, name.split("."))


def _text_names(record: Mapping[str, Any], fields: StreamFields, title: str | None) -> Sequence[str]:
    if fields.texts:
        return fields.texts
    others = [name for name in record if name != title]
    named = _present(dict.fromkeys(others), _TEXTS)
    long = [name for name in others if isinstance(text := record[name], str) and (len(text) > _LONG or "\n" in text)]
    return [*named, *(name for name in long if name not in named and not _is_address(record[name]))]


def _divided(properties: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the properties for the head of the document, and those for which there is no room."""
    head, further, size = dict[str, Any](), dict[str, Any](), 0
    for name, value in properties.items():
        size += len(_json(value)) + len(name)
        (head if size < _MOST_PROPERTIES else further)[name] = value
    return head, further


def _fenced(values: Mapping[str, Any]) -> Iterator[str]:
    if values:
        yield from ("", "```json", orjson.dumps(values, option=orjson.OPT_INDENT_2).decode(), "```", "")


def _words(value: Any) -> str:
    return " ".join((value if isinstance(value, str) else _json(value)).split())


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _markdown(html: str) -> str:
    from catchment.content.normalize.html import fragment

    return fragment(html)
