"""The versions of a document: from before-images, along moves, deletions and undos, as long as they are kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from catchment.errors import NotFound
from catchment.ledger import Ledger
from catchment.model import Entity, EntityKind
from catchment.views import resolver
from catchment.views.versions import versions as views
from catchment.views.versions.text_diff import unified
from catchment.views.versions.versions import DocumentHistory
from tests.ledger.test_undo import FOREVER, undo
from tests.ledger.world import World, delivered, note


def next_sync(world: World) -> int:
    """End the open sync and begin another one an hour later; return the number of the new one."""
    world.ledger.syncs.end(world.sync.id, "completed", {})
    world.clock.forward(hours=1)
    world.sync = world.begin()
    return world.sync.id


def bees(world: World, version: str, *lines: str, path: str = "Bees.md") -> datetime:
    """Store a version of a note in a new sync; return when."""
    next_sync(world)
    if path != "Bees.md" or version == "away":
        world.lose("Bees.md")
    if lines:
        world.ingest(note(path, version, "bees"), text="\n".join(lines))
    world.settle()
    return world.clock.moment


def item(world: World, name: str = "Bees.md") -> int:
    return resolver.item(world.ledger, name, dict).id


def versions(world: World, name: str = "Bees.md") -> DocumentHistory:
    return views.history(world.ledger, item(world, name))


def said(found: DocumentHistory) -> list[str]:
    return [one.what for one in found.versions]


@pytest.mark.databases
def test_versions_have_their_dates_syncs_and_changes(world: World) -> None:
    first = bees(world, "v1", "one", "two")
    second, sync = bees(world, "v2", "one", "2", "three"), world.sync.id
    found = versions(world)
    assert said(found) == ["+2 -1 lines, tags", "added"]
    latest, earliest = found.versions
    assert (latest.since, latest.until, latest.sync) == (second, None, sync)
    assert (earliest.since, earliest.until, found.expired) == (first, second, None)
    assert (latest.fields[0].before, latest.fields[0].after) == ("Übung/v1", "Übung/v2")
    for moment in (first, second - timedelta(seconds=1)):
        _, shown = views.as_of(world.ledger, item(world), moment)
        assert (shown.content.text, shown.document) == ("one\ntwo", found.document)
    assert views.as_of(world.ledger, item(world), second)[1].content.text == "one\n2\nthree"


def test_a_time_before_the_document_has_no_version(world: World) -> None:
    first = bees(world, "v1", "one")
    with pytest.raises(NotFound, match=r"Bees\.md: not in the library at 2026-11-20 12:59 UTC"):
        views.as_of(world.ledger, item(world), first - timedelta(seconds=1))
    found = views.diff(world.ledger, item(world), since=first - timedelta(seconds=1))
    assert (found.after.what, [line.sign for line in found.lines]) == ("added", ["@", "+"])


@pytest.mark.databases
def test_versions_follow_a_move_and_its_old_path_leads_to_them(world: World) -> None:
    first = bees(world, "v1", "one")
    moved = bees(world, "v1", "one", path="old/Bees.md")
    bees(world, "v2", "one", "two", path="old/Bees.md")
    found = versions(world, "old/Bees.md")
    assert said(found) == ["+1 -0 lines, tags", "moved from Bees.md", "added"]
    assert [one.path for one in found.versions] == ["old/Bees.md", "old/Bees.md", "Bees.md"]
    assert [one.since for one in found.versions[1:]] == [moved, first]
    assert versions(world, "Bees.md") == found


def test_versions_follow_a_copy_whose_original_was_deleted(world: World) -> None:
    world.ingest(note("a.md"), text="the same words")
    number = versions(world, "a.md").document
    next_sync(world)
    world.lose("a.md")
    world.ingest(note("b.md"), text="the same words")
    world.settle()
    found = versions(world, "b.md")
    assert (said(found), found.document) == (["moved from a.md, title", "added"], number)
    assert versions(world, "a.md") == found


@pytest.mark.databases
def test_a_deleted_document_is_found_by_path_and_number_and_may_return(world: World) -> None:
    first = bees(world, "v1", "one")
    number = versions(world).document
    bees(world, "away")
    for name in ("Bees.md", str(number)):
        found = versions(world, name)
        assert (said(found), found.document) == (["deleted", "added"], number)
    with pytest.raises(NotFound, match=r"not in the library at 2026-11-20 14:00 UTC; see catchment history 1"):
        views.as_of(world.ledger, item(world), world.clock.moment)
    assert views.as_of(world.ledger, item(world), first)[1].content.text == "one"
    gone = views.diff(world.ledger, item(world))
    assert ([line.sign for line in gone.lines], gone.after.what) == (["@", "-"], "deleted")
    bees(world, "v2", "two")
    assert said(versions(world)) == ["restored", "deleted", "added"]


def test_undo_of_a_sync_is_a_version(world: World) -> None:
    bees(world, "v1", "one")
    bees(world, "v2", "two")
    changed = world.sync.id
    world.clock.forward(hours=1)
    number = undo(world, changed).number
    found = versions(world)
    assert said(found) == ["+1 -1 lines, tags"] * 2 + ["added"]
    assert (found.versions[0].sync, found.versions[1].sync) == (number, changed)
    assert views.as_of(world.ledger, item(world), world.clock.moment)[1].content.text == "one"


def test_undone_move_is_part_of_the_versions_at_its_path(world: World) -> None:
    bees(world, "v1", "one")
    bees(world, "v1", "one", path="new.md")
    undo(world, world.sync.id)
    assert said(versions(world, "Bees.md")) == ["moved from new.md, title", "moved from Bees.md, title", "added"]


@pytest.mark.databases
def test_expired_versions_are_said_to_be_gone(world: World) -> None:
    bees(world, "v1", "one")
    second = bees(world, "v2", "two")
    world.clock.forward(days=29)
    third = bees(world, "v3", "three")
    world.ledger.syncs.end(world.sync.id, "completed", {})
    world.clock.forward(days=2)
    assert world.ledger.undo.purge(FOREVER) == 2
    world.sync = world.begin()
    found = versions(world)
    gone = "older versions than that of 2026-11-20 14:00 UTC are gone: notes keeps them for at most 30 days"
    assert said(found) == ["+1 -1 lines, tags", ""]
    assert found.expired == f"{gone} (setting keep_days)"
    assert [one.since for one in found.versions] == [third, second]
    assert views.as_of(world.ledger, item(world), second)[1].content.text == "two"
    for ask in (views.as_of, views.diff):
        with pytest.raises(NotFound, match=r"no version of 2026-11-20 13:00 UTC; older versions than .* are gone"):
            ask(world.ledger, item(world), second - timedelta(hours=1))
    world.clock.forward(days=30)
    world.ledger.syncs.end(world.sync.id, "completed", {})
    world.ledger.undo.purge(FOREVER)
    world.sync = world.begin()
    with pytest.raises(NotFound, match=r"Bees\.md: no earlier version; older versions than"):
        views.diff(world.ledger, item(world))
    assert views.as_of(world.ledger, item(world), third)[1].content.text == "three"


def test_expired_life_before_a_deletion_is_not_denied(world: World) -> None:
    bees(world, "v1", "one")
    bees(world, "away")
    world.ledger.syncs.end(world.sync.id, "completed", {})
    world.clock.forward(days=20)
    world.sync = world.begin()
    back = bees(world, "v2", "two")
    world.ledger.syncs.end(world.sync.id, "completed", {})
    world.clock.forward(days=15)
    world.ledger.undo.purge(FOREVER)
    world.sync = world.begin()
    found = versions(world)
    assert [(one.what, one.since) for one in found.versions] == [("", back)]
    assert found.expired is not None


def test_sources_keep_versions_as_long_as_they_say(world: World) -> None:
    world.ledger.sources.put("notes", "obsidian", world.source.priority, keep_days=60)
    bees(world, "v1", "one")
    bees(world, "v2", "two")
    bees(world, "away")
    world.ledger.syncs.end(world.sync.id, "completed", {})
    world.clock.forward(days=59)
    assert (world.ledger.undo.purge(FOREVER), world.ledger.intake.purge()) == (0, 0)
    world.clock.forward(days=2)
    assert (world.ledger.undo.purge(FOREVER), world.ledger.intake.purge()) == (3, 1)
    world.sync = world.begin()


def test_versions_that_are_being_deleted_are_not_shown(world: World) -> None:
    bees(world, "v1", "one")
    bees(world, "v2", "two")
    bees(world, "v3", "three")
    with world.ledger._store.engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE formers SET kept_at = 0 WHERE sync_id = {world.sync.id - 1}")
    found = versions(world)
    assert said(found) == ["+1 -1 lines, tags", ""]
    assert found.expired is not None


def test_text_that_was_read_again_is_no_new_version(world: World) -> None:
    first = bees(world, "v1", "one")
    next_sync(world)
    world.see(note("Bees.md", "touched", "bees"))
    batch = world.claim()
    tags = [Entity(EntityKind.TAG, "Übung/v1")]
    again = delivered(batch.jobs[0].id, "one", title="Bees", entities=tags)
    world.ledger.queue.deliver(batch.token, [replace(again, normalizer="2")])
    assert [(one.what, one.since, one.until) for one in versions(world).versions] == [("added", first, None)]


def test_assistants_see_versions_of_visible_sources_only(sqlite_world: World, sqlite_url: str) -> None:
    world = sqlite_world
    first = bees(world, "v1", "one")
    bees(world, "v2", "two")
    number = item(world)
    with_notes = Ledger.inspect(sqlite_url, only=["notes"])
    assert views.as_of(with_notes, number, first)[1].content.text == "one"
    with_notes.close()
    without = Ledger.inspect(sqlite_url, only=["others"])
    with pytest.raises(NotFound):
        views.history(without, number)
    with pytest.raises(NotFound):
        resolver.item(without, "Bees.md", dict)
    without.close()


def test_withdrawn_consent_deletes_all_versions(world: World) -> None:
    bees(world, "v1", "secret words")
    bees(world, "v2", "two")
    number = item(world)
    world.ledger.syncs.end(world.sync.id, "completed", {})
    for _ in world.ledger.purging.items(world.source.id, lambda _: True):
        pass
    world.sync = world.begin()
    with pytest.raises(NotFound):
        views.history(world.ledger, number)
    assert not world.ledger.purging.said_elsewhere("secret words")


def test_diff_marks_words_and_leaves_out_what_did_not_change() -> None:
    old = [f"line {n}" for n in range(20)]
    new = [*old[:9], "line nine", *old[10:]]
    head, *lines = unified(old, new)
    assert head.text == "@@ -7,7 +7,7 @@"
    assert [line.sign for line in lines] == [*"   ", "-", "+", *"   "]
    assert (lines[3].text, lines[3].marked) == ("line 9", ((5, 6),))
    assert list(lines[4].parts) == [("line ", False), ("nine", True), ("", False)]
    assert [line.text for line in unified([], ["a"])] == ["@@ -0,0 +1,1 @@", "a"]
    assert list(unified(old, old)) == []


def test_large_texts_are_compared_quickly(tmp_path: Path) -> None:
    old = [f"{n % 7} words" for n in range(60_000)]
    assert len(list(unified(old, [*old[:30_000], "new", *old[30_000:]]))) == 8
    assert len(list(unified(old, list(reversed(old[:59_999]))))) > 100_000
