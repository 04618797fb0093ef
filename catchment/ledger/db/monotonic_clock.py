"""The ledger's monotonic clock for waits and rates, in microseconds. Independent of changes to the wall clock.

Within one boot, it follows the system's monotonic clock. Across boots, the wall clock determines how long the machine was down,
but the clock always advances at least by the time since boot. Values resemble microseconds since 1970 but deviate by all
corrections of the wall clock.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import case, delete, func, insert, literal_column, select, update

from catchment.ledger.db.database import Reading, Writing, from_micros
from catchment.ledger.db.job_states import ORDINARY, PENDING, RETRYING, states
from catchment.ledger.db.schema import (
    BEING_DELETED,
    DELETED,
    RUNNING,
    before_images,
    buckets,
    chain,
    history,
    items,
    jobs,
    timeline,
    turns,
)
from catchment.pacing.boot_clock import ClockReading, boot_clock

_SECOND = 1_000_000
_CORRECTED = _SECOND
"""Deviation in microseconds from which the wall clock counts as changed."""


_row = select(timeline.c.boot, timeline.c.ahead, timeline.c.wall_ahead)


class MonotonicClock:
    """The clock of one ledger. Stateless, because a transaction that writes the row may be rolled back."""

    def __init__(self, clock: Callable[[], ClockReading] | None = None) -> None:
        self._clock = clock

    def now(self, reading: Reading) -> int:
        """Return the current time. In a write transaction, also shifts the times that depend on a changed wall clock."""
        clock = self._read(reading)
        row = reading.execute(_row).first()
        if row is None or row.boot != clock.boot:
            return _begin(reading, None if row is None else row.wall_ahead, clock)
        ticks = clock.micros + int(row.ahead)
        back = ticks - reading.now - int(row.wall_ahead)
        if isinstance(reading, Writing) and abs(back) > _CORRECTED:
            _follow(reading, back, ticks - reading.now)
        return ticks

    def _read(self, reading: Reading) -> ClockReading:
        """Return the reading of this machine on SQLite, and of the server on PostgreSQL, which is the same for all hosts."""
        if self._clock is not None:
            return self._clock()
        if reading.sqlite:
            return boot_clock()
        return ClockReading(f"server {reading.started}", reading.now - reading.started)

    def moment(self, ticks: int | None, reading: Reading) -> datetime | None:
        """Return a time of this clock by the wall clock; None for None."""
        return None if ticks is None else from_micros(reading.now + ticks - self.now(reading))


def _begin(reading: Reading, wall_ahead: int | None, clock: ClockReading) -> int:
    """Return the time at the first call after a boot. `wall_ahead` is the offset of the previous boot, or None."""
    ticks, written = reading.now, _last_written(reading)
    if wall_ahead is not None:
        last = max(reading.execute(select(func.max(buckets.c.at))).scalar() or 0, written + wall_ahead)
        ticks = reading.now + wall_ahead
        if ticks < last:
            ticks = last + clock.micros
    if isinstance(reading, Writing):
        reading.execute(delete(timeline))
        row = {"boot": clock.boot, "ahead": ticks - clock.micros, "wall_ahead": ticks - reading.now}
        reading.execute(insert(timeline).values(id=1, **row))
        # The last write appears to be in the future if the clock was set back while the machine was down.
        if written - reading.now > _CORRECTED:
            _wait_no_longer(reading, written - reading.now)
    return ticks


def _follow(writing: Writing, back: int, wall_ahead: int) -> None:
    """Record that the wall clock was set back by `back` (negative: forward), and shift the times that depend on it."""
    if back > 0:
        _wait_no_longer(writing, back)
    else:
        _keep_as_long(writing, -back)
    # This also gives the history a newest row with the current time.
    way = "back" if back > 0 else "forward"
    writing.record("clock set", actor="ledger", reason=f"{way} by {abs(back) // _SECOND} s")
    writing.execute(update(timeline).values(wall_ahead=wall_ahead))


def _wait_no_longer(writing: Writing, back: int) -> None:
    """Shift queue times back by the given amount, so that a clock set back does not prolong waits."""
    later, held, turn = jobs.c.not_before, jobs.c.lease_until, turns.c.counts_until
    waiting = states({PENDING, RETRYING}) & (later > writing.now)
    # A job that a backfill keeps for itself has no time at which it is due.
    due = case((ORDINARY, jobs.c.due - back), else_=jobs.c.due)
    writing.execute(update(jobs).where(waiting).values(not_before=later - back, due=due))
    too_long = literal_column(RUNNING) & (held > writing.now + back)
    writing.execute(update(jobs).where(too_long).values(lease_until=held - back))
    writing.execute(update(turns).where(turn > writing.now + back).values(counts_until=turn - back))


def _keep_as_long(writing: Writing, forward: int) -> None:
    """Shift deletion times forward by the given amount, so that a clock set forward does not shorten retention."""
    writing.execute(update(items).where(literal_column(DELETED)).values(gone_at=items.c.gone_at + forward))
    is_kept = before_images.c.kept_at != BEING_DELETED
    writing.execute(update(before_images).where(is_kept).values(kept_at=before_images.c.kept_at + forward))


def _last_written(reading: Reading) -> int:
    """Return the time of the newest history row."""
    return reading.execute(select(history.c.at).join(chain, history.c.id == chain.c.length)).scalar() or 0
