"""Claims, leases, and every outcome of a claim."""

from __future__ import annotations

from datetime import timedelta

import pytest

from catchment.errors import IllegalTransition, NotFound, SkipReason, StaleLease
from catchment.ledger import Recovered, SkippedOutcome, Waiting
from catchment.model import JobState, Priority, Upsert
from tests.documents import document_named
from tests.ledger.world import PARSE_ERROR, TIMEOUT, World, delivered, jobs_of, locators, note, notes

pytestmark = pytest.mark.databases


def test_jobs_are_claimed_in_insertion_order(world: World) -> None:
    for name in ("c.md", "a.md", "b.md"):
        world.see(note(name))
        world.clock.forward(seconds=1)
    assert locators(world.claim(2)) == ["c.md", "a.md"]
    assert locators(world.claim(2)) == ["b.md"]
    assert world.claim(2).jobs == ()


def test_low_priority_job_is_overtaken_for_at_most_an_hour(world: World) -> None:
    world.ledger.sources.put("notes", "obsidian", Priority.LOW)
    world.see(note("low.md"))
    world.ledger.sources.put("notes", "obsidian", Priority.HIGH)
    world.clock.forward(minutes=59)
    world.see(note("high.md"))
    world.clock.forward(minutes=2)
    world.see(note("late.md"))
    assert locators(world.claim(1)) == ["high.md"]
    assert locators(world.claim(1)) == ["low.md"]


def test_a_claim_takes_only_its_own_source(world: World) -> None:
    other = world.ledger.sources.put("other", "local_files", Priority.HIGH)
    world.ledger.intake.record(world.begin(other).id, [Upsert(note("x.md"))], {})
    assert world.claim().jobs == ()


def test_claim_is_bounded_by_bytes_but_takes_at_least_one_job(world: World) -> None:
    world.see(*(note(name, size=size) for name, size in (("a", 60), ("b", 60), ("c", None), ("d", 500), ("e", 1))))
    assert locators(world.claim(most_bytes=100)) == ["a", "b"]
    assert locators(world.claim(most_bytes=100)) == ["c", "d"]
    assert locators(world.claim(most_bytes=100, fresh=True)) == ["e"]


def test_claim_can_select_fresh_failed_or_specific_jobs(world: World) -> None:
    world.see(*notes(4))
    batch = world.claim(2)
    for job in batch.jobs:
        world.ledger.queue.fail(batch.token, job.id, TIMEOUT, retry_at=world.clock.moment)
    retry = world.claim(fresh=False)
    assert set(jobs_of(retry)) == set(jobs_of(batch))
    assert [job.attempt for job in retry.jobs] == [2, 2]
    third = world.claim(1, fresh=True)
    assert world.claim(jobs=jobs_of(third)).jobs == ()
    assert world.claim(jobs=[]).jobs == ()
    assert len(world.claim().jobs) == 1


def test_jobs_that_kill_runs_are_isolated_and_processed_individually(world: World) -> None:
    world.see(*notes(3))
    for _ in range(2):
        world.claim(owner="dead", attempts=2)
        world.ledger.queue.recover(None, lambda _: False, 2)
    assert world.claim(attempts=2).jobs == ()
    killed = world.ledger.queue.to_process_alone(world.source.id, 10, 2)
    assert [*killed.values()] == ["process_killed"] * 3
    apart = [*killed]
    assert world.claim(jobs=apart[:1], owner="dead").jobs[0].attempt == 3
    assert world.ledger.queue.recover(None, lambda _: False, 2) == Recovered(0, 1)
    assert len(world.claim(jobs=apart).jobs) == 2


def test_every_claim_has_a_newer_token(world: World) -> None:
    tokens = [world.claim().token for _ in range(3)]
    world.reopen()
    assert tokens == sorted({*tokens}) and world.claim().token > tokens[-1]


def test_late_acknowledgement_with_an_old_token_is_ignored(world: World) -> None:
    world.see(note("a.md"))
    old = world.claim()
    world.ledger.queue.release(old.token)
    new = world.claim()
    assert world.deliver(old, "old words").stale == jobs_of(old)
    with pytest.raises(StaleLease):
        world.ledger.queue.fail(old.token, old.jobs[0].id, PARSE_ERROR, retry_at=None)
    assert world.ledger.queue.renew(old.token, jobs_of(old), timedelta(minutes=1)) == 0
    assert world.found("words") == []
    assert world.deliver(new, "new words").succeeded == jobs_of(new)
    assert world.deliver(new, "again").stale == jobs_of(new)


def test_failed_job_leaves_its_batch_and_is_ready_after_its_backoff(world: World) -> None:
    world.see(*notes(3))
    batch = world.claim()
    failed = batch.jobs[1].id
    at = world.clock.moment + timedelta(seconds=30)
    assert world.ledger.queue.fail(batch.token, failed, TIMEOUT, retry_at=at) is JobState.RETRYING
    assert world.deliver(batch).stale == [failed]
    assert world.ledger.queue.waiting(world.source.id) == Waiting(0, 1, at)
    assert world.ledger.queue.to_process_alone(world.source.id, 10, 9) == {}
    world.clock.forward(seconds=30)
    assert world.ledger.queue.waiting(world.source.id) == Waiting(1, 0, None)
    assert world.ledger.queue.to_process_alone(world.source.id, 10, 9) == {failed: "timeout"}
    again = world.claim()
    assert [(job.id, job.attempt) for job in again.jobs] == [(failed, 2)]
    assert world.deliver(again).succeeded == [failed]


def test_released_batch_is_requeued_with_its_attempt_counted(world: World) -> None:
    world.see(*notes(2))
    batch = world.claim()
    assert world.ledger.queue.release(batch.token) == 2
    assert world.ledger.queue.release(batch.token) == 0
    assert [job.attempt for job in world.claim().jobs] == [2, 2]


def test_jobs_of_a_dead_worker_are_requeued_until_out_of_attempts(world: World) -> None:
    world.see(*notes(2))
    world.claim(1, owner="dead")
    kept = world.claim(1, owner="alive")

    def recover() -> Recovered:
        return world.ledger.queue.recover(None, lambda owner: owner == "alive", {"obsidian": 2})

    assert recover() == Recovered(1, 0)
    killer = world.claim(owner="dead").jobs[0]
    assert killer.attempt == 2
    assert recover() == Recovered(0, 1)
    assert world.ledger.quarantine.list()[0].reason == "process_killed"
    assert world.deliver(kept).succeeded == jobs_of(kept)


def test_unrenewed_lease_expires(world: World) -> None:
    world.see(*notes(2))
    renewed, hung = world.claim(1), world.claim(1)
    world.clock.forward(minutes=4)
    assert world.ledger.queue.renew(renewed.token, jobs_of(renewed), timedelta(minutes=5)) == 1
    world.clock.forward(minutes=2)
    assert world.ledger.queue.recover(world.source.id, lambda _: True, 3) == Recovered(1, 0)
    assert world.state(hung.jobs[0].id) == "pending"
    assert world.state(renewed.jobs[0].id) == "running"


def test_expired_lease_is_reported_by_the_check(world: World) -> None:
    world.see(note("a.md"))
    world.claim()
    world.clock.forward(minutes=6)
    assert world.ledger.check() == ["Job 1 is running and its lease has expired; the next sync claims it again"]
    world.ledger.queue.recover(None, lambda _: True, 3)


def test_a_cancelled_job_stays_cancelled_until_the_item_changes(world: World) -> None:
    world.see(note("a.md"))
    world.ledger.queue.cancel(1, "anna", "not now")
    assert world.see(note("a.md")).unchanged == 1
    assert world.claim().jobs == ()
    with pytest.raises(IllegalTransition, match="job 1: cancelled, so it cannot be cancelled"):
        world.ledger.queue.cancel(1, "anna", "again")
    assert world.see(note("a.md", "v2")).enqueued == 1


def test_unknown_job_is_reported(world: World) -> None:
    with pytest.raises(NotFound, match="job 7: not found"):
        world.ledger.queue.job(7)
    with pytest.raises(NotFound, match="job 7: not found"):
        world.ledger.queue.cancel(7, "anna", "because")


def test_a_job_that_succeeded_never_changes(world: World) -> None:
    world.ingest(note("a.md"))
    before = world.ledger.queue.job(1)
    with pytest.raises(IllegalTransition):
        world.ledger.queue.cancel(1, "anna", "because")
    with pytest.raises(IllegalTransition):
        world.ledger.quarantine.retry([1], "anna")
    world.see(note("a.md", "v2"))
    after = world.ledger.queue.job(1)
    assert (after.state, after.finished, after.current) == (before.state, before.finished, False)


def test_item_that_proves_unchanged_keeps_its_document(world: World) -> None:
    world.ingest(note("a.md"))
    before = document_named(world.ledger, "a.md")
    world.see(note("a.md", "v2"))
    batch = world.claim()
    assert batch.jobs[0].content_hash == before.content_hash
    acks = world.ledger.queue.deliver(batch.token, [SkippedOutcome(batch.jobs[0].id, SkipReason.UNCHANGED, "h")])
    assert acks.skipped == jobs_of(batch)
    assert document_named(world.ledger, "a.md") == before


def test_item_that_proves_unsupported_loses_its_document(world: World) -> None:
    world.ingest(note("a.md"))
    world.see(note("a.md", "v2"))
    batch = world.claim()
    world.ledger.queue.deliver(batch.token, [SkippedOutcome(batch.jobs[0].id, SkipReason.UNSUPPORTED)])
    assert world.found("says") == []
    assert world.see(note("a.md", "v2")).unchanged == 1


def test_item_restored_with_the_same_content_regains_its_document(world: World) -> None:
    world.ingest(note("a.md"), text="the same words")
    before = document_named(world.ledger, "a.md").document
    world.lose("a.md")
    world.settle()
    world.see(note("a.md", "v2"))
    batch = world.claim()
    assert batch.jobs[0].content_hash is None, "there is no document that could be kept"
    world.ledger.queue.deliver(batch.token, [SkippedOutcome(batch.jobs[0].id, SkipReason.UNCHANGED)])
    assert document_named(world.ledger, "a.md").document == before


def test_the_queue_counts_its_jobs_by_source_and_state(world: World) -> None:
    world.ledger.sources.put("empty", "local_files", Priority.LOW)
    world.see(*notes(3))
    world.deliver(world.claim(1))
    counts = world.ledger.queue.counts()
    assert counts["notes"] == dict.fromkeys(JobState, 0) | {JobState.PENDING: 2, JobState.SUCCEEDED: 1}
    assert counts["empty"] == dict.fromkeys(JobState, 0)
    world.claim(1)
    assert world.ledger.queue.left(world.source.id) == 2, "one of them is worked on"
    assert world.ledger.queue.left(world.ledger.sources.get("empty").id) == 0


def test_jobs_are_listed_newest_first_by_source_state_and_age(world: World) -> None:
    world.see(note("old.md"))
    world.clock.forward(hours=1)
    since = world.clock.moment
    world.see(note("new.md"))
    batch = world.claim(1)
    queue = world.ledger.queue
    assert [job.item for job in queue.jobs()] == ["new.md", "old.md"]
    assert [job.item for job in queue.jobs(since=since)] == ["new.md"]
    assert [job.item for job in queue.jobs(state=JobState.RUNNING, source="notes")] == ["old.md"]
    assert queue.jobs(source="other") == []
    job = queue.job(batch.jobs[0].id)
    assert (job.token, job.owner) == (batch.token, "worker")
    assert job.lease_until == since + timedelta(minutes=5)


def test_every_transition_of_a_job_is_in_its_history(world: World) -> None:
    world.see(note("a.md"))
    batch = world.claim()
    world.ledger.queue.fail(batch.token, 1, TIMEOUT, retry_at=world.clock.moment)
    batch = world.claim()
    world.ledger.queue.fail(batch.token, 1, PARSE_ERROR, retry_at=None)
    world.ledger.quarantine.retry([1], "anna", "new parser")
    world.deliver(world.claim())
    events = world.ledger.history.of_job(1)
    assert [(e.event, e.attempt) for e in events] == [
        ("pending", 0),
        ("running", 1),
        ("retrying", 1),
        ("running", 2),
        ("quarantined", 2),
        ("pending", 2),
        ("running", 3),
        ("succeeded", 3),
    ]
    assert (events[5].actor, events[5].reason, events[5].at) == ("anna", "new parser", world.clock.moment)


def test_batch_whose_content_was_purged_returns_to_the_queue(world: World) -> None:
    world.see(note("a.md"))
    batch = world.claim()
    gone = delivered(batch.jobs[0].id, "words")
    without = type(gone)(gone.job_id, gone.content_hash, gone.normalizer, None, None, "a", None, {})
    assert world.ledger.queue.deliver(batch.token, [without]).stale == jobs_of(batch)
    assert world.state(batch.jobs[0].id) == "pending"
