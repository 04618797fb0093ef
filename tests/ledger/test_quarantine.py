"""Quarantined items and operator actions on them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from catchment.errors import FailureClass, IllegalTransition, NotFound, Reason
from catchment.ledger import FailureInfo
from catchment.model import Priority, Upsert
from tests.ledger.world import PARSE_ERROR, TIMEOUT, World, locators, note, notes

TRACE = 'Traceback:\n  File "/x/y/{}.py", line {}, in read\n    …\nParseError'


def fail(world: World, *locators: str, failure: object = PARSE_ERROR) -> list[int]:
    """Fail these items permanently."""
    world.see(*map(note, locators))
    batch = world.claim()
    for job in batch.jobs:
        world.ledger.queue.fail(batch.token, job.id, failure, retry_at=None)  # type: ignore[arg-type]
    return [job.id for job in batch.jobs]


@pytest.mark.databases
def test_entry_records_failure_count_and_first_time(world: World) -> None:
    world.see(note("bad.pdf", "v7"))
    began = world.clock.moment
    batch = world.claim()
    world.ledger.queue.fail(batch.token, 1, TIMEOUT, retry_at=began)
    world.clock.forward(minutes=5)
    world.ledger.queue.fail(world.claim().token, 1, replace(TIMEOUT, traceback="trace"), retry_at=None)
    entry = world.ledger.quarantine.show(1)
    assert [replace(entry, traceback="")] == world.ledger.quarantine.list()
    assert (entry.item, entry.version, entry.attempts, entry.run) == ("bad.pdf", "v7", 2, "run-1")
    assert (entry.first_failed, entry.last_failed) == (began, world.clock.moment)
    assert (entry.reason, entry.failure_class) == (Reason.TIMEOUT, FailureClass.TRANSIENT)
    assert (entry.error, entry.message, entry.traceback, entry.retry_helps) == (
        "TimedOut",
        "It took 60 s",
        "trace",
        True,
    )
    assert world.ledger.queue.job(1).error == "TimedOut: It took 60 s"


def test_entries_are_listed_by_source_reason_and_cluster(world: World) -> None:
    fail(world, "a.pdf", "b.pdf")
    fail(world, "slow.md", failure=TIMEOUT)
    quarantine = world.ledger.quarantine
    assert {e.item for e in quarantine.list(reason=Reason.PARSE_ERROR)} == {"a.pdf", "b.pdf"}
    assert [e.item for e in quarantine.list("notes", Reason.TIMEOUT)] == ["slow.md"]
    assert quarantine.list("other") == []
    cluster = quarantine.list(reason=Reason.PARSE_ERROR)[0].cluster
    assert {e.item for e in quarantine.list(cluster=cluster)} == {"a.pdf", "b.pdf"}
    assert quarantine.stats() == {"notes": {Reason.PARSE_ERROR: 2, Reason.TIMEOUT: 1}}


def test_failures_with_one_cause_are_one_cluster(world: World) -> None:
    first = replace(PARSE_ERROR, message="Object 17 of 'a.pdf' is cut off", traceback=TRACE.format("pdf", 10))
    second = replace(PARSE_ERROR, message="Object 4711 of 'b.pdf' is cut off", traceback=TRACE.format("pdf", 12))
    third = replace(second, traceback=TRACE.format("docx", 12))
    for number, failure in enumerate((first, second, third)):
        fail(world, f"{number}.x", failure=failure)
    clusters = world.ledger.quarantine.clusters()
    assert [cluster.count for cluster in clusters] == [2, 1]
    assert (clusters[0].reason, clusters[0].error) == (Reason.PARSE_ERROR, "ParseError")


def test_a_retry_runs_once_more_and_its_success_closes_the_entry(world: World) -> None:
    first, second = fail(world, "a.pdf", "b.pdf")
    assert world.ledger.quarantine.retry([first, 99], "anna", "new parser") == 1
    assert [e.job for e in world.ledger.quarantine.list()] == [second]
    batch = world.claim()
    assert locators(batch) == ["a.pdf"]
    world.deliver(batch)
    assert world.ledger.quarantine.retry(None, "anna") == 1
    batch = world.claim()
    world.ledger.queue.fail(batch.token, second, PARSE_ERROR, retry_at=None)
    assert [(e.job, e.attempts) for e in world.ledger.quarantine.list()] == [(second, 2)]


def test_notes_stay_with_an_entry_through_another_failure(world: World) -> None:
    (job,) = fail(world, "a.pdf")
    world.ledger.quarantine.note(job, "asked the author", "anna")
    world.ledger.quarantine.retry([job], "anna")
    world.ledger.quarantine.note(job, "still broken", "ben")
    world.ledger.queue.fail(world.claim().token, job, PARSE_ERROR, retry_at=None)
    assert world.ledger.quarantine.show(job).notes == ("asked the author", "still broken")
    assert ("noted", "ben") in [(e.event, e.actor) for e in world.ledger.history.of_job(job)]


def test_discarded_item_is_ignored_until_it_changes(world: World) -> None:
    (job,) = fail(world, "a.pdf")
    world.ledger.quarantine.discard([job], "anna", "it is junk")
    assert world.ledger.quarantine.list() == []
    assert world.see(note("a.pdf")).unchanged == 1
    assert world.ledger.quarantine.show(job).item == "a.pdf", "the entry is history"
    with pytest.raises(IllegalTransition, match="cancelled, so it cannot be discarded"):
        world.ledger.quarantine.discard([job], "anna", "again")
    assert world.see(note("a.pdf", "v2")).enqueued == 1


def test_old_entries_are_purged(world: World) -> None:
    (old,) = fail(world, "old.pdf")
    world.clock.forward(days=31)
    (new,) = fail(world, "new.pdf")
    assert world.ledger.quarantine.purge(timedelta(days=30), "anna") == 1
    assert [e.job for e in world.ledger.quarantine.list()] == [new]
    assert world.state(old) == "cancelled"


def test_unknown_quarantine_entry_is_reported(world: World) -> None:
    world.ingest(note("a.md"))
    quarantine = world.ledger.quarantine
    for call in (
        lambda: quarantine.show(1),
        lambda: quarantine.note(1, "x", "anna"),
        lambda: quarantine.discard([99], "anna", "x"),
        lambda: quarantine.retry([99], "anna"),
    ):
        with pytest.raises(NotFound):
            call()


def test_quarantined_items_are_requeued_only_by_an_operator(world: World) -> None:
    (job,) = fail(world, "a.pdf")
    world.see(note("a.pdf"))
    world.ledger.queue.recover(None, lambda _: False, 1)
    assert world.claim().jobs == ()
    assert world.state(job) == "quarantined"


def test_all_failures_of_one_parser_are_retried_together(world: World) -> None:
    fail(world, *(item.locator for item in notes(30)))
    assert len(world.ledger.quarantine.list()) == 30
    assert world.ledger.quarantine.retry(None, "anna", "new parser") == 30
    assert world.ledger.quarantine.list() == []
    assert len(world.claim().jobs) == 30


def test_the_sources_of_a_cluster_are_named(world: World) -> None:
    fail(world, "a.pdf")
    other = world.ledger.sources.put("mail", "local_files", Priority.HIGH)
    world.ledger.intake.record(world.begin(other).id, [Upsert(note("b.pdf"))], {})
    batch = world.ledger.queue.claim(other.id, 1, owner="worker")
    world.ledger.queue.fail(batch.token, batch.jobs[0].id, PARSE_ERROR, retry_at=None)
    assert world.ledger.quarantine.clusters()[0].sources == ("mail", "notes")


def test_entries_are_released_once_after_a_relevant_change(world: World) -> None:
    def begin(**now: str) -> int:
        world.ledger.syncs.end(world.sync.id, "completed", {})
        world.sync = world.ledger.syncs.begin(
            world.source.id, run=None, owner="w", code_version="1", alive=lambda _: False, circumstances=now
        )
        return world.ledger.quarantine.auto_retry(world.sync.id, now)

    begin(program="1", settings="a", login="x")
    world.see(note("a.md"), note("b.md"))
    batch = world.claim()
    refused = FailureInfo(Reason.PERMISSION_DENIED, FailureClass.PERMANENT, "AccessDenied", "it may not be read")
    for job, failure in zip(batch.jobs, (PARSE_ERROR, refused), strict=True):
        world.ledger.queue.fail(batch.token, job.id, failure, retry_at=None)
    assert begin(program="1", settings="a", login="x") == 0
    assert begin(program="2", settings="a", login="y") == 1, "the login is of today still"
    assert world.state(batch.jobs[0].id) == "pending"
    world.clock.forward(days=1)
    assert begin(program="2", settings="a", login="y") == 1
    assert world.events(batch.jobs[1].id)[-1] == "pending"
    assert begin(program="3", settings="b", login="z") == 0


def test_missing_item_is_not_retried_before_its_return(world: World) -> None:
    world.see(*notes(20))
    batch = world.claim()
    job = batch.jobs[0].id
    world.ledger.queue.fail(batch.token, job, PARSE_ERROR, retry_at=None)
    world.lose(*(item.locator for item in notes(20)))
    world.settle()
    with pytest.raises(IllegalTransition, match="missing at its source"):
        world.ledger.quarantine.retry([job], "anna")
    assert world.ledger.quarantine.retry(None, "anna") == 0
    assert world.ledger.check() == []
    world.see(*notes(20))
    assert world.ledger.quarantine.retry([job], "anna") == 1


def test_entry_closes_when_its_document_moves_to_another_item(world: World) -> None:
    world.ingest(note("a.md"), text="the same")
    world.see(note("a.md", "v2"))
    batch = world.claim()
    world.ledger.queue.fail(batch.token, batch.jobs[0].id, PARSE_ERROR, retry_at=None)
    world.lose("a.md")
    world.ingest(note("b.md"), text="the same")
    assert world.ledger.quarantine.list() == []
    assert world.ledger.quarantine.retry(None, "anna") == 0


def test_item_discarded_during_a_disk_absence_is_read_on_return(world: World) -> None:
    vanished = FailureInfo(Reason.INVALID_STATE, FailureClass.TRANSIENT, "Vanished", "It went away", retry_helps=True)
    world.see(*notes(20))
    batch = world.claim()
    away, damaged = batch.jobs[0], batch.jobs[1]
    world.ledger.queue.fail(batch.token, away.id, vanished, retry_at=None)
    world.ledger.queue.fail(batch.token, damaged.id, PARSE_ERROR, retry_at=None)
    world.lose(*(item.locator for item in notes(20)))
    world.settle()
    world.see(*notes(20))
    assert [entry.job for entry in world.ledger.quarantine.list()] == [damaged.id]
    assert away.item.locator in locators(world.claim())
