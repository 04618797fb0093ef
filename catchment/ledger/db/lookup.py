"""Lookup of sources and items by name, of the open sync that a transaction writes for, and of a part of a long list by key.

An item can be named by its locator, the end of its locator, or its file name without the suffix. Unicode normalization is
ignored: some disks store "é" as one code point, others as two, with no visible difference.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, and_, bindparam, or_, select, true

from catchment.errors import BadInput, NotFound, StaleLease, did_you_mean
from catchment.ledger.db.database import AnyRow, Reading, Writing, among
from catchment.ledger.db.row_records import record
from catchment.ledger.db.schema import items, sources, syncs
from catchment.model import PARTS, Item
from catchment.records.standing import ListPage

R = TypeVar("R")

_NON_ASCII = re.compile(r"[^\x00-\x7f]+")
_open_sync = (
    select(syncs.c.source_id, syncs.c.owner, syncs.c.began_at, syncs.c.backfill_id, sources.c.priority)
    .join(sources, sources.c.id == syncs.c.source_id)
    .where(syncs.c.id == bindparam("sync"), syncs.c.outcome.is_(None))
)


def nfc(text: str) -> str:
    """Return the text in Unicode normal form C."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


class NameMatch(NamedTuple):
    """Quality of a match between a locator and a name; smaller is better."""

    rank: int
    differs_in_form: bool
    differs_in_case: bool

    @property
    def is_whole(self) -> bool:
        """True if the name is the whole locator."""
        return self.rank == 0


def match_name(locator: str, asked_name: str) -> NameMatch | None:
    """Return how well the name matches the locator, or None if it does not.

    It may be the whole locator, its end, or its file name without the suffix. Case and Unicode normalization only rank.
    """
    text, name = nfc(locator), nfc(asked_name)
    folded, folded_name = text.casefold(), name.casefold()
    if folded == folded_name:
        rank = 0
    elif folded.endswith(f"/{folded_name}"):
        rank = 1
    elif f"/{folded_name}." in f"/{folded}":
        rank = 2
    else:
        return None
    return NameMatch(rank, asked_name not in locator, name not in text)


def carriers(reading: Reading, rows: Sequence[AnyRow]) -> dict[str, tuple[int, Item]]:
    """Return the items that these rows of one source are parts of, by container, each with its ID."""
    locators = {row.container.removesuffix(PARTS) for row in rows if row.container.endswith(PARTS)}
    if not locators:
        return {}
    of_source = (items.c.source_id == rows[0].source_id) & (items.c.state != "deleted")
    outer = reading.execute(select(items).where(of_source, among(reading, items.c.locator, locators)))
    return {row.locator + PARTS: (row.id, record(Item, row)) for row in outer}


def name_condition(reading: Reading, locator: ColumnElement[str], name: str) -> ColumnElement[bool]:
    """Return a condition for candidates: true for every match, and few other locators."""
    pattern = _like_pattern(name)
    like = _like(reading, locator)
    return like(f"%{pattern}%") & or_(like(pattern), like(f"%/{pattern}"), like(f"{pattern}.%"), like(f"%/{pattern}.%"))


def similar_condition(reading: Reading, locator: ColumnElement[str], stem: str) -> ColumnElement[bool]:
    """Return a condition for candidates: the file names that begin or end, before the suffix, with the same two letters."""
    like = _like(reading, locator)
    first, last = _like_pattern(stem[:2]), _like_pattern(stem[-2:])
    return or_(like(f"{first}%"), like(f"%/{first}%"), like(f"%{last}.%"))


def text_condition(reading: Reading, column: ColumnElement[str], name: str) -> ColumnElement[bool]:
    """Return a condition that is true for every text equal to `name` up to case and normalization, and few others."""
    return _like(reading, column)(_like_pattern(name))


def prefix_condition(reading: Reading, column: ColumnElement[str], start: str) -> ColumnElement[bool]:
    """Return a condition that is true for every text that begins with `start` up to case and normalization, and few others."""
    return _like(reading, column)(f"{_like_pattern(start)}%")


def _like(reading: Reading, column: ColumnElement[str]) -> Callable[[str], ColumnElement[bool]]:
    """Return a LIKE operator that ignores ASCII case on both databases."""
    compare = column.like if reading.sqlite else column.ilike
    return lambda pattern: compare(pattern, escape="\\")


def _like_pattern(name: str) -> str:
    """Return a LIKE pattern with wildcards for all non-ASCII characters."""
    return _NON_ASCII.sub("%", like_literal(nfc(name)))


def like_literal(text: str) -> str:
    """Return the LIKE pattern that matches exactly this text, with the escape character `\\`."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def find_source(reading: Reading, name: str, *, also_removed: bool = False) -> AnyRow:
    """Return the row of a source, unless it was removed. Raises NotFound."""
    row = reading.execute(
        select(sources).where(sources.c.name == name, (sources.c.state != "removed") | also_removed)
    ).first()
    if row is not None:
        return row
    names = reading.execute(select(sources.c.name).where(sources.c.state != "removed")).scalars().all()
    raise NotFound(f"{name!r}: no such source; {did_you_mean(name, names, 'see `catchment sources list`', 3)}")


def source_of(reading: Reading, key: str) -> int | None:
    """Return the source that the key of a limit names (`source:NAME`); None for other keys and unknown sources."""
    kind, _, name = key.partition(":")
    named = select(sources.c.id).where(sources.c.name == name)
    return reading.execute(named).scalar() if kind == "source" else None


def find_open_sync(writing: Writing, sync_id: int) -> AnyRow:
    """Return `source_id`, `owner`, `began_at`, `backfill_id` and `priority` of an open sync. Raises StaleLease if it is closed.

    Every transaction that writes for a sync calls this first, because another process may have closed the sync at any time.
    """
    row = writing.execute(_open_sync, {"sync": sync_id}).first()
    if row is None:
        raise StaleLease(f"Sync {sync_id} is not open; nothing was changed")
    return row


def cut(
    rows: Sequence[Any], limit: int, total: int, read: Callable[[Any], R], key: Callable[[Any], str]
) -> ListPage[R]:
    """Return the first `limit` of the rows as a page; a further row means that another page exists."""
    shown = rows[:limit]
    return ListPage(tuple(map(read, shown)), total, key(shown[-1]) if len(rows) > limit else None)


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
