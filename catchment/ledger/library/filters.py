"""Search filters as SQL conditions. Filters never raise: an unknown value matches nothing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from catchment.ledger.db.database import Reading
from catchment.ledger.db.lookup import like_literal


class FilterName(StrEnum):
    """Property compared by a filter."""

    SOURCE = "source"
    KIND = "kind"
    TYPE = "type"
    TAG = "tag"
    TITLE = "title"
    PATH = "path"
    IN = "in"
    FROM = "from"
    TO = "to"
    LANG = "lang"
    HAS = "has"
    DATE = "date"


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition, met if one of `values` matches, or if none does with `is_negated`.

    For `date`, the values are the start (inclusive) and the end (exclusive) in microseconds since 1970. For `type`, they are
    LIKE patterns of media types; for `has`, keys of `HAS`. Other values are compared as text without regard to case.
    """

    name: FilterName
    values: tuple[Any, ...]
    is_negated: bool = False


HAS = {
    "attachment": "EXISTS (SELECT 1 FROM contents WHERE contents.id = documents.content_id"
    " AND contents.properties LIKE '%\"attachment%')",
    "link": "EXISTS (SELECT 1 FROM links WHERE links.content_id = documents.content_id)",
    "tag": "EXISTS (SELECT 1 FROM entities WHERE entities.content_id = documents.content_id AND entities.kind = 'tag')",
    "task": "EXISTS (SELECT 1 FROM entities WHERE entities.content_id = documents.content_id AND entities.kind = 'task')",
    "code": "EXISTS (SELECT 1 FROM entities WHERE entities.content_id = documents.content_id"
    " AND entities.kind IN ('symbol', 'code'))",
}
"""The conditions for `has:` by name."""


def condition(reading: Reading, key: str, wanted: Filter, parameters: dict[str, Any]) -> str:
    """Return the condition that a row of `documents` passes the filter. Adds its values to `parameters`, prefixed by `key`."""
    if wanted.name is FilterName.DATE:
        first, end = wanted.values
        parameters |= {f"{key}_0": first, f"{key}_1": end - 1}
        met = f"documents.moment BETWEEN :{key}_0 AND :{key}_1"
    elif wanted.name is FilterName.HAS:
        met = " OR ".join(HAS[value] for value in wanted.values) or "FALSE"
    else:
        met = " OR ".join(
            _one(reading, wanted.name, f"{key}_{n}", value, parameters) for n, value in enumerate(wanted.values)
        )
    return f"NOT coalesce(({met}), FALSE)" if wanted.is_negated else f"({met})"


def _one(reading: Reading, name: FilterName, key: str, value: str, parameters: dict[str, Any]) -> str:
    like = "LIKE" if reading.sqlite else "ILIKE"
    literal = like_literal(value)
    of_source = "documents.source_id IN (SELECT id FROM sources WHERE {})"
    of_item = "documents.item_id IN (SELECT id FROM items WHERE {})"
    of_type = "documents.content_id IN (SELECT id FROM contents WHERE {})"
    # The people are at the end of long rows, so only those of documents that pass all else are read.
    of_content = "EXISTS (SELECT 1 FROM contents WHERE contents.id = documents.content_id AND {})"

    def fits(column: str, pattern: str = f":{key}") -> str:
        return f"{column} {like} {pattern} ESCAPE '\\'"

    parameters[key] = f"%{literal}%"
    match name:
        case FilterName.TITLE:
            return fits("documents.title")
        case FilterName.PATH:
            return of_item.format(fits("items.locator"))
        case FilterName.FROM:
            return of_content.format(f"({fits(_people(reading, 'from'))} OR {fits('contents.author')})")
        case FilterName.TO:
            people = (fits(_people(reading, field)) for field in ("to", "cc", "bcc"))
            return of_content.format(f"({' OR '.join(people)})")
    parameters[key] = value if name is FilterName.TYPE else literal
    match name:
        case FilterName.SOURCE:
            return of_source.format(fits("sources.name"))
        case FilterName.KIND:
            return of_source.format(fits("sources.kind"))
        case FilterName.TYPE:
            return of_type.format(fits("contents.media_type"))
        case FilterName.LANG:
            return of_type.format(fits("contents.language"))
        case FilterName.TAG:
            parameters[f"{key}b"] = f"{literal}/%"
            either = f"({fits('entities.value')} OR {fits('entities.value', f':{key}b')})"
            return f"documents.content_id IN (SELECT content_id FROM entities WHERE kind = 'tag' AND {either})"
        case _:
            parameters[f"{key}b"] = f"{literal}/%"
            return of_item.format(f"({fits('items.container')} OR {fits('items.container', f':{key}b')})")


def _people(reading: Reading, field: str) -> str:
    """Return the people in a field of a message, as text."""
    if reading.sqlite:
        return f"json_extract(contents.properties, '$.\"{field}\"')"
    return f"(contents.properties::jsonb ->> '{field}')"
