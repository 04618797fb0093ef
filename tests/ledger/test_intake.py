"""Changes reported by a connector become items and jobs."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import timedelta

import pytest

from catchment.contracts import Known
from catchment.errors import AccessDenied, FetchFailed, SkipReason, StaleLease
from catchment.ledger import IntakeCounts
from catchment.model import Failure, JobState, KnownItem, Priority, Skip, Tombstone, Upsert
from tests.documents import document_named
from tests.ledger.world import NORMALIZER, TIMEOUT, World, content, delivered, locators, note, notes


def test_a_new_item_becomes_one_job_however_often_it_is_recorded(world: World) -> None:
    assert world.see(note("a.md"), note("b/c.md")) == IntakeCounts(new=2, enqueued=2)
    assert world.see(note("a.md"), note("b/c.md")) == IntakeCounts(unchanged=2)
    assert locators(world.claim()) == ["a.md", "b/c.md"]


@pytest.mark.databases
def test_an_item_recorded_twice_at_once_is_one_item(world: World) -> None:
    assert world.see(note("a.md", "v1"), note("a.md", "v2")) == IntakeCounts(new=1, enqueued=1)
    assert world.claim().jobs[0].item.version == "v2"


def test_a_changed_attribute_costs_a_row_and_no_job(world: World) -> None:
    world.ingest(note("a.md"))
    assert world.see(note("a.md", attributes={"flags": ["seen"]})) == IntakeCounts(attributes=1)
    assert world.claim().jobs == ()
    assert world.ledger.intake.find("a.md")[0].attributes == {"flags": ["seen"]}


def test_a_new_version_supersedes_the_unfinished_job_of_the_old_one(world: World) -> None:
    world.see(note("a.md", "v1"))
    old = world.claim()
    assert world.see(note("a.md", "v2")) == IntakeCounts(changed=1, enqueued=1)
    assert world.state(old.jobs[0].id) == "superseded"
    assert world.deliver(old).stale == [old.jobs[0].id]
    assert world.claim().jobs[0].item.version == "v2"


def test_going_back_to_an_earlier_version_is_a_change_like_any_other(world: World) -> None:
    for version in ("v1", "v2", "v1"):
        world.ingest(note("a.md", version))
    assert world.found("says v1") == ["a.md"]


def test_changes_before_a_checkpoint_are_kept_with_its_cursors(world: World) -> None:
    world.record(Upsert(note("a.md")), inbox="7", sent="3")
    world.record(inbox="8", sent=None)
    world.reopen()
    assert world.ledger.intake.known(world.source.id).marks() == {"inbox": "8"}


@pytest.mark.databases
def test_failed_recording_is_rolled_back(world: World) -> None:
    with pytest.raises(StaleLease):
        world.ledger.intake.record(999, [Upsert(note("a.md"))], {"inbox": "7"})
    assert world.ledger.intake.known(world.source.id).marks() == {}
    assert world.ledger.intake.find("a.md") == []


def test_connector_receives_the_known_items_of_its_source(world: World) -> None:
    other = world.ledger.sources.put("other", "local_files", Priority.LOW)
    world.ledger.intake.record(world.begin(other).id, [Upsert(note("x/other.md"))], {"x": "1"})
    world.ingest(replace(note("x/a.md", identity="i1"), attributes={"etag": "7"}))
    world.record(
        Upsert(note("x/y/b.md")), Skip(note("x/c.bin"), SkipReason.UNSUPPORTED), Tombstone("nothing.md"), m="1"
    )
    known: Known = world.ledger.intake.known(world.source.id)
    assert known.marks() == {"m": "1"}
    assert known.containers() == {"x", "x/y"}
    within = known.within("x")
    assert set(within) == {"x/a.md", "x/c.bin"}
    stored = document_named(world.ledger, "x/a.md").content_hash
    assert within["x/a.md"] == KnownItem("v1", "i1", stored, {"etag": "7"})
    assert world.ledger.intake.places(world.source.id, ["i1", "i2"]) == [("i1", "x/a.md")]


@pytest.mark.databases
def test_a_moved_item_keeps_its_document_and_history_and_costs_no_job(world: World) -> None:
    world.ingest(note("old/Plan.md", identity="i1"))
    before = document_named(world.ledger, "old/Plan.md")
    assert world.record(Upsert(note("new/Goal.md", "v9", "i1")), Tombstone("old/Plan.md")) == IntakeCounts(
        moved=1, missing=1
    )
    assert world.settle().deleted == 0
    after = document_named(world.ledger, "new/Goal.md")
    assert (after.document, after.item_id) == (before.document, before.item_id)
    assert after.title == "Goal"
    assert world.claim().jobs == ()
    assert world.found("goal") == ["new/Goal.md"]
    assert world.found("plan says") == ["new/Goal.md"], "the text still says Plan"
    assert world.item_events("new/Goal.md")[-2:] == ["missing", "moved"]
    assert world.see(note("new/Goal.md", "v9", "i1")) == IntakeCounts(unchanged=1)


def test_a_move_is_recognized_when_the_tombstone_came_first(world: World) -> None:
    world.ingest(note("a.md", identity="i1"))
    world.lose("a.md")
    assert world.see(note("b.md", identity="i1")).moved == 1


def test_moved_document_keeps_an_explicit_title(world: World) -> None:
    world.see(note("a.md", identity="i1"))
    batch = world.claim()
    world.ledger.queue.deliver(batch.token, [delivered(batch.jobs[0].id, "words", title="My plan")])
    world.record(Tombstone("a.md"), Upsert(note("b.md", identity="i1")))
    assert document_named(world.ledger, "b.md").title == "My plan"


def test_unfinished_moved_item_is_processed_at_its_new_path(world: World) -> None:
    world.see(note("a.md", identity="i1"))
    old = world.claim()
    assert world.record(Tombstone("a.md"), Upsert(note("b.md", identity="i1"))).enqueued == 1
    assert world.deliver(old).succeeded == []
    assert locators(world.claim()) == ["b.md"]


@pytest.mark.parametrize(
    ("old", "new", "is_read_again"),
    [
        ("a.md", "x/b.MD", False),
        ("a.txt", "a.md", True),
        ("a.csv.gz", "a.json.gz", True),
        ("a.2025.csv.gz", "b.csv.gz", False),
        ("INBOX;UIDVALIDITY=1;UID=16", "Archive.2026;UIDVALIDITY=1;UID=2", False),
    ],
)
def test_moved_file_is_reread_if_its_name_implies_another_type(
    world: World, old: str, new: str, is_read_again: bool
) -> None:
    world.ingest(note(old, identity="i1"))
    assert world.record(Tombstone(old), Upsert(note(new, identity="i1"))).enqueued == is_read_again


def test_moved_and_edited_file_is_reread_and_keeps_its_document(world: World) -> None:
    world.ingest(note("a.md", "v1", "i1", size=10, modified=world.clock.moment))
    document = document_named(world.ledger, "a.md").document
    later = world.clock.moment + timedelta(seconds=1)
    changes = Tombstone("a.md"), Upsert(note("b.md", "v2", "i1", size=10, modified=later))
    assert world.record(*changes) == IntakeCounts(moved=1, missing=1, enqueued=1)
    world.deliver(world.claim())
    assert document_named(world.ledger, "b.md").document == document
    assert world.found("says v2") == ["b.md"]


@pytest.mark.parametrize("reason", [SkipReason.EXCLUDED, SkipReason.UNSUPPORTED])
def test_renamed_skipped_file_can_become_included(world: World, reason: SkipReason) -> None:
    world.record(Skip(note("drafts/a.bin", identity="i1"), reason))
    assert world.record(Tombstone("drafts/a.bin"), Upsert(note("a.md", identity="i1"))).enqueued == 1


def test_second_file_with_the_same_identity_is_not_a_move(world: World) -> None:
    world.ingest(note("a.md", identity="i1"))
    assert world.see(note("link.md", identity="i1")) == IntakeCounts(new=1, enqueued=1)
    assert world.lose("a.md").missing == 1
    assert world.settle().deleted == 1


def test_reported_move_keeps_the_item_despite_changed_content(world: World) -> None:
    world.ingest(note("old/a.md", "v1", "i1"), text="first words")
    came = Upsert(note("new/b.md", "v2", "i2"), came_from="old/a.md")
    assert world.record(Tombstone("old/a.md"), came) == IntakeCounts(moved=1, missing=1, enqueued=1)
    assert world.record(Tombstone("old/a.md"), came) == IntakeCounts(unchanged=2)
    world.deliver(world.claim(), text="other words")
    assert world.found("other") == ["new/b.md"]
    assert world.item_events("new/b.md").count("moved") == 1


def test_reported_move_is_applied_across_an_interrupted_listing(world: World) -> None:
    world.ingest(note("a.md", "v1", "i1"))
    world.lose("a.md")
    world.reopen()
    assert world.record(Upsert(note("b.md", "v1", "i1"), came_from="a.md")) == IntakeCounts(moved=1)


def test_reported_move_from_an_occupied_path_is_ignored(world: World) -> None:
    world.ingest(note("a.md", "v1", "i1"))
    assert world.record(Upsert(note("b.md", "v2", "i2"), came_from="a.md")) == IntakeCounts(new=1, enqueued=1)
    assert world.record(Upsert(note("c.md", "v3", "i3"), came_from="nowhere.md")) == IntakeCounts(new=1, enqueued=1)


def test_two_items_with_one_content_follow_their_reported_moves(world: World) -> None:
    world.ingest(note("a.md", "v", "same"), note("b.md", "v", "same"))
    changes = [Tombstone("a.md"), Tombstone("b.md")]
    changes += [Upsert(note(f"new/{n}.md", "v", "same"), came_from=f"{n}.md") for n in "ba"]
    assert world.record(*changes) == IntakeCounts(missing=2, moved=2)
    assert [event for event in world.item_events("new/a.md") if event == "moved"] == ["moved"]


def test_a_moved_item_may_take_the_place_of_a_deleted_one(world: World) -> None:
    world.ingest(note("a.md", identity="i1"), note("b.md", identity="i2"))
    world.lose("b.md")
    world.settle()
    assert world.record(Tombstone("a.md"), Upsert(note("b.md", identity="i1"))).moved == 1
    assert document_named(world.ledger, "b.md").title == "b"


@pytest.mark.databases
def test_files_that_swap_their_names_keep_their_documents(world: World) -> None:
    world.ingest(note("a.md", identity="i1"), note("b.md", identity="i2"))
    first = document_named(world.ledger, "a.md").document
    assert world.see(note("a.md", "v2", "i2"), note("b.md", "v2", "i1")) == IntakeCounts(moved=2)
    assert document_named(world.ledger, "b.md").document == first
    assert world.claim().jobs == ()


def test_a_chain_of_renames_keeps_every_document(world: World) -> None:
    world.ingest(*(note(f"log.{n}", identity=f"i{n}") for n in (1, 2, 3)))
    before = [document_named(world.ledger, f"log.{n}").document for n in (1, 2, 3)]
    moved = [Upsert(note(f"log.{n + 1}", identity=f"i{n}")) for n in (1, 2, 3)]
    assert world.record(Tombstone("log.1"), *moved) == IntakeCounts(missing=1, moved=3)
    assert [document_named(world.ledger, f"log.{n}").document for n in (2, 3, 4)] == before
    assert world.claim().jobs == ()
    assert world.settle().deleted == 0


def test_editor_backup_file_is_a_new_item(world: World) -> None:
    world.ingest(note("a.md", identity="i1"))
    document = document_named(world.ledger, "a.md").document
    counts = world.see(note("a.md", "v2", "i2"), note("a.md~", "v1", "i1"))
    assert counts == IntakeCounts(new=1, changed=1, enqueued=2)
    assert document_named(world.ledger, "a.md").document == document


def test_file_moved_over_another_is_a_new_version_of_it(world: World) -> None:
    world.ingest(note("a.md", identity="i1"), note("b.md", identity="i2"))
    counts = world.record(Tombstone("a.md"), Upsert(note("b.md", "v2", "i1")))
    assert counts == IntakeCounts(missing=1, changed=1, enqueued=1)
    assert world.settle().deleted == 1


def test_deleted_item_leaves_the_library_and_can_return(world: World) -> None:
    world.ingest(note("a.md"), note("b.md"))
    before = document_named(world.ledger, "a.md")
    world.lose("a.md")
    assert world.settle().deleted == 1
    assert world.found("says") == ["b.md"]
    assert world.ledger.library.names(world.source.id)[0].locator == "b.md"
    world.ledger.syncs.end(world.sync.id, "completed", {})
    world.sync = world.begin()
    assert world.see(note("a.md")) == IntakeCounts(revived=1)
    assert document_named(world.ledger, "a.md") == before
    assert world.found("a") == ["a.md"]


def test_deleted_item_that_returns_changed_keeps_its_document(world: World) -> None:
    world.ingest(note("a.md"))
    before = document_named(world.ledger, "a.md").document
    world.lose("a.md")
    world.settle()
    world.ingest(note("a.md", "v2"))
    assert document_named(world.ledger, "a.md").document == before


def test_job_of_a_deleted_item_is_cancelled_and_restarted_on_return(world: World) -> None:
    world.see(note("a.md"))
    batch = world.claim()
    world.lose("a.md")
    assert world.deliver(batch).stale == [batch.jobs[0].id]
    assert world.see(note("a.md")) == IntakeCounts(revived=1, enqueued=1)
    assert locators(world.claim()) == ["a.md"]


def test_a_skipped_item_is_recorded_with_its_reason_and_loses_its_document(world: World) -> None:
    world.ingest(note("a.md"))
    skip = Skip(note("a.md"), SkipReason.TOO_LARGE)
    assert world.record(skip) == IntakeCounts(changed=1, skipped=1)
    assert world.record(skip) == IntakeCounts(unchanged=1)
    item = world.ledger.intake.find("a.md")[0]
    assert (item.job_state, item.job_reason, item.document) == (JobState.SKIPPED, "too_large", None)
    assert world.found("says") == []


def test_reincluded_item_is_processed_although_unchanged(world: World) -> None:
    world.record(Skip(note("a.md"), SkipReason.EXCLUDED))
    assert world.see(note("a.md")).enqueued == 1


def test_item_with_a_listing_failure_is_quarantined_or_retried(world: World) -> None:
    denied = Failure(note("secret.md"), AccessDenied("Permission denied; allow reading it"))
    failed = Failure(note("slow.md"), FetchFailed("It did not answer"))
    assert world.record(denied, failed) == IntakeCounts(new=2, failed=2)
    assert world.record(denied, failed) == IntakeCounts(unchanged=2)
    entry = world.ledger.quarantine.list()[0]
    assert (entry.item, entry.reason, entry.attempts, entry.run) == ("secret.md", "permission_denied", 1, "run-1")
    assert world.ledger.queue.waiting(world.source.id).later == 1
    world.clock.forward(minutes=5)
    assert locators(world.claim(fresh=False)) == ["slow.md"]


def test_changed_item_with_a_listing_failure_leaves_quarantine(world: World) -> None:
    world.record(Failure(note("a.md", "v1"), AccessDenied("Permission denied")))
    world.see(note("a.md", "v2"))
    assert world.ledger.quarantine.list() == []
    assert locators(world.claim()) == ["a.md"]


@pytest.mark.databases
def test_removed_source_leaves_no_hits_and_starts_empty_when_readded(world: World) -> None:
    world.ingest(*notes(3))
    world.see(note("later.md"))
    world.record(m="1")
    world.ledger.syncs.end(world.sync.id, "completed", {})
    world.ledger.sources.remove("notes", "anna", "not wanted")
    assert world.ledger.sources.all() == []
    assert world.found("says") == []
    assert world.ledger.library.sizes() == {}
    assert world.ledger.check(deep=True) == []
    world.source = world.ledger.sources.put("notes", "local_files", Priority.HIGH)
    world.sync = world.begin()
    assert world.ledger.intake.known(world.source.id).marks() == {}
    assert world.see(*notes(3)) == IntakeCounts(new=3, enqueued=3)


def test_sync_of_a_removed_source_records_no_changes(world: World) -> None:
    world.ledger.sources.remove("notes", "anna", "not wanted")
    with pytest.raises(StaleLease):
        world.see(note("a.md"))


@pytest.mark.databases
def test_item_is_found_by_locator_suffix_and_name(world: World) -> None:
    world.see(note("p/Plan.md"), note("q/Plan.md"), note("100%_sure.md"))
    assert [row.locator for row in world.ledger.intake.find("q/Plan.md")] == ["q/Plan.md"]
    assert {row.locator for row in world.ledger.intake.find("Plan.md")} == {"p/Plan.md", "q/Plan.md"}
    assert {row.locator for row in world.ledger.intake.find("Plan", source="notes")} == {"p/Plan.md", "q/Plan.md"}
    assert [row.locator for row in world.ledger.intake.find("100%_sure")] == ["100%_sure.md"]
    assert world.ledger.intake.find("_lan.md") == []


@pytest.mark.databases
def test_tombstone_and_its_data_expire_after_thirty_days(world: World) -> None:
    world.ingest(note("a.md"), note("b.md"))
    world.lose("a.md")
    world.settle()
    world.clock.forward(days=29)
    assert world.ledger.intake.purge() == 0
    world.clock.forward(days=2)
    assert world.ledger.intake.purge() == 1
    assert world.ledger.intake.find("a.md") == []
    ids = [content(f"What {name} says in v1") for name in "ab"]
    assert world.ledger.library.contents(ids, NORMALIZER).keys() == {ids[1]}
    assert world.ledger.check(deep=True) == []


def test_a_failure_of_the_newer_version_leaves_the_last_good_document(world: World) -> None:
    world.ingest(note("a.md", "v1"))
    world.see(note("a.md", "v2"))
    batch = world.claim()
    world.ledger.queue.fail(batch.token, batch.jobs[0].id, TIMEOUT, retry_at=None)
    assert world.found("says v1") == ["a.md"]
    assert world.ledger.quarantine.list()[0].document == document_named(world.ledger, "a.md").document


@pytest.mark.databases
def test_long_paths_are_indexed_moved_and_deleted(world: World) -> None:
    digits = "".join(hashlib.sha512(bytes([n])).hexdigest() for n in range(32))
    folder = f"{digits[:2_000]}/{digits[2_000:3_900]}"
    world.ingest(note(f"{folder}/a.md", identity="a"))
    world.record(Upsert(note(f"{folder}/b.md", identity="a")), Tombstone(f"{folder}/a.md"), **{folder: "seen"})
    known = world.ledger.intake.known(world.source.id)
    assert (list(known.within(folder)), known.marks()) == ([f"{folder}/b.md"], {folder: "seen"})
    world.lose(f"{folder}/b.md")
    world.settle()
    assert (world.found("says"), dict(known.within(folder))) == ([], {})
    world.see(note(f"{folder}/b.md", identity="a"))
    assert world.found("says") == [f"{folder}/b.md"]


def test_missing_file_reappears_elsewhere_while_its_path_is_reused(world: World) -> None:
    world.ingest(note("a.md", identity="i1"))
    document = document_named(world.ledger, "a.md").document
    world.lose("a.md")
    assert world.see(note("a.md", "v5", "i9"), note("b.md", "v1", "i1")) == IntakeCounts(new=1, moved=1, enqueued=1)
    assert document_named(world.ledger, "b.md").document == document
