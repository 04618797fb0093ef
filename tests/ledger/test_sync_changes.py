"""The changes of a sync in the library, by name, and whether the sync can be undone."""

from __future__ import annotations

import pytest

from catchment.errors import NotFound
from catchment.ledger import ChangeCounts, ChangeKind, PathChange
from tests.ledger.world import World, note, notes


def next_sync(world: World) -> int:
    """End the open sync and begin another one; return the number of the new one."""
    world.ledger.syncs.end(world.sync.id, "completed", {})
    world.sync = world.begin()
    return world.sync.id


def names(world: World, sync: int, kind: ChangeKind) -> list[str]:
    return [row.path for row in world.ledger.syncs.changes(sync, kind).rows]


def change_everything(world: World) -> int:
    """Run a sync that adds, changes, moves and deletes one note each; another note stays."""
    world.ingest(*(note(f"{name}.md", identity=name) for name in ("changed", "moves", "deleted", "stays")))
    number = next_sync(world)
    world.lose("moves.md", "deleted.md")
    world.see(note("changed.md", "v2", identity="changed"), note("sub/moved.md", identity="moves"), note("new.md"))
    world.settle()
    world.deliver(world.claim())
    return number


def test_sync_names_what_it_added_changed_moved_and_deleted(world: World) -> None:
    number = change_everything(world)
    assert world.ledger.syncs.change_counts(number) == ChangeCounts(1, 1, 1, 1)
    assert names(world, number, ChangeKind.ADDED) == ["new.md"]
    assert names(world, number, ChangeKind.CHANGED) == ["changed.md"]
    (moved,) = world.ledger.syncs.changes(number, ChangeKind.MOVED).rows
    assert (moved.path, moved.moved_from, moved.title) == ("sub/moved.md", "moves.md", "moved")
    (deleted,) = world.ledger.syncs.changes(number, ChangeKind.DELETED).rows
    assert deleted == PathChange("deleted.md", "deleted", None)


def test_later_syncs_do_not_alter_what_a_sync_did(world: World) -> None:
    number = change_everything(world)
    before = {kind: names(world, number, kind) for kind in ChangeKind}
    next_sync(world)
    world.see(note("changed.md", "v3", identity="changed"), note("deleted.md", identity="deleted"))
    world.lose("new.md")
    world.settle()
    world.deliver(world.claim())
    assert {kind: names(world, number, kind) for kind in ChangeKind} == before
    assert world.ledger.syncs.change_counts(number) == ChangeCounts(1, 1, 1, 1)
    assert world.ledger.syncs.change_counts(world.sync.id) == ChangeCounts(1, 1, 0, 1)


def test_moved_and_edited_note_is_moved(world: World) -> None:
    world.ingest(note("a.md", identity="a"), note("b.md", identity="b"))
    number = next_sync(world)
    world.lose("a.md")
    world.ingest(note("c.md", "v2", identity="a"))
    world.settle()
    assert world.ledger.syncs.change_counts(number) == ChangeCounts(0, 0, 1, 0)
    assert world.ledger.syncs.changes(number, ChangeKind.MOVED).rows[0].moved_from == "a.md"


def test_copied_and_deleted_note_is_moved(world: World) -> None:
    world.ingest(note("a.md"), text="the same")
    number = next_sync(world)
    world.lose("a.md")
    world.ingest(note("b.md"), text="the same")
    world.settle()
    assert world.ledger.syncs.change_counts(number) == ChangeCounts(0, 0, 1, 0)
    assert world.ledger.syncs.changes(number, ChangeKind.MOVED).rows[0].moved_from == "a.md"


def test_copy_beside_its_original_is_added(world: World) -> None:
    world.ingest(note("a.md"), text="the same")
    number = next_sync(world)
    world.ingest(note("b.md"), text="the same")
    assert world.ledger.syncs.change_counts(number) == ChangeCounts(1, 0, 0, 0)


def test_changes_come_in_parts_with_a_total(world: World) -> None:
    world.ingest(*notes(5))
    for kind in (ChangeKind.ADDED, ChangeKind.CHANGED, ChangeKind.DELETED):
        parts, after = [], None
        while True:
            part = world.ledger.syncs.changes(world.sync.id, kind, after=after, limit=2)
            parts.append([row.path for row in part.rows])
            assert part.total == 5
            if (after := part.next) is None:
                break
        assert parts == [["n/0.md", "n/1.md"], ["n/2.md", "n/3.md"], ["n/4.md"]]
        next_sync(world)
        if kind is ChangeKind.ADDED:
            world.ingest(*(note(f"n/{n}.md", "v2", f"n{n}") for n in range(5)))
        else:
            world.lose(*(f"n/{n}.md" for n in range(5)))
            world.settle()


def test_sync_says_why_it_cannot_be_undone(world: World) -> None:
    undo, syncs = world.ledger.undo, world.ledger.syncs
    world.ingest(*notes(2))
    first = world.sync.id
    assert undo.refusal(first) == "a sync of the source is running"
    syncs.end(first, "completed", {"succeeded": 2})
    assert undo.refusal(first) is None
    idle = world.begin().id
    syncs.end(idle, "completed", {"listed": 2})
    assert undo.refusal(idle) == "it changed nothing"
    undone = undo.undo(first, "anna", "", lambda _: False).number
    assert undo.undone_by(first) == undone and undo.undone_by(idle) is None
    world.clock.forward(days=31)
    undo.purge(10**9)
    assert undo.refusal(first) == "its undo data expired"
    assert undo.refusal(99) == "not found"


def test_last_good_sync_is_no_undo_and_no_failure(world: World) -> None:
    syncs = world.ledger.syncs
    world.ingest(*notes(1))
    assert syncs.last_good(world.source.id) is None
    good = world.sync.id
    syncs.end(good, "completed", {"succeeded": 1})
    syncs.end(world.begin().id, "failed", {}, "folder not found")
    world.ledger.undo.undo(good, "anna", "", lambda _: False)
    found = syncs.last_good(world.source.id)
    assert found is not None and found.id == good


def test_syncs_come_in_parts_newest_first(world: World) -> None:
    numbers = [world.sync.id]
    for _ in range(4):
        numbers.append(next_sync(world))
    first = world.ledger.syncs.page(world.source.id, limit=3)
    second = world.ledger.syncs.page(after=first.next, limit=3)
    assert [row.id for page in (first, second) for row in page.rows] == numbers[::-1]
    assert (first.total, second.next) == (5, None)
    with pytest.raises(NotFound, match="sync 99: not found"):
        world.ledger.syncs.get(99)
