"""The rollups: sums that stay right however they are merged, and damaged rows."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest
from sqlalchemy import text

from catchment.ledger import Ledger
from catchment.model import Priority
from catchment.telemetry.catalogue import JOBS, QUEUE, SYNC_DURATION
from catchment.telemetry.tally import Figure
from tests.ledger.world import World

pytestmark = pytest.mark.databases
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def stored(world: World, items: float, **labels: str) -> None:
    """Store that items succeeded."""
    world.ledger.measures.tally.add(JOBS, items, world.source.id, outcome="succeeded")
    world.ledger.measures.flush()


def total(ledger: Ledger) -> Figure:
    """Return all items that succeeded."""
    return ledger.measures.totals()[JOBS.name, ("succeeded",), "obsidian", "normal"]


def levels(world: World) -> list[int]:
    """Return the length of the span of each row of JOBS."""
    with world.ledger._store.read() as reading:
        statement = text(f"SELECT level FROM measures WHERE metric = '{JOBS.name}' ORDER BY at, level")
        return list(reading.execute(statement).scalars())


@pytest.mark.parametrize("seed", range(3))
def test_sums_stay_right_after_any_rolls_and_clock_jumps(world: World, seed: int) -> None:
    chance, counted, times = random.Random(seed), 0, Figure(buckets=[0] * 14)
    for _ in range(120):
        world.clock.set(seconds=chance.choice([1, 50, 400, 5_000, 90_000, 3_000_000, -200, -7_000, -2_000_000]))
        items, seconds = chance.randrange(1, 9), chance.choice([0.001, 3.0, 9_999.0])
        counted += items
        times.add(Figure(1, seconds, [int(index == {0.001: 0, 3.0: 7, 9_999.0: 13}[seconds]) for index in range(14)]))
        world.ledger.measures.tally.add(SYNC_DURATION, seconds, world.source.id, outcome="completed")
        stored(world, items)
        if chance.random() < 0.3:
            world.ledger.measures.roll()
        if chance.random() < 0.1:
            world.reopen()
    world.clock.set(days=800)
    world.ledger.measures.roll()
    world.ledger.measures.roll()
    assert total(world.ledger).total == counted
    found = world.ledger.measures.totals()[SYNC_DURATION.name, ("completed",), "obsidian", "normal"]
    assert (found.n, found.buckets) == (times.n, times.buckets)
    assert found.total == pytest.approx(times.total)


def test_row_becomes_longer_as_it_ages(world: World) -> None:
    stored(world, 2)
    ages = []
    for age in (timedelta(0), 4 * HOUR, 3 * DAY, 31 * DAY, 402 * DAY):
        world.clock.now = world.clock.now + age.total_seconds()
        world.ledger.measures.roll()
        ages += levels(world)
    assert ages == [60, 300, 3_600, 86_400, 0]
    assert total(world.ledger).total == 2


def test_points_of_hours_are_the_same_before_and_after_rolls(world: World) -> None:
    since = world.clock.moment
    for items in range(1, 200):
        stored(world, items)
        world.clock.forward(minutes=13)

    def points() -> list[tuple[object, float]]:
        return [(point.at, point.figure.total) for point in world.ledger.measures.points(JOBS, since, HOUR)]

    before = points()
    world.ledger.measures.roll()
    assert set(levels(world)) == {60, 300}
    assert points() == before
    world.clock.forward(days=3)
    world.ledger.measures.roll()
    assert set(levels(world)) == {3_600}
    assert points() == before


def test_gauge_is_the_sum_of_the_means_of_its_sources(world: World) -> None:
    """The second source appears later, so it has fewer samples."""
    since, other = world.clock.moment, world.ledger.sources.put("mail", "imap", Priority.NORMAL)
    for sample in range(6):
        for source in (world.source, other) if sample % 2 else (world.source,):
            for state, jobs in (("pending", 10 * sample), ("running", 1)):
                world.ledger.measures.tally.add(QUEUE, jobs, source.id, state=state)
        world.ledger.measures.flush()
        world.clock.forward(minutes=1)
    measures = world.ledger.measures
    [both] = measures.points(QUEUE, since, HOUR, whole=True)
    assert (both.figure.n, both.figure.total / both.figure.n) == (6, pytest.approx(25 + 1 + 30 + 1))
    of_each = measures.points(QUEUE, since, HOUR, apart=True, whole=True)
    assert {point.source_id: point.figure.total / point.figure.n for point in of_each} == {
        world.source.id: pytest.approx(26),
        other.id: pytest.approx(31),
    }
    assert [point.labels for point in measures.points(QUEUE, since, HOUR, other.id)] == [("pending",), ("running",)]


@pytest.mark.parametrize("damage", ["n = -5", "n = 'many'", "total = 'much'", "b3 = x'00'", "at = 'then'"])
def test_damaged_rows_are_dropped_and_stop_nothing(sqlite_world: World, damage: str) -> None:
    world = sqlite_world
    stored(world, 1)
    world.clock.forward(minutes=5)
    stored(world, 2)
    with world.ledger._store.write() as writing:
        first = f"metric = '{JOBS.name}' AND at = (SELECT min(at) FROM measures)"
        writing.connection.exec_driver_sql(f"UPDATE measures SET {damage} WHERE {first}")
    world.ledger.measures.totals()
    world.ledger.measures.points(JOBS, world.clock.moment - HOUR, HOUR)
    world.clock.forward(hours=5)
    world.ledger.measures.roll()
    assert total(world.ledger).total == 2
    assert [(event.event, event.reason) for event in world.ledger.history.decisions(("measures dropped",), 9)] == [
        ("measures dropped", "1 damaged rows")
    ]


def test_counting_goes_on_where_a_row_is_damaged(sqlite_world: World) -> None:
    stored(sqlite_world, 1)
    with sqlite_world.ledger._store.write() as writing:
        writing.connection.exec_driver_sql("UPDATE measures SET n = 'many', total = 'much'")
    stored(sqlite_world, 4)
    assert total(sqlite_world.ledger).total == 4
