"""Backfills: planned, started once, apart from ordinary work, and repeatable without doing anything twice."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from sqlalchemy import text

from catchment.errors import FetchFailed, Refused
from catchment.ledger import BackfillSelection, BackfillState, Sync
from catchment.model import Failure, JobState, ReplayStage, Upsert
from tests.ledger.world import NORMALIZER, PARSE_ERROR, TIMEOUT, World, delivered, note, notes

NEWER = f"{NORMALIZER}.2"
ALL = BackfillSelection(ReplayStage.NORMALIZE)


def planned(world: World, what: BackfillSelection = ALL) -> int:
    backfills = world.ledger.backfills
    return backfills.plan(world.source.id, what, backfills.survey(world.source.id, what, NEWER), "operator:anna")


def started(world: World, what: BackfillSelection = ALL) -> tuple[int, Sync]:
    """Start a backfill in a new sync and add its jobs."""
    number = planned(world, what)
    world.ledger.backfills.start(number, world.ledger.backfills.survey(world.source.id, what, NEWER).digest, "anna")
    return number, resumed(world, number)


def resumed(world: World, number: int) -> Sync:
    next_sync(world, number)
    world.ledger.backfills.enqueue(world.sync.id, number, NEWER)
    world.ledger.backfills.close_listing(world.sync.id)
    return world.sync


def next_sync(world: World, backfill: int | None = None) -> None:
    world.ledger.syncs.end(world.sync.id, "completed", {})
    world.sync = world.ledger.syncs.begin(
        world.source.id, run=None, owner="worker", code_version="1", alive=lambda _: False, backfill=backfill
    )


def replay(world: World, number: int, most: int = 100) -> int:
    """Claim jobs of a backfill and deliver each with its text as newer code reads it."""
    batch = world.claim(most, sync_id=world.sync.id, backfill=number)
    world.ledger.queue.deliver(batch.token, [delivered(job.id, f"{job.item.locator} anew") for job in batch.jobs])
    return len(batch.jobs)


def test_a_replay_adds_new_jobs_and_changes_documents_once(world: World) -> None:
    world.ingest(*notes(5))
    before = {job.job for job in world.ledger.queue.jobs()}
    number, _ = started(world)
    assert replay(world, number) == 5
    found = world.ledger.backfills.get(number)
    assert (found.state, found.done, found.left) == (BackfillState.DONE, 5, 0)
    new = [job for job in world.ledger.queue.jobs() if job.backfill == number]
    assert {job.replay_of for job in new} == before
    assert all(world.ledger.queue.job(one).state is JobState.SUCCEEDED for one in before)
    assert world.ledger.backfills.changes(number)[0] == 5
    resumed(world, number)
    assert replay(world, number) == 0
    assert world.ledger.check(deep=True) == []


def test_nothing_is_replayed_if_the_code_is_the_same(world: World) -> None:
    world.ingest(*notes(5))
    with world.ledger._store.engine.begin() as connection:
        connection.execute(text("UPDATE contents SET normalizer = :now"), {"now": f"{NEWER} text/markdown"})
    assert world.ledger.backfills.survey(world.source.id, ALL, NEWER).total == 0
    assert world.ledger.backfills.outdated(NEWER) == {}


def test_ordinary_claims_leave_a_backfill_alone_and_go_first(world: World) -> None:
    world.ingest(*notes(3))
    number, _ = started(world)
    queue = world.ledger.queue
    assert queue.waiting(world.source.id).ready == queue.left(world.source.id) == 0
    assert queue.backlogs() == {}
    next_sync(world)
    world.record(Upsert(note("new.md")))
    batch = world.claim(10)
    assert [job.item.locator for job in batch.jobs] == ["new.md"]
    assert world.ledger.backfills.get(number).left == 3


def test_a_failed_item_is_retried_by_ordinary_syncs(world: World) -> None:
    world.ingest(*notes(2))
    number, sync = started(world)
    batch = world.claim(2, sync_id=sync.id, backfill=number)
    one, other = (job.id for job in batch.jobs)
    world.ledger.queue.fail(batch.token, one, TIMEOUT, retry_at=world.clock.moment)
    world.ledger.queue.fail(batch.token, other, PARSE_ERROR, retry_at=None)
    assert list(world.ledger.queue.to_process_alone(world.source.id, 10, 3)) == [one]
    assert world.ledger.backfills.retry(number, "anna", "") == 1
    next_sync(world)
    again = world.claim(10)
    assert {job.id for job in again.jobs} == {one, other}


def test_a_cancelled_backfill_is_over_and_its_items_are_as_before(world: World) -> None:
    world.ingest(*notes(4))
    number, _ = started(world)
    assert replay(world, number, 1) == 1
    assert world.ledger.backfills.cancel(number, "anna") == 3
    cancelled = world.ledger.backfills.get(number)
    assert (cancelled.state, cancelled.done, cancelled.total) == (BackfillState.CANCELLED, 1, 4)
    assert replay(world, number) == 0
    assert world.ledger.queue.counts()[world.source.name][JobState.SUCCEEDED] == 4
    assert world.ledger.check(deep=True) == []
    with pytest.raises(Refused, match="started already"):
        world.ledger.backfills.start(number, "", "anna")


def test_a_plan_is_refused_if_the_world_has_moved(world: World) -> None:
    world.ingest(*notes(2))
    number = planned(world)
    world.ingest(note("later.md"))
    digest = world.ledger.backfills.survey(world.source.id, ALL, NEWER).digest
    with pytest.raises(Refused, match="plan it again"):
        world.ledger.backfills.start(number, digest, "anna")
    assert world.ledger.backfills.get(number).state is BackfillState.PLANNED


def test_a_pause_and_a_resume_keep_what_is_done(world: World) -> None:
    world.ingest(*notes(3))
    number, _ = started(world)
    replay(world, number, 1)
    world.ledger.backfills.pause(number, "anna", "later")
    found = world.ledger.backfills.get(number)
    assert (found.state, found.reason, found.done) == (BackfillState.PAUSED, "later", 1)
    with pytest.raises(Refused, match="not running"):
        world.ledger.backfills.pause(number, "anna")
    world.ledger.backfills.resume(number, "anna")
    assert [one.id for one in world.ledger.backfills.unfinished(world.source.id) if one.is_running] == [number]


def test_too_many_failures_pause_a_backfill(world: World) -> None:
    world.ingest(*notes(25))
    number, sync = started(world)
    batch = world.claim(25, sync_id=sync.id, backfill=number)
    for job in batch.jobs[:20]:
        world.ledger.queue.fail(batch.token, job.id, PARSE_ERROR, retry_at=None)
    assert world.ledger.backfills.judge(sync.id, number).state is BackfillState.RUNNING
    world.ledger.queue.fail(batch.token, batch.jobs[20].id, PARSE_ERROR, retry_at=None)
    assert world.ledger.backfills.judge(sync.id, number).state is BackfillState.PAUSED


def test_only_readable_items_are_replayed(world: World) -> None:
    world.ingest(*notes(4))
    survey = world.ledger.backfills.survey(world.source.id, ALL, NEWER, lambda versions: list(versions)[:1])
    assert (survey.total, survey.unreadable) == (1, 3)


def test_a_newer_version_replaces_a_waiting_replayed(world: World) -> None:
    world.ingest(*notes(2))
    number, _ = started(world)
    next_sync(world)
    changed = notes(1)[0]
    world.record(Upsert(note(changed.locator, "v2")))
    jobs = world.ledger.backfills.get(number).jobs
    assert (jobs[JobState.SUPERSEDED], jobs[JobState.PENDING]) == (1, 1)


def test_a_window_adds_its_jobs_to_the_backfill(world: World) -> None:
    number = planned(world, BackfillSelection(ReplayStage.FETCH, world.clock.moment))
    world.ledger.backfills.start(number, world.ledger.backfills.get(number).survey.digest, "anna")
    next_sync(world, number)
    world.record(Upsert(note("old.md")))
    assert world.claim(10).jobs == ()
    assert world.ledger.backfills.get(number).left == 1
    assert world.ledger.backfills.cancel(number, "anna") == 1
    world.record(Upsert(note("old.md")))
    assert world.ledger.backfills.get(number).left == 1


def test_a_purge_is_complete_and_ends_what_a_backfill_has_not_listed(world: World) -> None:
    world.ingest(*notes(3))
    done, _ = started(world)
    assert replay(world, done) == 3
    waiting = planned(world, BackfillSelection(ReplayStage.FETCH))
    sum(world.ledger.purging.items(world.source.id, lambda _: True))
    world.ledger.purging.rest(world.source.id)
    assert set(world.ledger.purging.left(world.source.id, lambda _: True, whole=True).values()) == {0}
    assert world.ledger.backfills.get(done).state is BackfillState.DONE
    assert world.ledger.backfills.get(waiting).state is BackfillState.CANCELLED


def window(world: World) -> int:
    """Start the backfill of a window, and the sync that lists its source."""
    number = planned(world, BackfillSelection(ReplayStage.FETCH, world.clock.moment))
    world.ledger.backfills.start(number, world.ledger.backfills.get(number).survey.digest, "anna")
    next_sync(world, number)
    return number


def day(number: int) -> datetime:
    return datetime(2025, 1, number, tzinfo=UTC)


def test_period_that_overlaps_an_unfinished_one_is_refused(world: World) -> None:
    def period(first: int | None, last: int | None) -> int:
        ends = (None if number is None else day(number) for number in (first, last))
        return planned(world, BackfillSelection(ReplayStage.FETCH, *ends))

    def start(number: int) -> None:
        world.ledger.backfills.start(number, world.ledger.backfills.get(number).survey.digest, "anna")

    first = period(10, 20)
    start(first)
    next_sync(world, first)
    world.record(Upsert(note("old.md")))
    world.ledger.backfills.close_listing(world.sync.id)
    start(period(20, 25))
    start(period(None, 10))
    later = [period(*ends) for ends in [(19, 22), (5, 11), (12, 13), (None, 15), (15, None), (None, None)]]
    for number in later:
        with pytest.raises(Refused, match=f"wait for it, or cancel it: `catchment backfill cancel {first}`"):
            start(number)
        assert world.ledger.backfills.get(number).state is BackfillState.PLANNED
    world.ledger.backfills.pause(first, "anna")
    with pytest.raises(Refused, match="overlaps"):
        start(later[2])
    world.ledger.backfills.cancel(first, "anna")
    start(later[2])
    next_sync(world, later[2])
    assert world.record(Upsert(note("old.md"))).enqueued == 1, "the other period lists what the cancelled one dropped"


def test_replay_that_overlaps_an_unfinished_one_is_refused(world: World) -> None:
    world.ingest(*notes(4))
    some = {n: tuple(item.id for name in (f"n/{n}.md",) for item in world.ledger.intake.find(name)) for n in range(4)}
    what = [BackfillSelection(ReplayStage.NORMALIZE, items=some[0] + some[1]), ALL]
    what += [BackfillSelection(ReplayStage.NORMALIZE, items=some[2]), BackfillSelection(ReplayStage.EMBED)]
    what.append(BackfillSelection(ReplayStage.FETCH))
    first, every, other, embed, window = (planned(world, one) for one in what)
    backfills = world.ledger.backfills
    backfills.start(first, backfills.get(first).survey.digest, "anna")
    for number in (other, embed, window):
        backfills.start(number, backfills.get(number).survey.digest, "anna")
    with pytest.raises(Refused, match=f"overlaps backfill {first}, which is unfinished"):
        backfills.start(every, backfills.get(every).survey.digest, "anna")


def test_item_that_the_source_lists_itself_leaves_its_window(world: World) -> None:
    number = window(world)
    world.record(Upsert(note("old.md")), Upsert(note("older.md")))
    next_sync(world)
    assert world.record(Upsert(note("old.md"))).enqueued == 1
    assert [job.item.locator for job in world.claim(10).jobs] == ["old.md"]
    assert world.ledger.backfills.get(number).left == 1
    world.ledger.backfills.cancel(number, "anna")
    assert world.record(Upsert(note("old.md"))).enqueued == 0


def test_replay_of_an_item_that_the_source_lists_stays_a_replayed(world: World) -> None:
    world.ingest(*notes(2))
    number, _ = started(world)
    next_sync(world)
    assert world.record(*(Upsert(one) for one in notes(2))).enqueued == 0
    assert world.claim(10).jobs == ()
    assert world.ledger.backfills.get(number).left == 2


def test_item_that_a_window_cannot_list_is_retried_by_ordinary_syncs(world: World) -> None:
    number = window(world)
    world.record(Failure(note("odd.md"), FetchFailed("not today")))
    assert world.ledger.backfills.get(number).left == 1
    next_sync(world)
    assert world.ledger.queue.to_process_alone(world.source.id, 10, 3) == {}
    world.clock.forward(minutes=6)
    assert len(world.ledger.queue.to_process_alone(world.source.id, 10, 3)) == 1


@pytest.mark.parametrize("hours", [-24, -1, 1, 24])
def test_set_clock_leaves_the_jobs_of_a_backfill_to_it(world: World, hours: int) -> None:
    number = window(world)
    world.record(Upsert(note("old.md")), Upsert(note("older.md")))
    world.clock.set(hours=hours)
    queue = world.ledger.queue
    assert len(world.claim(1, sync_id=world.sync.id, backfill=number).jobs) == 1
    assert (queue.waiting(world.source.id).ready, queue.left(world.source.id)) == (0, 0)
    assert queue.backlogs() == {}
    batch = world.claim(1, sync_id=world.sync.id, backfill=number)
    queue.fail(batch.token, batch.jobs[0].id, TIMEOUT, retry_at=world.clock.moment)
    assert list(queue.to_process_alone(world.source.id, 10, 3)) == [batch.jobs[0].id]
