"""Sources and their syncs."""

from __future__ import annotations

import pytest

from catchment.errors import NotFound, NotNow, Refused, StaleLease, TryAgain
from catchment.ledger.items import sources
from catchment.model import Priority
from tests.ledger.world import World, killed_when_giving_way, note, notes

pytestmark = pytest.mark.databases


def test_source_is_created_once_and_updated_afterwards(world: World) -> None:
    sources = world.ledger.sources
    again = sources.put("notes", "obsidian", Priority.HIGH)
    assert (again.id, again.priority, again.state) == (world.source.id, Priority.HIGH, "active")
    sources.put("mail", "imap", Priority.LOW)
    assert [source.name for source in sources.all()] == ["mail", "notes"]
    with pytest.raises(Refused, match="exists as a source of kind obsidian"):
        sources.put("notes", "imap", Priority.HIGH)


def test_unknown_name_is_reported_with_similar_names(world: World) -> None:
    with pytest.raises(NotFound, match="did you mean notes"):
        world.ledger.sources.get("nots")
    with pytest.raises(NotFound, match="sources list"):
        world.ledger.sources.get("xyz")


def test_a_pause_and_a_hold_last_until_they_are_released(world: World) -> None:
    sources = world.ledger.sources
    sources.pause("notes", "anna", "on holiday")
    world.reopen()
    sources = world.ledger.sources
    assert (sources.get("notes").state, sources.get("notes").state_reason) == ("paused", "on holiday")
    sources.resume("notes", "anna")
    sources.hold("notes", "sync", "failed three times")
    assert sources.put("notes", "obsidian", Priority.NORMAL).state == "held"
    sources.resume("notes", "anna")
    assert (sources.get("notes").state, sources.get("notes").state_reason) == ("active", None)


def test_failed_syncs_are_counted_until_a_success(world: World) -> None:
    for outcome, failures in (("failed", 1), ("cancelled", 1), ("completed", 0), ("failed", 1), ("quarantined", 2)):
        world.sync = world.begin()
        world.ledger.syncs.end(world.sync.id, outcome, {"new": 1}, "it broke")  # type: ignore[arg-type]
        assert world.ledger.sources.get("notes").failures == failures
    world.ledger.sources.resume("notes", "anna")
    assert world.ledger.sources.get("notes").failures == 0


def test_hold_and_release_do_not_replace_the_pause_of_an_operator(world: World) -> None:
    world.ledger.sources.pause("notes", "anna", "not now")
    world.ledger.sources.hold("notes", "worker", "crashed twice")
    world.ledger.sources.release("notes", "catchment")
    assert world.ledger.sources.get("notes").state_reason == "not now"
    world.ledger.sources.resume("notes", "anna")
    world.ledger.sources.hold("notes", "worker", "crashed twice")
    world.ledger.sources.release("notes", "catchment")
    assert world.ledger.sources.get("notes").state == "active"


def test_no_sync_begins_after_its_source_was_paused_or_removed(world: World) -> None:
    world.ledger.syncs.end(world.sync.id, "completed", {})
    world.ledger.sources.pause("notes", "anna", "not now")
    with pytest.raises(NotNow, match="notes: paused"):
        world.begin()
    world.ledger.sources.remove("notes", "anna", "the wrong folder")
    with pytest.raises(NotNow, match="notes: removed"):
        world.begin()
    assert world.ledger.syncs.last(world.source.id).outcome == "completed"  # type: ignore[union-attr]


def test_a_source_has_one_open_sync(world: World) -> None:
    with pytest.raises(TryAgain, match="already running"):
        world.ledger.syncs.begin(world.source.id, run=None, owner="other", code_version="1", alive=lambda _: True)


def test_sync_of_a_dead_process_is_closed_and_its_jobs_requeued(world: World) -> None:
    world.see(note("a.md"))
    world.claim()
    world.clock.forward(minutes=1)
    crashed, world.sync = world.sync, world.begin()
    rows = world.ledger.syncs.recent(world.source.id)
    assert [(row.id, row.outcome) for row in rows] == [(world.sync.id, None), (crashed.id, "crashed")]
    assert rows[1].ended == world.clock.moment
    assert world.claim().jobs[0].attempt == 2


def test_sync_records_its_outcome(world: World) -> None:
    assert world.ledger.syncs.last(world.source.id) == world.ledger.syncs.recent()[0]
    world.ledger.syncs.end(world.sync.id, "failed", {"new": 3}, "The folder is gone")
    last = world.ledger.syncs.last(world.source.id)
    assert last is not None
    assert (last.source, last.run, last.owner, last.code_version) == ("notes", "run-1", "worker", "1")
    assert (last.outcome, last.summary, last.error) == ("failed", {"new": 3}, "The folder is gone")
    with pytest.raises(StaleLease, match="not open"):
        world.ledger.syncs.end(world.sync.id, "completed", {})
    assert world.ledger.syncs.last(99) is None
    assert world.ledger.syncs.recent(limit=0) == []


def test_interrupted_removal_is_batched_and_can_be_reverted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.ingest(note("read.md"))
    world.see(*notes(5))
    world.claim(1)
    monkeypatch.setattr(sources, "_JOBS_AT_ONCE", 2)
    killed_when_giving_way(monkeypatch, 3)
    with pytest.raises(KeyboardInterrupt):
        world.ledger.sources.remove("notes", "anna", "the wrong folder")
    world.ledger.sources.resume("notes", "anna")
    world.sync = world.begin()
    assert world.see(note("read.md"), *notes(5)).enqueued == 4, "the one that was worked on is so still"
    assert len(world.claim().jobs) == 4
    assert world.ledger.check() == []
    world.ledger.sources.remove("notes", "anna", "the wrong folder")
    assert world.ledger.queue.jobs() == []
