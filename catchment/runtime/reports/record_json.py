"""Records as JSON: of a view for `--json` and `/api/v1`, and of a report in the home's `run` folder.

A record is a frozen dataclass of plain values, times, paths, enumerations, and dataclasses, tuples, sets and mappings of these.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum, StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")

_hints = cache(get_type_hints)


def to_json(record: object, *, indent: int | None = None, only_ascii: bool = True) -> str:
    """Return a record, or a sequence of records, as JSON: its fields by name, times in ISO 8601 and UTC."""
    return json.dumps(record, indent=indent, ensure_ascii=only_ascii, default=_plain)


def from_json(kind: type[T], value: Any) -> T:
    """Return a record of this type, or a list of records, from parsed JSON.

    Raises KeyError, TypeError, ValueError or AttributeError for any other value.
    """
    record: T = _read(kind, value)
    return record


def _read(kind: Any, value: Any) -> Any:
    arguments, origin = get_args(kind), get_origin(kind)
    if is_dataclass(origin or kind):
        hints = _hints(origin or kind)
        kinds = {
            name: hints[name][arguments] if getattr(hints[name], "__parameters__", ()) else hints[name]
            for name in value
        }
        return (origin or kind)(**{name: _read(kinds[name], item) for name, item in value.items()})
    if origin is tuple and arguments[-1] is not Ellipsis:
        return tuple(_read(each, item) for each, item in zip(arguments, value, strict=True))
    if origin in (tuple, list):
        return origin(_read(arguments[0], item) for item in value)
    if origin is Mapping:
        return {_read(arguments[0], name): _read(arguments[1], item) for name, item in value.items()}
    if kind is Any or origin is Literal:
        return value
    if arguments:
        # A value, or None.
        return None if value is None else _read(arguments[0], value)
    if kind is datetime:
        return datetime.fromisoformat(value)
    if issubclass(kind, StrEnum):
        return kind(value)
    if not isinstance(value, (int, float) if kind is float else kind):
        raise TypeError(value)
    return value


def _plain(value: object) -> object:
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(type(value).__name__)
