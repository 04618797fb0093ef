"""The rollups: merging keeps every sum, bounds the rows, and depends on no steady clock."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import func, select

from catchment.ledger.db.schema import measures
from catchment.telemetry.catalogue import BYTES_READ, JOB_WAIT
from tests.ledger.world import World

HOUR = timedelta(hours=1)


def count(world: World, seconds: float = 0.3) -> None:
    tally = world.ledger.measures.tally
    tally.add(BYTES_READ, 10, world.source.id)
    tally.add(JOB_WAIT, seconds, world.source.id)
    world.ledger.measures.flush()


def totals(world: World) -> tuple[float, int, float, tuple[int, ...]]:
    """Return the bytes, and number, sum and buckets of the histogram."""
    found = {key[0]: figure for key, figure in world.ledger.measures.totals().items()}
    wait = found[JOB_WAIT.name]
    return found[BYTES_READ.name].total, wait.n, round(wait.total, 3), tuple(wait.buckets)


def rows(world: World) -> int:
    with world.ledger._store.read() as reading:
        return int(reading.execute(select(func.count()).select_from(measures)).scalar_one())


def test_merging_keeps_every_sum_and_bounds_the_rows(world: World) -> None:
    """Figures older than 400 days are in a single row of each series."""
    for number in range(80):
        count(world, seconds=(0.003, 0.3, 5_000)[number % 3])
        world.clock.forward(days=6)
        world.ledger.measures.roll()
    after = rows(world)
    assert totals(world) == (800, 80, 130_008.181, (27, 0, 0, 0, 27, *[0] * 8, 26))
    assert after <= 2 * (400 / 6 + 2)
    world.ledger.measures.roll()
    assert (rows(world), totals(world)[0]) == (after, 800)


def test_points_of_merged_spans_are_at_their_start(world: World) -> None:
    begun = world.clock.moment
    for _ in range(4):
        count(world)
        world.clock.forward(minutes=1)
    world.clock.forward(hours=5)
    world.ledger.measures.roll()
    points = world.ledger.measures.points(BYTES_READ, begun, timedelta(minutes=1))
    assert [(point.at - begun, point.figure.total) for point in points] == [(timedelta(), 40)]
    assert [one.figure.total for one in world.ledger.measures.points(BYTES_READ, begun, HOUR, world.source.id)] == [40]
    assert world.ledger.measures.points(BYTES_READ, begun, HOUR, world.source.id + 1) == []


def test_figures_from_a_clock_that_was_ahead_are_kept_and_merged_later(world: World) -> None:
    world.clock.set(days=40)
    count(world)
    world.clock.set(days=-40)
    count(world)
    for _ in range(6):
        world.ledger.measures.roll()
        assert totals(world)[0] == 20
        world.clock.forward(days=10)
    world.ledger.measures.roll()
    assert totals(world)[:2] == (20, 2)
