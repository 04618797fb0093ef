"""The mass-deletion guard: a listing that resembles an unmounted disk deletes no documents."""

from __future__ import annotations

import pytest
from sqlalchemy import event

from catchment.errors import NotFound
from catchment.ledger import Settled
from catchment.ledger.db.database import Store
from catchment.ledger.items import deletion_guard
from catchment.model import Tombstone
from tests.ledger.world import PARSE_ERROR, World, killed_when_giving_way, note, notes


def next_sync(world: World) -> None:
    world.ledger.syncs.end(world.sync.id, "completed", {})
    world.sync = world.begin()


@pytest.mark.databases
def test_emptied_folder_deletes_no_documents(world: World) -> None:
    world.ingest(*notes(11))
    world.lose(*(item.locator for item in notes(11)))
    assert world.settle() == Settled(0, 11)
    assert len(world.found("says")) == 11
    hold = world.ledger.intake.holds()[0]
    assert (hold.source, hold.count, hold.reason) == ("notes", 11, "11 of 11 items are gone")


@pytest.mark.parametrize(("total", "gone", "deleted"), [(11, 10, 10), (300, 30, 30), (300, 31, 0), (10, 10, 10)])
def test_few_deletions_are_applied_and_many_are_held(world: World, total: int, gone: int, deleted: int) -> None:
    world.see(*notes(total))
    world.lose(*(item.locator for item in notes(gone)))
    assert world.settle() == Settled(deleted, gone - deleted)


def test_small_deletions_are_held_along_with_a_large_one(world: World) -> None:
    world.see(*notes(50))
    world.lose(*(item.locator for item in notes(20)))
    world.settle()
    next_sync(world)
    world.lose("n/20.md")
    assert world.settle() == Settled(0, 21)
    assert [hold.count for hold in world.ledger.intake.holds(world.source.id)] == [21]


def test_held_deletions_stay_held_despite_later_additions(world: World) -> None:
    world.see(*notes(50))
    world.lose(*(item.locator for item in notes(20)))
    world.settle()
    next_sync(world)
    world.clock.forward(minutes=15)
    world.see(*notes(300, folder="new"))
    assert world.settle() == Settled(0, 20)
    assert [hold.reason for hold in world.ledger.intake.holds()] == ["20 of 50 items are gone"]
    world.see(*notes(11))
    assert world.settle() == Settled(9, 0)


def test_changed_root_holds_even_a_single_deletion(world: World) -> None:
    assert world.sees_root("disk 1") == []
    world.ingest(*notes(3))
    assert world.sees_root("disk 2") == [""]
    world.lose("n/0.md")
    assert world.settle(changed_roots=[""]) == Settled(0, 1)
    assert world.sees_root("disk 2") == [""], "the old one is still remembered"
    assert world.sees_root("disk 1") == []


@pytest.mark.databases
def test_versioned_deletions_apply_beside_held_ones(world: World) -> None:
    world.ingest(*notes(40))
    world.record(*(Tombstone(item.locator, versioned=True) for item in notes(15)))
    world.lose(*(item.locator for item in notes(30)[15:]))
    next_sync(world)
    assert world.settle() == Settled(15, 15), "also in the sync after a crash"
    assert [hold.reason for hold in world.ledger.intake.holds()] == ["15 of 25 items are gone"]
    assert world.ledger.library.sizes()["notes"] == 25


def test_versioned_deletions_are_not_held_for_a_changed_root(world: World) -> None:
    world.sees_root("disk 1")
    world.ingest(*notes(3))
    assert world.sees_root("disk 2") == [""]
    world.record(Tombstone("n/0.md", versioned=True))
    assert world.settle(changed_roots=[""]) == Settled(1, 0)
    assert world.sees_root("disk 2") == [], "nothing contradicts it"


def test_each_part_of_a_source_has_its_own_root(world: World) -> None:
    roots = world.ledger.sources.changed_roots
    assert roots(world.sync.id, {"a": "1", "b": "2"}) == []
    world.ingest(*notes(2))
    assert roots(world.sync.id, {"a": "7", "b": "2", "c": "3"}) == ["a"]
    world.lose("n/0.md")
    assert world.settle(changed_roots=["a"]) == Settled(0, 1)
    assert [hold.reason for hold in world.ledger.intake.holds()] == ["a is another one than before"]
    assert roots(world.sync.id, {"c": "4"}) == ["c"], "a new part is accepted at once"
    assert world.ledger.intake.known(world.source.id).roots() == {"a": "1", "b": "2", "c": "3"}


def test_remounted_disk_ends_the_hold_without_new_jobs(world: World) -> None:
    world.ingest(*notes(20))
    world.lose(*(item.locator for item in notes(20)))
    world.settle()
    next_sync(world)
    assert world.see(*notes(20)).revived == 20
    assert world.settle() == Settled(0, 0)
    assert world.ledger.intake.holds() == []
    assert world.claim().jobs == ()


def test_changed_root_with_all_items_is_accepted(world: World) -> None:
    world.sees_root("disk 1")
    world.ingest(*notes(3))
    world.sees_root("disk 2")
    assert world.settle(changed_roots=[""]) == Settled(0, 0)
    assert world.sees_root("disk 2") == []
    assert world.ledger.intake.known(world.source.id).roots() == {"": "disk 2"}


def test_held_deletion_is_applied_on_approval(world: World) -> None:
    world.sees_root("disk 1")
    world.ingest(*notes(20))
    world.sees_root("disk 2")
    world.lose(*(item.locator for item in notes(15)))
    world.settle(changed_roots=[""])
    assert world.ledger.intake.apply_hold(world.source.id, "anna", "moved house") == 15
    assert len(world.found("says")) == 5
    assert world.ledger.intake.holds() == []
    assert world.sees_root("disk 2") == []
    last = world.ledger.history.of_item(world.ledger.intake.find("n/0.md")[0].id)[-1]
    assert (last.event, last.actor, last.reason) == ("deleted", "anna", "moved house")


def test_large_deletion_yields_to_writers_and_resumes_after_a_kill(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ingest(*notes(20))
    world.lose(*(item.locator for item in notes(20)))
    assert world.settle().held == 20
    monkeypatch.setattr(deletion_guard, "_DELETED_AT_ONCE", 4)

    def is_killed(store: Store) -> None:
        # A waiting writer runs now: item 15 is restored.
        world.see(note("n/15.md", identity="n15"))
        raise KeyboardInterrupt

    monkeypatch.setattr(Store, "let_others_write", is_killed)
    with pytest.raises(KeyboardInterrupt):
        world.ledger.intake.apply_hold(world.source.id, "anna", "")
    assert [hold.count for hold in world.ledger.intake.holds()] == [20], "not decided"
    assert len(world.found("says")) == 16
    assert world.ledger.check() == []
    monkeypatch.setattr(Store, "let_others_write", lambda store: None)
    assert world.ledger.intake.apply_hold(world.source.id, "anna", "") == 15
    assert world.found("says") == ["n/15.md"]
    assert world.ledger.intake.holds() == []


def test_dropped_hold_is_reevaluated_by_the_next_listing(world: World) -> None:
    world.ingest(*notes(20))
    world.see(note("unfinished.md"))
    world.lose("unfinished.md", *(item.locator for item in notes(20)))
    world.settle()
    assert world.ledger.intake.drop_hold(world.source.id, "anna", "a mistake") == 21
    assert world.ledger.intake.holds() == []
    assert {known.version for known in world.ledger.intake.known(world.source.id).within("n").values()} == {""}
    next_sync(world)
    counts = world.see(*notes(20), note("unfinished.md"))
    assert (counts.enqueued, counts.revived, counts.new) == (1, 0, 0)
    assert world.settle() == Settled(0, 0)


def test_dropping_a_large_hold_is_batched_and_resumes_after_a_kill(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ingest(*notes(20))
    world.lose(*(item.locator for item in notes(20)))
    world.settle()
    monkeypatch.setattr(deletion_guard, "_DELETED_AT_ONCE", 5)
    killed_when_giving_way(monkeypatch, 3)
    with pytest.raises(KeyboardInterrupt):
        world.ledger.intake.drop_hold(world.source.id, "anna", "a mistake")
    assert [hold.count for hold in world.ledger.intake.holds()] == [20], "not decided"
    assert world.ledger.check() == []
    assert world.ledger.intake.drop_hold(world.source.id, "anna", "a mistake") == 5
    assert world.ledger.intake.holds() == []
    assert {known.version for known in world.ledger.intake.known(world.source.id).within("n").values()} == {""}


@pytest.mark.parametrize(
    ("decide", "results"),
    [
        ("apply_hold", [{"decided": 20}, {"deleted": 20}]),
        ("drop_hold", [{"decided": 20}, {"decided": 20}]),
    ],
)
def test_decision_corrects_the_results_of_the_syncs(world: World, decide: str, results: list[dict[str, int]]) -> None:
    world.ingest(*notes(20))
    world.ledger.syncs.end(world.sync.id, "completed", {"succeeded": 20})
    world.sync = world.begin()
    world.lose(*(item.locator for item in notes(20)))
    for number in range(2):
        world.sync = world.begin() if number else world.sync
        assert world.settle().held == 20
        world.ledger.syncs.end(world.sync.id, "completed", {"held": 20})
    getattr(world.ledger.intake, decide)(world.source.id, "anna", "")
    assert [row.summary for row in reversed(world.ledger.syncs.recent())] == [{"succeeded": 20}, *results]


def test_decision_without_held_deletions_is_refused(world: World) -> None:
    with pytest.raises(NotFound, match="deletions list"):
        world.ledger.intake.apply_hold(world.source.id, "anna", "because")
    with pytest.raises(NotFound, match="deletions list"):
        world.ledger.intake.drop_hold(world.source.id, "anna", "because")


def test_the_quarantine_entry_of_a_deleted_item_closes(world: World) -> None:
    world.see(note("bad.pdf"))
    batch = world.claim()
    world.ledger.queue.fail(batch.token, batch.jobs[0].id, PARSE_ERROR, retry_at=None)
    world.lose("bad.pdf")
    assert len(world.ledger.quarantine.list()) == 1
    world.settle()
    assert world.ledger.quarantine.list() == []


def test_large_purge_yields_to_other_writers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion_guard, "_FORGOTTEN_AT_ONCE", 4)
    world.ingest(*notes(10))
    world.lose(*(item.locator for item in notes(10)))
    world.settle()
    world.clock.forward(days=31)
    commits: list[object] = []
    committed = commits.append
    event.listen(world.ledger._store.engine, "commit", committed)
    assert world.ledger.intake.purge() == 10
    event.remove(world.ledger._store.engine, "commit", committed)
    assert len(commits) == 4
