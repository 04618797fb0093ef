"""The order of the queue: which jobs are ready, and which of them are first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, false, func, literal_column, select, true, union_all

from catchment.ledger.db import lookup, schema
from catchment.ledger.db.database import Reading
from catchment.ledger.db.row_records import record
from catchment.ledger.db.schema import FRESH, TRIED, items, jobs
from catchment.model import Item
from catchment.records.rows import ClaimedJob

AGEING = {"high": 0, "normal": 600_000_000, "low": 3_600_000_000}
"""Delay of a priority's due time relative to high priority, in microseconds. Waiting compensates for it."""

_jobs = jobs.c


def ready_in(
    which: str, source_id: int, now: int, only: Sequence[int] | None, backfill: int | None = None
) -> Select[Any]:
    """Return the query for the ready jobs of a source, new or failed ones (`which`), optionally among `only`.

    `backfill`: only jobs of this backfill; without it, all jobs that are not reserved for a backfill.
    """
    statement = select(_jobs.id, _jobs.due, _jobs.item_id).where(
        _jobs.source_id == source_id,
        literal_column(which),
        _jobs.not_before <= now,
        _jobs.due <= now + max(AGEING.values()) if backfill is None else _jobs.backfill_id == backfill,
    )
    return statement if only is None else statement.where(_jobs.id.in_(only))


def first_ready(
    reading: Reading,
    source_id: int,
    limit: int,
    fresh: bool | None,
    only: Sequence[int] | None,
    attempts: int | None,
    most_bytes: int | None,
    backfill: int | None = None,
) -> ColumnElement[bool]:
    """Return the condition that a job is among the first ready ones. New and failed jobs have separate indexes."""
    if only is not None and not only:
        return false()
    kinds = {True: (FRESH,), False: (TRIED,), None: (FRESH, TRIED)}[fresh]
    untired = true() if attempts is None else _jobs.attempt < attempts
    parts = [
        ready_in(which, source_id, reading.now, only, backfill)
        .where(untired)
        .order_by(_jobs.due, _jobs.id)
        .limit(limit)
        .subquery()
        for which in kinds
    ]
    first = parts[0]
    if len(parts) > 1:
        both = union_all(*map(select, parts)).subquery()
        first = select(both).order_by(both.c.due, both.c.id).limit(limit).subquery()
    if most_bytes is None:
        return _jobs.id.in_(select(first.c.id))
    size = func.coalesce(items.c.size, 0)
    before = func.sum(size).over(order_by=(first.c.due, first.c.id), rows=(None, 0)) - size
    sized = select(first.c.id, before.label("before")).join(items, items.c.id == first.c.item_id).subquery()
    return _jobs.id.in_(select(sized.c.id).where(sized.c.before < most_bytes))


def claimed(reading: Reading, token: int) -> list[ClaimedJob]:
    """Return the running jobs of a token with their items, in the order of the queue."""
    facts = (items.c.locator, items.c.container, items.c.identity, items.c.size, items.c.modified, items.c.attributes)
    statement = (
        select(_jobs.id, _jobs.source_id, _jobs.item_id, _jobs.attempt, _jobs.version, items.c.content_hash, *facts)
        .join(items, items.c.id == _jobs.item_id)
        .where(_jobs.token == token, literal_column(schema.RUNNING))
        .order_by(_jobs.due, _jobs.id)
    )
    rows = reading.execute(statement).all()
    carriers = lookup.carriers(reading, rows)
    return [record(ClaimedJob, row, item=record(Item, row), carrier=carriers.get(row.container)) for row in rows]
