"""The actions of people in the history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from catchment.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Act:
    """One event of the history. `source`: the name of its source, also if it was removed since; None if it concerns none."""

    number: int
    at: datetime
    actor: str
    event: str
    source: str | None
    item: int | None
    reason: str | None


def acts(
    ledger: Ledger,
    source: str | None = None,
    actor: str | None = None,
    since: datetime | None = None,
    limit: int = 200,
) -> list[Act]:
    """Return the latest actions of people, newest first.

    `actor`: instead, the actions of all actors with names that begin with this text. Raises NotFound for an unknown source.
    """
    with ledger.trail() as trail:
        source_id = None if source is None else trail.source_id(source)
        names = trail.sources()
    return [
        Act(row.id, row.at, row.actor, row.event, names.get(row.source_id or 0, (None,))[0], row.item_id, row.reason)
        for row in reversed(ledger.history.trail(limit, source_id=source_id, since=since, actor=actor))
    ]
