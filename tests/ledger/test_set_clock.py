"""Clock changes while jobs wait or run: no job waits longer, and live workers keep their leases."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest

from catchment.errors import LedgerError
from catchment.ledger import Ledger
from catchment.ledger.db.monotonic_clock import MonotonicClock
from catchment.pacing.boot_clock import ClockReading
from tests.ledger.world import TIMEOUT, World, locators, note, notes


def test_clock_set_back_delays_no_job(world: World) -> None:
    world.see(*notes(3))
    batch = world.claim(1)
    world.ledger.queue.fail(batch.token, batch.jobs[0].id, TIMEOUT, retry_at=world.clock.moment + timedelta(seconds=60))
    world.clock.set(hours=-2)
    assert locators(world.claim(fresh=True)) == ["n/1.md", "n/2.md"]
    assert world.claim(fresh=False).jobs == ()
    next_at = world.ledger.queue.waiting(world.source.id).next_at
    assert next_at is not None and (next_at - world.clock.moment).total_seconds() == pytest.approx(60, abs=2)
    world.clock.forward(seconds=62)
    assert len(world.claim(fresh=False).jobs) == 1


def test_every_process_adopts_a_clock_change(sqlite_world: World) -> None:
    world = sqlite_world
    world.see(*notes(2))
    with closing(Ledger.open(world.url, clock=world.clock, monotonic=world.clock.steady)) as another:
        batch = world.claim(1)
        another.queue.claim(world.source.id, 0, owner="another")
        world.clock.set(hours=-2)
        retry_at = world.clock.moment + timedelta(minutes=30)
        world.claim(0)
        world.ledger.queue.fail(batch.token, batch.jobs[0].id, TIMEOUT, retry_at=retry_at)
        another.queue.claim(world.source.id, 0, owner="another")
        next_at = another.queue.waiting(world.source.id).next_at
        assert next_at is not None and abs(next_at - retry_at) < timedelta(seconds=2)


def test_clock_set_back_does_not_extend_leases(world: World) -> None:
    world.see(note("held.md"))
    world.claim(lease=timedelta(minutes=5))
    world.clock.set(hours=-2)
    world.claim()
    assert world.ledger.queue.recover(world.source.id, lambda _: True, 3).released == 0
    world.clock.forward(minutes=6)
    assert world.ledger.queue.recover(world.source.id, lambda _: True, 3).released == 1


@pytest.mark.parametrize("is_new", [True, False])
def test_clock_change_in_a_rolled_back_transaction_is_adopted_later(sqlite_world: World, is_new: bool) -> None:
    world = sqlite_world
    world.see(*notes(2))
    if not is_new:
        world.claim(0)
    refuse = "BEFORE UPDATE ON jobs WHEN new.state = 'running' BEGIN SELECT RAISE(ABORT, 'refused'); END"
    world.clock.set(hours=-2)
    with closing(sqlite3.connect(world.url.removeprefix("sqlite:///"), isolation_level=None)) as database:
        database.execute(f"CREATE TRIGGER refuse {refuse}")
        with pytest.raises(LedgerError, match="operation failed"):
            world.claim()
        database.execute("DROP TRIGGER refuse")
    assert locators(world.claim()) == ["n/0.md", "n/1.md"]


def test_monotonic_clock_does_not_run_ahead_when_machines_take_turns(world: World) -> None:
    """Two machines that booted ten and three days ago."""
    clock = world.clock
    boots = [lambda days=days: ClockReading(f"{days}", int((clock.up + days * 86_400) * 1_000_000)) for days in (10, 3)]
    for number in range(6):
        clock.forward(minutes=1)
        turn = MonotonicClock(boots[number % 2])
        with world.ledger._store.write() as writing:
            assert abs(turn.now(writing) - writing.now) < 1_000_000
            writing.record("turn", actor="test")
