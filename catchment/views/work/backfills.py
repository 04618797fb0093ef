"""Backfills: the list, and one backfill with its changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from catchment.content.parsing import CODE
from catchment.ledger import Backfill, Ledger, ListPage, TextChange


@dataclass(frozen=True, slots=True)
class BackfillList:
    """A part of the backfills, newest first, and the number of documents by source that newer code could read again."""

    page: ListPage[Backfill]
    outdated: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BackfillAndChanges:
    """A backfill, the number of texts that it changed, and those that it changed most."""

    backfill: Backfill
    changed: int
    largest: list[TextChange]


def backfills(ledger: Ledger, source: str | None, *, after: str | None = None) -> BackfillList:
    """Return a part of the backfills of a source or of all, newest first."""
    return BackfillList(ledger.backfills.page(source, after=after), ledger.backfills.outdated(CODE))


def backfill(ledger: Ledger, number: int) -> BackfillAndChanges:
    """Return a backfill with its changes. Raises NotFound."""
    return BackfillAndChanges(ledger.backfills.get(number), *ledger.backfills.changes(number))
