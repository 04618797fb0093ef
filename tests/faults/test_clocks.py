"""The ledger when the system clock is set by an hour, by days, beyond 2038, or while the machine is off."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from catchment.errors import FailureClass, Reason, StaleLease
from catchment.ledger import ConsentState, FailureInfo, Ledger
from catchment.pacing import HostLimits, RateReport
from catchment.pacing.metered import Answer, Ask, Report
from catchment.pacing.operator_rules import Rule
from catchment.runtime import process
from tests.ledger.world import START, TIMEOUT, Clock, World, jobs_of, note, notes

pytestmark = pytest.mark.faults

BEYOND_2038 = datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC)
"""The first second that overflows 32 bits."""
JUMPS = {
    "an hour forward": timedelta(hours=1),
    "an hour back": timedelta(hours=-1),
    "a day forward": timedelta(days=1),
    "a day back": timedelta(days=-1),
    "beyond 2038": BEYOND_2038 - START,
    "back to 1970": datetime(1970, 1, 2, tzinfo=UTC) - START,
}
MONTH = timedelta(days=30)
FOREVER = 10**9
ME = process.identity()
LIMITS = HostLimits("example.org", "ada")
REFUSED = FailureInfo(Reason.PERMISSION_DENIED, FailureClass.PERMANENT, "AccessDenied", "it may not be read")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A source and an open sync. All invariants are checked at the end."""
    clock = Clock()
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    made = World(url, clock, Ledger.open(url, clock=clock, monotonic=clock.steady))
    made.claim()
    yield made
    assert made.ledger.check(deep=True) == []
    made.ledger.close()


@pytest.fixture(params=JUMPS.values(), ids=JUMPS.keys())
def jump(request: pytest.FixtureRequest) -> timedelta:
    """The amount by which the clock is set."""
    found: timedelta = request.param
    return found


@pytest.fixture(params=[False, True], ids=["while it runs", "while the machine is off"])
def off(request: pytest.FixtureRequest) -> bool:
    """Whether the machine is off during the change."""
    found: bool = request.param
    return found


def test_live_owner_keeps_its_jobs_and_dead_owner_loses_them_once(world: World, jump: timedelta) -> None:
    world.see(*notes(4))
    mine = world.claim(2, owner="lives")
    world.claim(2, owner="dies")
    set_clock(world, jump)
    assert world.ledger.queue.renew(mine.token, jobs_of(mine), timedelta(minutes=5)) == 2
    assert world.ledger.queue.recover(world.source.id, lambda owner: owner == "lives", 3).released == 2
    again = world.claim(owner="next")
    assert len(again.jobs) == 2
    for batch in (mine, again):
        assert world.deliver(batch).succeeded == jobs_of(batch)
    done = [world.events(number).count("succeeded") for number in (*jobs_of(mine), *jobs_of(again))]
    assert done == [1, 1, 1, 1]


def test_owner_that_lost_its_jobs_to_a_clock_jump_cannot_write(world: World) -> None:
    world.see(note("held.md"))
    late = world.claim(owner="late")
    world.clock.set(days=1)
    assert world.ledger.queue.recover(world.source.id, lambda _: True, 3).released == 1
    world.clock.set(days=-1)
    taken = world.claim(owner="next")
    assert world.deliver(late).stale == jobs_of(late)
    with pytest.raises(StaleLease):
        world.ledger.queue.fail(late.token, late.jobs[0].id, TIMEOUT, retry_at=None)
    assert world.ledger.queue.renew(late.token, jobs_of(late), timedelta(minutes=5)) == 0
    assert world.deliver(taken).succeeded == jobs_of(taken)


def test_no_job_waits_longer_than_its_policy(world: World, jump: timedelta, off: bool) -> None:
    job = failed(world, wait=timedelta(hours=1))
    set_clock(world, jump, off=off)
    # A wait can end early when the clock is set forward.
    world.claim()
    world.clock.forward(hours=1, seconds=2)
    assert world.state(job) == "running" or jobs_of(world.claim(fresh=False)) == [job]
    world.ledger.queue.cancel(job, "operator", "enough")


def test_power_cut_does_not_extend_a_backoff_started_by_a_fast_clock(world: World) -> None:
    world.clock.set(days=1)
    failed(world, wait=timedelta(minutes=10))
    set_clock(world, timedelta(days=-1), off=True)
    assert world.claim(fresh=False).jobs == ()
    world.clock.forward(minutes=10, seconds=2)
    assert len(world.claim(fresh=False).jobs) == 1


def test_host_pause_lasts_exactly_as_requested(world: World, jump: timedelta, off: bool) -> None:
    ask(world, RateReport(retry_after=600))
    set_clock(world, jump, off=off)
    # The duration of a power-off is unknown: a clock that shows a later time is trusted.
    assert ask(world).charge is None or (off and jump > timedelta())
    world.clock.forward(seconds=601)
    assert ask(world).charge is not None


def test_setting_the_clock_creates_no_tokens(world: World, jump: timedelta) -> None:
    while ask(world).charge is not None:
        pass
    set_clock(world, jump)
    assert ask(world).charge is None
    world.clock.forward(seconds=1)
    assert ask(world).charge is not None


def test_breaker_stays_open_for_a_minute(world: World, jump: timedelta, off: bool) -> None:
    for _ in range(5):
        world.ledger.pacing.failed(LIMITS, "notes", login=False)
    set_clock(world, jump, off=off)
    assert (off and jump > timedelta()) or world.ledger.pacing.not_before("notes", LIMITS, ME) is not None
    world.clock.forward(seconds=61)
    assert world.ledger.pacing.not_before("notes", LIMITS, ME) is None


def test_hourly_quota_is_granted_once_and_renewed(world: World, jump: timedelta, off: bool) -> None:
    world.ledger.throttles.put("all", Rule(per_hour=2), "operator", "")
    world.see(*notes(6))
    world.deliver(begun := world.claim())
    assert len(begun.jobs) == 2
    set_clock(world, jump, off=off)
    if not off or jump < timedelta():
        assert world.claim().jobs == ()
    world.clock.forward(hours=1, seconds=1)
    assert len(world.deliver(world.claim()).succeeded) == 2


def test_consent_expires_by_the_clock_and_returns_after_a_correction(world: World) -> None:
    given = world.ledger.consents
    given.give(world.source.id, {"notes"}, "operator:anna", world.clock.moment + timedelta(days=7))
    for days in (8, 5_000):
        world.clock.set(days=days)
        assert (given.valid(world.source.id), given.agreed("notes")) == (frozenset(), False)
        assert [one.state for one in given.all("notes")] == [ConsentState.EXPIRED]
        world.clock.set(days=-days)
        assert (given.valid(world.source.id), given.agreed("notes")) == ({"notes"}, True)


@pytest.mark.parametrize("days", [1, 40, 5_000])
def test_temporarily_fast_clock_expires_no_data_early(world: World, days: int) -> None:
    deleted(world)
    world.clock.forward(days=20)
    world.clock.set(days=days)
    assert purged(world) == (0, 0)
    world.clock.forward(hours=1)
    assert purged(world) == (0, 0)
    world.clock.set(days=-days)
    assert purged(world) == (0, 0)
    world.clock.forward(days=9)
    assert purged(world) == (0, 0)
    # The age at the time of the clock change is unknown: the thirty days start no later than that.
    world.clock.forward(days=22)
    assert purged(world) == (1, 2)


def test_tombstone_from_a_fast_clock_expires_eventually(world: World, off: bool) -> None:
    world.clock.set(days=5_000)
    deleted(world)
    set_clock(world, timedelta(days=-5_000), off=off)
    assert purged(world) == (0, 0)
    world.clock.forward(days=29)
    assert purged(world) == (0, 0)
    world.clock.forward(days=2)
    assert purged(world) == (1, 2)


def test_tombstone_from_a_slow_clock_is_kept_for_the_full_period(world: World) -> None:
    world.clock.set(days=-5_000)
    deleted(world)
    world.clock.set(days=5_000)
    assert purged(world) == (0, 0)
    world.clock.forward(days=29)
    assert purged(world) == (0, 0)
    world.clock.forward(days=2)
    assert purged(world) == (1, 2)


def test_new_login_retries_failures_from_a_fast_clock_at_once(world: World) -> None:
    begin(world, login="x")
    world.clock.set(days=5_000)
    world.see(note("a.md"))
    batch = world.claim()
    world.ledger.queue.fail(batch.token, batch.jobs[0].id, REFUSED, retry_at=None)
    world.clock.set(days=-5_000)
    assert begin(world, login="y") == 1


def test_history_records_the_clock_change(world: World) -> None:
    for days in (1, -1):
        world.clock.set(days=days)
        world.claim()
    told = [event.reason for event in world.ledger.history.decisions({"clock set"}, 10)]
    assert sorted(told) == ["back by 86400 s", "forward by 86400 s"]


def set_clock(world: World, by: timedelta, *, off: bool = False) -> None:
    """Set the clock; with `off`, also reboot the machine."""
    world.clock.set(seconds=by.total_seconds())
    if off:
        world.clock.reboot()
        world.reopen()
        world.claim(0)


def failed(world: World, *, wait: timedelta) -> int:
    """Return a job that failed and waits for its retry."""
    world.see(note("failed.md"))
    batch = world.claim(1)
    world.ledger.queue.fail(batch.token, batch.jobs[0].id, TIMEOUT, retry_at=world.clock.moment + wait)
    return batch.jobs[0].id


def ask(world: World, *said: RateReport) -> Answer:
    return world.ledger.pacing.take(Ask(LIMITS, "notes", ME, 1, False), Report(rates=list(said)), None)


def deleted(world: World) -> None:
    """Delete one of ten notes at the source."""
    world.ingest(*notes(10))
    begin(world)
    world.lose("n/3.md")
    world.settle()
    world.ledger.syncs.end(world.sync.id, "completed", {})


def purged(world: World) -> tuple[int, int]:
    """Run the daily clean-up; return the numbers of expired tombstones and of expired undoable syncs."""
    return world.ledger.intake.purge(), world.ledger.undo.purge(FOREVER)


def begin(world: World, **circumstances: str) -> int:
    """Start the next sync; return the number of quarantine entries that it retries."""
    world.ledger.syncs.end(world.sync.id, "completed", {})
    world.sync = world.ledger.syncs.begin(
        world.source.id, run=None, owner="w", code_version="1", alive=lambda _: False, circumstances=circumstances
    )
    return world.ledger.quarantine.auto_retry(world.sync.id, circumstances)
