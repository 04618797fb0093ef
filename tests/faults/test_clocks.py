"""The ledger when the clock on the wall is set by an hour, by days, beyond 2038, or while the machine is off."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from catchment.errors import StaleLease
from catchment.ledger import ConsentState, FailureInfo, Ledger
from catchment.model import FailureClass, Reason
from catchment.pacing import HostLimits, RateReport
from catchment.pacing.metered import Answer, Ask, Report
from catchment.pacing.rules import Rule
from catchment.runtime import process
from tests.ledger.world import START, TIMEOUT, Clock, World, jobs_of, note, notes

pytestmark = pytest.mark.faults

BEYOND_2038 = datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC)
"""The second that 32 bits cannot count."""
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
    """A source and an open sync; every invariant must hold at the end."""
    clock = Clock()
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    made = World(url, clock, Ledger.open(url, clock=clock, monotonic=clock.steady))
    made.claim()
    yield made
    assert made.ledger.check(deep=True) == []
    made.ledger.close()


@pytest.fixture(params=JUMPS.values(), ids=JUMPS.keys())
def jump(request: pytest.FixtureRequest) -> timedelta:
    """By how much the clock is set."""
    found: timedelta = request.param
    return found


@pytest.fixture(params=[False, True], ids=["while it runs", "while the machine is off"])
def off(request: pytest.FixtureRequest) -> bool:
    """Whether the machine is off when that happens."""
    found: bool = request.param
    return found


def test_what_lives_keeps_its_jobs_and_what_died_loses_them_once(world: World, jump: timedelta) -> None:
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


def test_who_lost_its_jobs_to_a_clock_that_jumped_changes_nothing_any_more(world: World) -> None:
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


def test_no_job_waits_longer_than_its_policy_says(world: World, jump: timedelta, off: bool) -> None:
    job = failed(world, wait=timedelta(hours=1))
    set_clock(world, jump, off=off)
    # What was to wait may come early when the clock is set forward.
    world.claim()
    world.clock.forward(hours=1, seconds=2)
    assert world.state(job) == "running" or jobs_of(world.claim(fresh=False)) == [job]
    world.ledger.queue.cancel(job, "operator", "enough")


def test_a_job_that_failed_while_the_clock_was_ahead_waits_no_longer_after_a_power_cut(world: World) -> None:
    world.clock.set(days=1)
    failed(world, wait=timedelta(minutes=10))
    set_clock(world, timedelta(days=-1), off=True)
    assert world.claim(fresh=False).jobs == ()
    world.clock.forward(minutes=10, seconds=2)
    assert len(world.claim(fresh=False).jobs) == 1


def test_a_host_gets_the_rest_that_it_asked_for_and_no_more(world: World, jump: timedelta, off: bool) -> None:
    ask(world, RateReport(retry_after=600))
    set_clock(world, jump, off=off)
    # Nobody knows how long a machine was off: a clock that shows a later time is believed.
    assert ask(world).charge is None or (off and jump > timedelta())
    world.clock.forward(seconds=601)
    assert ask(world).charge is not None


def test_no_tokens_come_from_setting_the_clock(world: World, jump: timedelta) -> None:
    while ask(world).charge is not None:
        pass
    set_clock(world, jump)
    assert ask(world).charge is None
    world.clock.forward(seconds=1)
    assert ask(world).charge is not None


def test_a_breaker_is_open_for_a_minute_and_not_for_ever(world: World, jump: timedelta, off: bool) -> None:
    for _ in range(5):
        world.ledger.pacing.failed(LIMITS, "notes", login=False)
    set_clock(world, jump, off=off)
    assert (off and jump > timedelta()) or world.ledger.pacing.not_before("notes", LIMITS, ME) is not None
    world.clock.forward(seconds=61)
    assert world.ledger.pacing.not_before("notes", LIMITS, ME) is None


def test_a_quota_of_an_hour_is_not_given_twice_and_comes_back(world: World, jump: timedelta, off: bool) -> None:
    world.ledger.throttles.put("all", Rule(per_hour=2), "operator", "")
    world.see(*notes(6))
    world.deliver(begun := world.claim())
    assert len(begun.jobs) == 2
    set_clock(world, jump, off=off)
    if not off or jump < timedelta():
        assert world.claim().jobs == ()
    world.clock.forward(hours=1, seconds=1)
    assert len(world.deliver(world.claim()).succeeded) == 2


def test_consent_ends_by_the_clock_and_is_there_again_when_the_clock_was_wrong(world: World) -> None:
    given = world.ledger.consents
    given.give(world.source.id, {"notes"}, "operator:anna", world.clock.moment + timedelta(days=7))
    for days in (8, 5_000):
        world.clock.set(days=days)
        assert (given.valid(world.source.id), given.agreed("notes")) == (frozenset(), False)
        assert [one.state for one in given.all("notes")] == [ConsentState.EXPIRED]
        world.clock.set(days=-days)
        assert (given.valid(world.source.id), given.agreed("notes")) == ({"notes"}, True)


@pytest.mark.parametrize("days", [1, 40, 5_000])
def test_nothing_is_let_go_of_early_because_the_clock_was_ahead_for_a_while(world: World, days: int) -> None:
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
    # Nobody remembers how old it was when the clock went back: at the latest, its thirty days begin then.
    world.clock.forward(days=22)
    assert purged(world) == (1, 2)


def test_what_was_deleted_while_the_clock_was_ahead_is_let_go_of_in_the_end(world: World, off: bool) -> None:
    world.clock.set(days=5_000)
    deleted(world)
    set_clock(world, timedelta(days=-5_000), off=off)
    assert purged(world) == (0, 0)
    world.clock.forward(days=29)
    assert purged(world) == (0, 0)
    world.clock.forward(days=2)
    assert purged(world) == (1, 2)


def test_what_was_deleted_while_the_clock_was_behind_is_kept_as_long(world: World) -> None:
    world.clock.set(days=-5_000)
    deleted(world)
    world.clock.set(days=5_000)
    assert purged(world) == (0, 0)
    world.clock.forward(days=29)
    assert purged(world) == (0, 0)
    world.clock.forward(days=2)
    assert purged(world) == (1, 2)


def test_another_login_helps_at_once_what_failed_while_the_clock_was_ahead(world: World) -> None:
    begin(world, login="x")
    world.clock.set(days=5_000)
    world.see(note("a.md"))
    batch = world.claim()
    world.ledger.queue.fail(batch.token, batch.jobs[0].id, REFUSED, retry_at=None)
    world.clock.set(days=-5_000)
    assert begin(world, login="y") == 1


def test_the_history_tells_that_the_clock_was_set(world: World) -> None:
    for days in (1, -1):
        world.clock.set(days=days)
        world.claim()
    told = [event.reason for event in world.ledger.history.decisions({"clock set"}, 10)]
    assert sorted(told) == ["back by 86400 s", "forward by 86400 s"]


def set_clock(world: World, by: timedelta, *, off: bool = False) -> None:
    """Set the clock; `off`: and start the machine anew."""
    world.clock.set(seconds=by.total_seconds())
    if off:
        world.clock.reboot()
        world.reopen()
        world.claim(0)


def failed(world: World, *, wait: timedelta) -> int:
    """A job that is to be tried again after a while."""
    world.see(note("failed.md"))
    batch = world.claim(1)
    world.ledger.queue.fail(batch.token, batch.jobs[0].id, TIMEOUT, retry_at=world.clock.moment + wait)
    return batch.jobs[0].id


def ask(world: World, *said: RateReport) -> Answer:
    return world.ledger.pacing.take(Ask(LIMITS, "notes", ME, 1, False), Report(said=list(said)), None)


def deleted(world: World) -> None:
    """One note of ten is deleted at the source."""
    world.ingest(*notes(10))
    begin(world)
    world.lose("n/3.md")
    world.settle()
    world.ledger.syncs.end(world.sync.id, "completed", {})


def purged(world: World) -> tuple[int, int]:
    """How many tombstones are let go of, and how many syncs that could be undone; as once a day."""
    return world.ledger.intake.purge(MONTH), world.ledger.undo.purge(MONTH, FOREVER)


def begin(world: World, **circumstances: str) -> int:
    """The next sync; how many entries of the quarantine it lets try again."""
    world.ledger.syncs.end(world.sync.id, "completed", {})
    world.sync = world.ledger.syncs.begin(
        world.source.id, run=None, owner="w", code_version="1", alive=lambda _: False, circumstances=circumstances
    )
    return world.ledger.quarantine.auto_retry(world.source.id, circumstances)
