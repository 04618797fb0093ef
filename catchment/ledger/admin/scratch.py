"""Dry runs: a scratch ledger with the records of one source, and the effects of a listing on it.

A plan follows exactly the rules of a sync, without affecting the real ledger.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, bindparam, exists, select, update
from sqlalchemy.engine import URL

from catchment.ledger.admin import opening
from catchment.ledger.db.database import Reading, Store, Writing
from catchment.ledger.db.schema import counters, history, holds, items, jobs, marks, moves, sources
from catchment.ledger.jobs.history import moved_from

_ROWS_AT_ONCE = 5_000


class PlannedAction(StrEnum):
    """The action of a sync on an item."""

    ADD = "add"
    CHANGE = "change"
    MOVE = "move"
    RETURN = "return"
    RELABEL = "relabel"
    DELETE = "delete"
    HOLD = "hold"
    SKIP = "skip"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Step:
    """A planned action on one item.

    Attributes:
        reads: True if the content is read; `size` is its size in bytes, if known.
        was: Previous locator of a moved item.
        why: Reason for a skip, a failure or a hold; what is known of the files inside.
    """

    action: PlannedAction
    item: str
    container: str
    reads: bool = False
    size: int | None = None
    was: str | None = None
    why: str | None = None


def scratch(store: Store, source_id: int, file: Path) -> Store:
    """Create a ledger in `file` with the records of the source, without its documents and history."""
    made = Store(URL.create("sqlite", database=str(file)))
    opening.prepare(made)
    tables = (
        (sources, sources.c.id == source_id),
        (marks, marks.c.source_id == source_id),
        (items, items.c.source_id == source_id),
        (jobs, (jobs.c.source_id == source_id) & jobs.c.current),
        (holds, (holds.c.source_id == source_id) & holds.c.resolved_at.is_(None)),
    )
    with store.read() as reading, made.write() as writing:
        for table, which in tables:
            _copy(reading, writing, table, which)
        numbers = [row._asdict() for row in reading.execute(select(counters.c.name.label("which"), counters.c.value))]
        # Continue the real counters, so that new IDs do not collide with copied ones.
        writing.execute(update(counters).where(counters.c.name == bindparam("which")), numbers)
    return made


def _copy(reading: Reading, writing: Writing, table: Table, which: ColumnElement[bool]) -> None:
    rows = reading.execute(select(table).where(which).execution_options(yield_per=_ROWS_AT_ONCE))
    for part in rows.partitions():
        writing.insert(table, [tuple(row) for row in part])


def steps(store: Store, sync_id: int) -> list[Step]:
    """Return the action for each item affected by the listing in a scratch ledger, ordered by locator."""
    with store.read() as reading:
        events: dict[int, dict[str, str | None]] = {}
        for item_id, event, reason in reading.execute(_events()).all():
            events.setdefault(item_id, {})[event] = reason
        has_events = exists(select(history.c.id).where(history.c.item_id == items.c.id))
        touched = (items.c.sync_id == sync_id) | (items.c.state == "missing") | has_events
        columns = (items.c.id, items.c.locator, items.c.container, items.c.state, items.c.size)
        rows = reading.execute(select(*columns).where(touched).order_by(items.c.locator)).all()
        why = reading.execute(select(holds.c.reason).where(holds.c.resolved_at.is_(None))).scalar()
    return [_step(events.get(row.id, {}), row, why) for row in rows]


def _events() -> Select[Any]:
    statement = select(history.c.item_id, history.c.event, moved_from())
    return statement.outerjoin(moves, moves.c.history_id == history.c.id).order_by(history.c.id)


def _step(events: dict[str, str | None], row: Any, hold: str | None) -> Step:
    reads = "pending" in events
    known: dict[str, Any] = {"item": row.locator, "container": row.container, "reads": reads, "size": row.size}
    if row.state == "missing":
        return Step(PlannedAction.HOLD, why=hold, **known)
    if row.state == "deleted":
        return Step(PlannedAction.DELETE, **known)
    if "moved" in events:
        return Step(PlannedAction.MOVE, was=(events["moved"] or "").removeprefix("from "), **known)
    if "skipped" in events:
        return Step(PlannedAction.SKIP, why=events["skipped"], **known)
    for failed in ("quarantined", "retrying"):
        if failed in events:
            return Step(PlannedAction.FAIL, why=events[failed], **known)
    if "returned" in events:
        return Step(PlannedAction.RETURN, **known)
    if reads:
        return Step(PlannedAction.ADD if events["pending"] == "new" else PlannedAction.CHANGE, **known)
    return Step(PlannedAction.RELABEL, **known)
