"""Undoing a sync reverts its additions, changes, deletions and moves without confusing the next sync."""

from __future__ import annotations

import pytest

from catchment.errors import NotFound, SkipReason, TryAgain
from catchment.ledger import SkippedOutcome, UndoAction, Undone
from catchment.ledger.admin.proof import ItemStatus
from catchment.ledger.db.database import Store
from catchment.runtime import process
from tests.ledger.world import World, killed_when_giving_way, note, notes

FOREVER = 10**12


def next_sync(world: World, outcome: str = "completed") -> int:
    """End the sync and start another; return the number of the ended sync."""
    ended = world.sync.id
    world.ledger.syncs.end(ended, outcome, {})  # type: ignore[arg-type]
    world.sync = world.begin()
    return ended


def undo(world: World, sync_id: int) -> Undone:
    """Undo between two syncs."""
    world.ledger.syncs.end(world.sync.id, "completed", {})
    try:
        return world.ledger.undo.undo(sync_id, "anna", "a mistake", lambda owner: True)
    finally:
        world.sync = world.begin()


def library(world: World) -> dict[str, str]:
    """Return the text of each path in the library."""
    names = world.ledger.library.names(world.source.id)
    return {named.locator: world.ledger.library.document(named.document).content.text for named in names}


def mixed_sync(world: World) -> tuple[int, dict[str, str]]:
    """Run a sync that adds, changes, deletes and moves; return its number and the library before it."""
    world.ingest(*notes(6))
    next_sync(world)
    before = library(world)
    world.lose("n/0.md", "n/1.md")
    world.see(note("new.md"), note("n/2.md", "v2", "n2"), note("moved.md", identity="n1"))
    world.deliver(world.claim())
    world.settle()
    assert library(world).keys() == {"new.md", "moved.md", *(f"n/{n}.md" for n in (2, 3, 4, 5))}
    return next_sync(world), before


@pytest.mark.databases
def test_undo_reverts_additions_changes_deletions_and_moves(world: World) -> None:
    sync_id, before = mixed_sync(world)
    assert world.ledger.undo.preview(sync_id).actions == {
        "moved.md": UndoAction.TAKE_OUT,
        "n/0.md": UndoAction.BRING_BACK,
        "n/1.md": UndoAction.BRING_BACK,
        "n/2.md": UndoAction.SET_BACK,
        "new.md": UndoAction.TAKE_OUT,
    }
    assert library(world) != before
    done = undo(world, sync_id)
    assert (done.count(UndoAction.BRING_BACK), done.number) == (2, sync_id + 2)
    assert library(world) == before
    assert sorted(world.found("says")) == sorted(before)
    assert world.found("v2") == []
    assert world.ledger.check(deep=True) == []


def test_undo_is_undone_by_its_number(world: World) -> None:
    sync_id, before = mixed_sync(world)
    after = library(world)
    number = undo(world, sync_id).number
    assert number is not None
    again = undo(world, number)
    assert library(world) == after
    assert {item.status for item in world.ledger.proof.items(world.source.id)} == {ItemStatus.STORED}
    assert again.number is not None
    undo(world, again.number)
    assert library(world) == before


def test_undone_items_are_skipped_until_changed_at_the_source(world: World) -> None:
    sync_id, before = mixed_sync(world)
    undo(world, sync_id)
    known = world.ledger.intake.known(world.source.id)
    there = {**known.within(""), **known.within("n")}
    assert there.keys() == {"new.md", "moved.md", *(f"n/{n}.md" for n in (2, 3, 4, 5))}, "as the source has it"
    world.see(note("new.md"), note("n/2.md", "v2", "n2"), note("moved.md", identity="n1"))
    assert world.settle().deleted == 0
    assert world.claim().jobs == ()
    assert library(world) == before
    world.ingest(note("new.md", "v2"), note("n/2.md", "v3", "n2"), note("n/0.md", "v2"))
    assert library(world) == {
        **before,
        "new.md": "What new says in v2",
        "n/2.md": "What 2 says in v3",
        "n/0.md": "What 0 says in v2",
    }


def test_restored_document_is_deleted_when_its_file_is_deleted_again(world: World) -> None:
    sync_id, _ = mixed_sync(world)
    undo(world, sync_id)
    world.see(note("n/0.md", identity="n0"))
    assert world.claim().jobs == (), "it is as it was"
    world.lose("n/0.md")
    assert world.settle().deleted == 1
    assert "n/0.md" not in library(world)


def test_items_changed_by_a_later_sync_are_kept_and_reported(world: World) -> None:
    sync_id, before = mixed_sync(world)
    world.ingest(note("n/2.md", "v3", "n2"))
    next_sync(world)
    done = undo(world, sync_id)
    assert done.actions["n/2.md"] is UndoAction.LEFT
    assert library(world) == {**before, "n/2.md": "What 2 says in v3"}


def test_later_changes_must_be_undone_first(world: World) -> None:
    sync_id, before = mixed_sync(world)
    between = library(world)
    world.lose("n/2.md", "new.md")
    world.ingest(note("n/0.md", "v3", "n0"), note("n/3.md", "v3", "n3"), text="of the later sync")
    world.settle()
    later = next_sync(world)
    redo = undo(world, later).number
    assert library(world) == between
    done = undo(world, sync_id)
    assert done.count(UndoAction.LEFT) == 0
    assert library(world) == before
    assert redo is not None and done.number is not None
    assert world.ledger.undo.preview(redo).count(UndoAction.LEFT) > 0
    undo(world, done.number)
    assert library(world) == between
    assert world.ledger.check(deep=True) == []


def test_repeated_undo_reports_no_changes(world: World) -> None:
    sync_id, before = mixed_sync(world)
    undo(world, sync_id)
    assert undo(world, sync_id) == Undone("notes", sync_id, None, {})
    assert library(world) == before


def test_addition_is_removed_although_its_file_was_touched_since(world: World) -> None:
    world.ingest(note("a.md"))
    first = next_sync(world)
    world.see(note("a.md", "touched"))
    batch = world.claim()
    unchanged = [SkippedOutcome(job.id, SkipReason.UNCHANGED) for job in batch.jobs]
    world.ledger.queue.deliver(batch.token, unchanged)
    next_sync(world)
    undo(world, first)
    assert library(world) == {}
    assert [item.status for item in world.ledger.proof.items(world.source.id)] == [ItemStatus.SET_ASIDE]


def test_places_that_were_swapped_are_swapped_back(world: World) -> None:
    world.ingest(note("a.md", identity="a"), note("b.md", identity="b"))
    next_sync(world)
    before = library(world)
    world.see(note("a.md", identity="b"), note("b.md", identity="a"))
    assert library(world) != before
    undo(world, next_sync(world))
    assert library(world) == before


def test_a_move_by_copy_and_delete_is_undone(world: World) -> None:
    world.ingest(note("old.md"), text="The same words")
    next_sync(world)
    world.lose("old.md")
    world.ingest(note("copy.md"), text="The same words")
    world.settle()
    assert library(world) == {"copy.md": "The same words"}
    undo(world, next_sync(world))
    assert library(world) == {"old.md": "The same words"}


def test_yielded_sync_is_undone_with_its_continuation(world: World) -> None:
    world.ingest(*notes(2))
    next_sync(world, "yielded")
    world.ingest(*notes(2, start=2))
    assert undo(world, next_sync(world)).count(UndoAction.TAKE_OUT) == 4
    assert library(world) == {}


def test_reverted_text_is_stored_once(world: World) -> None:
    world.ingest(note("a.md"), text="first")
    next_sync(world)
    world.ingest(note("a.md", "v2"), text="second")
    second = next_sync(world)
    world.ingest(note("a.md", "v3"), text="first")
    assert library(world) == {"a.md": "first"}
    next_sync(world)
    with pytest.raises(NotFound):
        world.ledger.undo.preview(99)
    assert world.ledger.undo.preview(second).actions == {}, "it is what it was before"


def test_undo_is_refused_during_a_sync_or_without_changes(world: World) -> None:
    world.ingest(*notes(2))
    first = next_sync(world)
    with pytest.raises(TryAgain, match="is running"):
        world.ledger.undo.undo(first, "anna", "", lambda owner: True)
    nothing = next_sync(world)
    with pytest.raises(NotFound, match="changed nothing"):
        undo(world, nothing)


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.databases
def test_undo_is_batched_and_resumes_after_a_kill(world: World, monkeypatch: pytest.MonkeyPatch, parts: int) -> None:
    sync_id, before = mixed_sync(world)
    after = library(world)
    world.ledger.syncs.end(world.sync.id, "completed", {})
    monkeypatch.setattr("catchment.ledger.items.undo._ROWS_AT_ONCE", 2)
    with monkeypatch.context() as patched:
        killed_when_giving_way(patched, parts)
        with pytest.raises(KeyboardInterrupt):
            world.ledger.undo.undo(sync_id, "anna", "", process.alive)
    assert library(world) != after
    world.reopen()
    with pytest.raises(TryAgain, match="already running"):
        world.ledger.syncs.begin(world.source.id, run=None, owner="w", code_version="1", alive=process.alive)
    killed = world.ledger.syncs.last(world.source.id)
    assert killed is not None
    done = world.ledger.undo.undo(sync_id, "anna", "", lambda _: False)
    assert (done.number, done.count(UndoAction.LEFT)) == (killed.id + 1, 0)
    assert world.ledger.undo.undone_by(sync_id) == done.number
    assert library(world) == before
    assert world.ledger.undo.undo(killed.id + 1, "anna", "", process.alive).number == killed.id + 2
    assert library(world) == after, "also what the killed one had undone"
    assert world.ledger.check(deep=True) == []


def test_undo_data_that_expires_during_an_undo_is_reported(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sync_id, _ = mixed_sync(world)
    world.ledger.syncs.end(world.sync.id, "completed", {})
    world.clock.forward(days=31)
    monkeypatch.setattr("catchment.ledger.items.undo._ROWS_AT_ONCE", 2)
    purged: list[int] = []

    def let_others_write(_: Store) -> None:
        if not purged:
            purged.append(0)
            purged.append(world.ledger.undo.purge(FOREVER))

    monkeypatch.setattr(Store, "let_others_write", let_others_write)
    with pytest.raises(NotFound, match="its undo data expired"):
        world.ledger.undo.undo(sync_id, "anna", "", process.alive)
    assert purged == [0, 2], "not what the undo itself keeps"
    assert world.ledger.check(deep=True) == []
    assert world.ledger.syncs.get(sync_id + 2).outcome == "crashed", "a process that lives on must not lock the source"


def test_undo_data_is_bounded_in_time(world: World) -> None:
    sync_id, _ = mixed_sync(world)
    world.clock.forward(days=29)
    assert world.ledger.undo.purge(FOREVER) == 0
    world.clock.forward(days=2)
    world.ledger.intake.purge()
    assert world.ledger.undo.purge(FOREVER) == 2
    assert world.ledger.check(deep=True) == []
    with pytest.raises(NotFound, match="its undo data expired"):
        world.ledger.undo.preview(sync_id)


@pytest.mark.databases
def test_undo_data_is_bounded_in_size_by_whole_syncs(world: World) -> None:
    world.ingest(*notes(3))
    first = next_sync(world)
    for version in ("v2", "v3"):
        world.ingest(*(note(f"n/{n}.md", version, f"n{n}") for n in range(3)))
        next_sync(world)
    size = 3 * len("What 0 says in v1")
    assert world.ledger.undo.purge(size) == 2
    assert world.ledger.undo.preview(first + 2).count(UndoAction.SET_BACK) == 3
    with pytest.raises(NotFound):
        world.ledger.undo.preview(first + 1)
    assert world.ledger.undo.purge(size - 1) == 1
    assert world.ledger.check(deep=True) == []


def test_undo_data_expires_in_batches_and_partial_data_blocks_undo(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync_id, _ = mixed_sync(world)
    assert world.ledger.undo.preview(sync_id).count(UndoAction.LEFT) == 0
    world.clock.forward(days=31)
    monkeypatch.setattr("catchment.ledger.items.undo._ROWS_AT_ONCE", 2)
    # In the middle of the second sync.
    killed_when_giving_way(monkeypatch, 4)
    with pytest.raises(KeyboardInterrupt):
        world.ledger.undo.purge(FOREVER)
    assert kept(world) == {sync_id}
    world.clock.set(hours=5)
    with world.ledger._store.write() as writing:
        world.ledger._monotonic.now(writing)
    with pytest.raises(NotFound, match="its undo data expired"):
        world.ledger.undo.preview(sync_id)
    assert world.ledger.undo.purge(FOREVER) == 1
    assert kept(world) == set()
    assert world.ledger.check(deep=True) == []


def kept(world: World) -> set[int]:
    """Return the syncs that have undo data."""
    with world.ledger._store.read() as reading:
        return set(reading.connection.exec_driver_sql("SELECT sync_id FROM formers").scalars())


def test_undo_data_of_a_running_sync_is_kept_at_any_size(world: World) -> None:
    world.ingest(*notes(3))
    next_sync(world)
    world.ingest(note("n/0.md", "v2", "n0"), note("n/1.md", "v2", "n1"))
    assert world.ledger.undo.purge(1) == 1
    world.ingest(note("n/2.md", "v2", "n2"))
    assert undo(world, world.sync.id).count(UndoAction.SET_BACK) == 3
    assert {text[-2:] for text in library(world).values()} == {"v1"}


def test_removed_source_leaves_no_undo_data(world: World) -> None:
    sync_id, _ = mixed_sync(world)
    world.ledger.sources.remove("notes", "anna", "")
    with pytest.raises(NotFound):
        world.ledger.undo.preview(sync_id)
    with world.ledger._store.read() as reading:
        for table in ("formers", "contents", "chunks"):
            assert reading.connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar() == 0


def numbers(world: World) -> dict[str, int]:
    """Return the document of each path in the library."""
    return {named.locator: named.document for named in world.ledger.library.names(world.source.id)}


MOVES = {
    "plain": {"a.md": "b.md"},
    "with an edit": {"a.md": "b.md"},
    "several": {"a.md": "x/a.md", "c.md": "x/c.md"},
    "to the path of another": {"a.md": "c.md", "c.md": "e.md"},
    "chain against the order": {"d.md": "c.md", "c.md": "a.md", "a.md": "b.md"},
    "swap": {"a.md": "c.md", "c.md": "a.md"},
}


@pytest.mark.parametrize("moves", MOVES)
@pytest.mark.databases
def test_moved_document_keeps_its_number_through_undo_and_redo(
    world: World, monkeypatch: pytest.MonkeyPatch, moves: str
) -> None:
    monkeypatch.setattr("catchment.ledger.items.undo._ROWS_AT_ONCE", 1)
    files = {name: f"id {name}" for name in ("a.md", "c.md", "d.md")}
    world.ingest(*(note(name, "v1", identity) for name, identity in files.items()))
    next_sync(world)
    before, its_text = numbers(world), library(world)
    version = "v2" if moves == "with an edit" else "v1"
    world.lose(*(MOVES[moves].keys() & files.keys() - set(MOVES[moves].values())))
    world.ingest(*(note(new, version, files[old]) for old, new in MOVES[moves].items()))
    world.settle()
    number = next_sync(world)
    after, new_text = numbers(world), library(world)
    assert all(after[new] == before[old] for old, new in MOVES[moves].items())
    for _ in range(2):
        done = undo(world, number)
        assert (numbers(world), library(world)) == (before, its_text)
        assert world.ledger.check(deep=True) == []
        world.see(*(note(new, version, files[old]) for old, new in MOVES[moves].items()))
        assert (world.settle().deleted, world.claim().jobs) == (0, ()), "the files are still at their new paths"
        assert numbers(world) == before
        next_sync(world)
        assert done.number is not None
        redone = undo(world, done.number)
        assert (numbers(world), library(world)) == (after, new_text)
        assert world.ledger.check(deep=True) == []
        assert {item.status for item in world.ledger.proof.items(world.source.id)} == {ItemStatus.STORED}
        assert redone.number is not None
        number = redone.number


def moved_note(world: World) -> dict[str, int]:
    """Store a.md, and move it to b.md in the next sync. Return the numbers of the documents before the move."""
    world.ingest(note("a.md", identity="a"))
    next_sync(world)
    before = numbers(world)
    world.lose("a.md")
    world.see(note("b.md", identity="a"))
    world.settle()
    return before


def test_moved_document_follows_its_file_back_after_an_undo(world: World) -> None:
    before = moved_note(world)
    undo(world, next_sync(world))
    item = world.ledger.intake.find("a.md")[0].id
    known = world.ledger.versions.of(item)
    assert [version.path for version in known.all] == ["a.md", "b.md", "a.md"] and known.is_complete
    world.lose("b.md")
    world.see(note("a.md", identity="a"))
    assert (world.settle().deleted, world.claim().jobs) == (1, ())
    assert numbers(world) == before
    world.ingest(note("a.md", "v2", "a"))
    assert numbers(world) == before and library(world) == {"a.md": "What a says in v2"}


def test_file_that_changes_at_its_new_path_after_an_undo_is_another_document(world: World) -> None:
    before = moved_note(world)
    moved = next_sync(world)
    undo(world, moved)
    world.ingest(note("b.md", "v2", "a"))
    assert library(world) == {"a.md": "What a says in v1", "b.md": "What b says in v2"}
    assert numbers(world)["a.md"] == before["a.md"]


def test_copied_and_deleted_document_keeps_its_number_through_an_undo(world: World) -> None:
    world.ingest(note("old.md"), text="The same words")
    next_sync(world)
    before = numbers(world)
    world.lose("old.md")
    world.ingest(note("copy.md"), text="The same words")
    world.settle()
    after = numbers(world)
    done = undo(world, next_sync(world))
    assert numbers(world) == before
    assert done.number is not None
    undo(world, done.number)
    assert numbers(world) == after
    assert world.ledger.check(deep=True) == []
