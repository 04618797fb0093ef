"""Long lists in parts. A part begins after a key: the position of the last row of the part before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import ColumnElement, and_, or_, true

from catchment.errors import BadInput

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ListPage(Generic[R]):
    """A part of a list. `total`: length of the whole list. `next`: key of the next part; None if this is the last one."""

    rows: tuple[R, ...]
    total: int
    next: str | None


def cut(
    found: Sequence[Any], limit: int, total: int, read: Callable[[Any], R], key: Callable[[Any], str]
) -> ListPage[R]:
    """Return the first `limit` of the rows as a page; a further row means that another page exists."""
    shown = found[:limit]
    return ListPage(tuple(map(read, shown)), total, key(shown[-1]) if len(found) > limit else None)


def before(key: str | None, *columns: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that a row follows the key in the descending order of these numbers. Raises BadInput."""
    if key is None:
        return true()
    try:
        values = [int(part) for part in key.split(".")]
    except ValueError:
        values = []
    if len(values) != len(columns) or any(abs(value) >= 1 << 63 for value in values):
        raise BadInput("after: not a key of this list; use `next` of the previous page")
    conditions = []
    for place, column in enumerate(columns):
        equal = [columns[earlier] == values[earlier] for earlier in range(place)]
        conditions.append(and_(*equal, column < values[place]))
    return or_(*conditions)


def key_of(*values: int) -> str:
    """Return the key of a row in the order of these numbers."""
    return ".".join(map(str, values))
