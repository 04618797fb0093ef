"""The ledger's own time for waits and rates: microseconds that never go back, however the clock on the wall is set.

Within one boot it is a clock that nobody can set. From one boot to the next the wall's clock says how long the machine was
down, but never less than it has been up since: that much is certain. It looks like microseconds since 1970, and drifts
from them by as much as the wall's clock was corrected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy import delete, func, insert, literal_column, select, update

from catchment.ledger.db.database import Reading, Writing
from catchment.ledger.db.schema import (
    DELETED,
    RUNNING,
    buckets,
    chain,
    formers,
    history,
    items,
    jobs,
    timeline,
    turns,
)
from catchment.ledger.jobs.states import PENDING, RETRYING, states
from catchment.ledger.library.before_images import LET_GO
from catchment.pacing.steady import Steady, steady

_SECOND = 1_000_000
_CORRECTED = _SECOND
"""The wall's clock was set when it differs by so many microseconds from what it should show."""


class _Known(NamedTuple):
    boot: str
    ahead: int
    wall_ahead: int


class Timeline:
    """The time of one ledger, for all threads of a process."""

    def __init__(self, clock: Callable[[], Steady] = steady) -> None:
        self._clock = clock
        self._known: _Known | None = None

    def now(self, reading: Reading) -> int:
        """The moment. A writing transaction notes how far the wall's clock is off, and what follows when that was set."""
        said = self._clock()
        known = self._known
        if known is None or known.boot != said.boot:
            known = self._find(reading, said)
        ticks = said.micros + known.ahead
        if isinstance(reading, Writing) and abs(ticks - reading.now - known.wall_ahead) > _CORRECTED:
            self._known = _follow(reading, known, ticks - reading.now)
        return ticks

    def wall(self, ticks: int, reading: Reading) -> int:
        """What the clock on the wall will show then, in microseconds since 1970."""
        return reading.now + ticks - self.now(reading)

    def _find(self, reading: Reading, said: Steady) -> _Known:
        row = reading.execute(select(timeline.c.boot, timeline.c.ahead, timeline.c.wall_ahead)).first()
        if row is not None and row.boot == said.boot:
            self._known = _Known(*row)
            return self._known
        ticks, written = reading.now, _last_written(reading)
        if row is not None:
            last = max(reading.execute(select(func.max(buckets.c.at))).scalar() or 0, written + row.wall_ahead)
            ticks = max(reading.now + row.wall_ahead, last + said.micros)
        known = _Known(said.boot, ticks - said.micros, ticks - reading.now)
        if isinstance(reading, Writing):
            reading.execute(delete(timeline))
            reading.execute(insert(timeline).values(id=1, **known._asdict()))
            # What was written last is in the future when the clock was set back while the machine was down.
            if written - reading.now > _CORRECTED:
                _wait_no_longer(reading, written - reading.now)
            # If this transaction is undone, another process finds no row and comes to the same within milliseconds.
            self._known = known
        return known


def _follow(writing: Writing, known: _Known, wall_ahead: int) -> _Known:
    """Note that the wall's clock was set, and by how much."""
    noted = writing.execute(select(timeline.c.wall_ahead)).scalar()
    # Another process may have been the first to follow.
    back = wall_ahead - (known.wall_ahead if noted is None else noted)
    if back > _CORRECTED:
        _wait_no_longer(writing, back)
    elif back < -_CORRECTED:
        _keep_as_long(writing, -back)
    if abs(back) > _CORRECTED:
        # Also so that the newest row of the history is one of the time that is now.
        way = "back" if back > 0 else "forward"
        writing.record("clock set", actor="ledger", reason=f"{way} by {abs(back) // _SECOND} s")
    writing.execute(update(timeline).values(wall_ahead=wall_ahead))
    return known._replace(wall_ahead=wall_ahead)


def _wait_no_longer(writing: Writing, back: int) -> None:
    """The clock was set back by so much: what waits in the queue would wait so much longer, and is set back too."""
    later, held, turn = jobs.c.not_before, jobs.c.lease_until, turns.c.counts_until
    waiting = states({PENDING, RETRYING}) & (later > writing.now)
    writing.execute(update(jobs).where(waiting).values(not_before=later - back, due=jobs.c.due - back))
    too_long = literal_column(RUNNING) & (held > writing.now + back)
    writing.execute(update(jobs).where(too_long).values(lease_until=held - back))
    writing.execute(update(turns).where(turn > writing.now + back).values(counts_until=turn - back))


def _keep_as_long(writing: Writing, forward: int) -> None:
    """The clock was set forward by so much: what is kept for a number of days would be let go of so much earlier."""
    writing.execute(update(items).where(literal_column(DELETED)).values(gone_at=items.c.gone_at + forward))
    kept = formers.c.kept_at != LET_GO
    writing.execute(update(formers).where(kept).values(kept_at=formers.c.kept_at + forward))


def _last_written(reading: Reading) -> int:
    """When the newest row of the history was written."""
    return reading.execute(select(history.c.at).join(chain, history.c.id == chain.c.length)).scalar() or 0
