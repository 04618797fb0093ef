"""Undo beside replays, yielded syncs and waiting jobs: an undo takes back one act, and later work does not return it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from catchment.ledger import BackfillSelection, BackfillState, ClaimedJob, Delivered, Ledger, UndoAction, Undone
from catchment.model import JobState, ReplayStage, Tombstone, Upsert
from deployments.actions import backfills
from tests.faults.versions import kept
from tests.ledger.world import PARSE_ERROR, TIMEOUT, World, content, delivered, note, notes

ALL = BackfillSelection(ReplayStage.NORMALIZE)


class Desk:
    """The part of a desk that the undo of a backfill needs."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    @contextmanager
    def writing(self) -> Iterator[Any]:
        yield self._ledger


def next_sync(world: World, outcome: str = "completed", backfill: int | None = None) -> int:
    """End the sync and start another; return the number of the ended sync."""
    ended = world.sync.id
    world.ledger.syncs.end(ended, outcome, {})  # type: ignore[arg-type]
    world.sync = world.ledger.syncs.begin(
        world.source.id, run=None, owner="worker", code_version="1", alive=lambda _: False, backfill=backfill
    )
    return ended


def undo(world: World, number: int, outcome: str = "completed") -> Undone:
    """Undo a sync, after the open one ended with this outcome."""
    world.ledger.syncs.end(world.sync.id, outcome, {})  # type: ignore[arg-type]
    try:
        return world.ledger.undo.undo(number, "anna", "a mistake", lambda _: True)
    finally:
        world.sync = world.begin()
        assert world.ledger.check(deep=True) == []


def undo_backfill(world: World, number: int) -> Undone | None:
    world.ledger.syncs.end(world.sync.id, "completed", {})
    try:
        return backfills.undo(Desk(world.ledger), number, "anna")[1]  # type: ignore[arg-type]
    finally:
        world.sync = world.begin()
        assert world.ledger.check(deep=True) == []


def library(world: World) -> dict[str, str]:
    names = world.ledger.library.names(world.source.id)
    return {named.locator: world.ledger.library.document(named.document).content.text for named in names}


def started(world: World, code: int = 2, what: BackfillSelection = ALL) -> int:
    """Start a backfill by newer code, without a run."""
    own = world.ledger.backfills
    survey = own.survey(world.source.id, what, f"{code}.1")
    number = own.plan(world.source.id, what, survey, "anna")
    own.start(number, survey.digest, "anna")
    return number


def listed(world: World, number: int, code: int = 2, outcome: str = "completed") -> int:
    """Add the jobs of a backfill in a new sync, which stays open. Return their number. `outcome`: of the sync before."""
    next_sync(world, outcome, backfill=number)
    added = world.ledger.backfills.enqueue(world.sync.id, number, f"{code}.1")
    world.ledger.backfills.close_listing(world.sync.id)
    return added


def read_anew(job: ClaimedJob, code: int) -> Delivered:
    text = f"{job.item.locator} {job.item.version} by {code}"
    one = delivered(job.id, text, title=job.item.locator)
    return Delivered(
        job.id, content(job.item.version), f"{code}.1 text/markdown", one.document, one.extraction, one.title, None, {}
    )


def replay(world: World, number: int | None, code: int = 2, most: int = 100) -> int:
    """Work on a backfill, or on an ordinary sync's jobs, in the open sync."""
    batch = world.claim(most, sync_id=world.sync.id, backfill=number)
    world.ledger.queue.deliver(batch.token, [read_anew(job, code) for job in batch.jobs])
    return len(batch.jobs)


def added_and_edited(world: World) -> tuple[int, dict[str, str]]:
    """Run a sync that adds a note and edits another. Return its number, and the library before it."""
    world.ingest(*notes(3))
    next_sync(world)
    before = library(world)
    world.ingest(note("new.md"), note("n/0.md", "v2", "n0"))
    return next_sync(world), before


@pytest.mark.databases
def test_undo_of_a_replay_leaves_the_yielded_sync_before_it(world: World) -> None:
    world.ingest(*notes(25))
    before = library(world)
    number = started(world)
    listed(world, number, outcome="yielded")
    assert replay(world, number) == 25
    undone = undo_backfill(world, number)
    assert undone is not None and undone.count(UndoAction.SET_BACK) == 25
    assert library(world) == before


@pytest.mark.databases
def test_undo_of_a_sync_leaves_the_yielded_replay_before_it(world: World) -> None:
    world.ingest(*notes(25))
    number = started(world)
    listed(world, number)
    replay(world, number)
    next_sync(world, "yielded")
    replayed = library(world)
    world.ingest(note("new.md"))
    assert undo(world, next_sync(world)).actions == {"new.md": UndoAction.TAKE_OUT}
    assert library(world) == replayed


def test_parts_of_a_sync_are_undone_as_one_around_a_replay(world: World) -> None:
    world.ingest(*notes(2))
    first = next_sync(world, "yielded")
    number = started(world)
    listed(world, number, outcome="yielded")
    assert replay(world, number, most=1) == 1
    next_sync(world)
    world.ingest(*notes(2, start=2))
    second = next_sync(world)
    replayed = next(name for name, text in library(world).items() if text.endswith("by 2"))
    undone = undo(world, second)
    assert undone.count(UndoAction.TAKE_OUT) == 3
    assert undone.actions[replayed] is UndoAction.LEFT, "the replay changed it since"
    assert library(world).keys() == {replayed}
    assert world.ledger.undo.undone_by(first) == world.ledger.undo.undone_by(second) == undone.number


def test_undo_of_the_undo_of_a_yielded_sync_restores_its_documents(world: World) -> None:
    world.ingest(*notes(2))
    yielded = next_sync(world, "yielded")
    added = library(world)
    again = undo(world, yielded).number
    assert library(world) == {}
    assert again is not None
    assert undo(world, again).count(UndoAction.BRING_BACK) == 2
    assert library(world) == added


def test_undo_between_two_parts_of_a_sync_belongs_to_neither(world: World) -> None:
    world.ingest(note("old.md"))
    older = next_sync(world)
    world.ingest(note("a.md"))
    next_sync(world, "yielded")
    undo(world, older, "yielded")
    world.ingest(note("b.md"))
    assert undo(world, next_sync(world)).count(UndoAction.TAKE_OUT) == 2
    assert library(world) == {}


@pytest.mark.parametrize("how", ["goes on", "cancelled", "paused and resumed", "retried", "of a failed item"])
@pytest.mark.databases
def test_waiting_replay_does_not_return_what_was_undone(world: World, how: str) -> None:
    sync_id, before = added_and_edited(world)
    number = started(world)
    assert listed(world, number) == 4
    if how in ("retried", "of a failed item"):
        batch = world.claim(4, sync_id=world.sync.id, backfill=number)
        retry_at = world.clock.moment if how == "retried" else None
        for job in batch.jobs:
            failure = TIMEOUT if retry_at else PARSE_ERROR
            world.ledger.queue.fail(batch.token, job.id, failure, retry_at=retry_at)
    undo(world, sync_id)
    assert library(world) == before
    match how:
        case "cancelled":
            assert world.ledger.backfills.cancel(number, "anna") == 2
        case "paused and resumed":
            world.ledger.backfills.pause(number, "anna")
            world.ledger.backfills.resume(number, "anna")
        case "of a failed item":
            assert world.ledger.quarantine.auto_retry(world.sync.id, {"program": "newer"}) == 0
            assert world.ledger.backfills.retry(number, "anna", "") == 2
    next_sync(world, backfill=number)
    left = replay(world, number)
    assert left == (0 if how == "cancelled" else 2)
    assert {name: text for name, text in library(world).items() if "by 2" not in text}.keys() >= {"n/0.md"}
    assert library(world)["n/0.md"] == before["n/0.md"]
    assert "new.md" not in library(world)
    assert world.ledger.check(deep=True) == []


def test_backfill_started_before_an_undo_and_listed_after_it_leaves_its_items(world: World) -> None:
    sync_id, before = added_and_edited(world)
    number = started(world)
    undo(world, sync_id)
    assert listed(world, number) == 2
    replay(world, number)
    assert library(world)["n/0.md"] == before["n/0.md"]
    assert "new.md" not in library(world)
    assert world.ledger.backfills.outdated("2.1") == {}


def test_backfill_planned_after_an_undo_leaves_its_items(world: World) -> None:
    sync_id, before = added_and_edited(world)
    again = undo(world, sync_id).number
    assert world.ledger.backfills.survey(world.source.id, ALL, "2.1").total == 2
    assert again is not None
    undo(world, again)
    assert world.ledger.backfills.survey(world.source.id, ALL, "2.1").total == 4, "they are as the source has them"
    assert library(world) != before


def test_undone_replay_can_be_repeated_by_newer_code(world: World) -> None:
    world.ingest(*notes(3))
    before = library(world)
    number = started(world)
    listed(world, number)
    replay(world, number)
    undo_backfill(world, number)
    assert library(world) == before
    newer = started(world, 3)
    assert listed(world, newer, 3) == 3
    replay(world, newer, 3)
    assert {text[-4:] for text in library(world).values()} == {"by 3"}


@pytest.mark.databases
@pytest.mark.parametrize("times", range(5))
def test_undone_replay_can_be_repeated_after_any_number_of_undos(world: World, times: int) -> None:
    added_and_edited(world)
    before, number = library(world), started(world)
    listed(world, number)
    replay(world, number)
    after = library(world)
    acts = [undo_backfill(world, number)]
    for _ in range(times):
        assert acts[-1] is not None and acts[-1].number is not None
        acts.append(undo(world, acts[-1].number))
    is_undone = times % 2 == 0
    assert library(world) == (before if is_undone else after)
    assert world.ledger.backfills.survey(world.source.id, ALL, "2.1").total == (4 if is_undone else 0)


def test_undo_of_a_backfill_ends_what_waits_of_it(world: World) -> None:
    world.ingest(*notes(5))
    before = library(world)
    number = started(world)
    listed(world, number)
    batch = world.claim(1, sync_id=world.sync.id, backfill=number)
    world.ledger.queue.fail(batch.token, batch.jobs[0].id, PARSE_ERROR, retry_at=None)
    replay(world, number, most=2)
    undo_backfill(world, number)
    assert library(world) == before
    found = world.ledger.backfills.get(number)
    assert (found.state, found.jobs[JobState.CANCELLED]) == (BackfillState.CANCELLED, 3)
    assert world.ledger.quarantine.list() == []
    assert world.ledger.queue.counts()[world.source.name][JobState.SUCCEEDED] == 5


def test_items_that_a_yielded_sync_has_not_stored_wait_and_are_reported(world: World) -> None:
    world.see(*notes(5))
    world.deliver(world.claim(2))
    yielded = next_sync(world, "yielded")
    stored = library(world)
    assert world.ledger.undo.preview(yielded).waiting == 3
    undone = undo(world, yielded)
    assert (undone.count(UndoAction.TAKE_OUT), undone.waiting) == (2, 3)
    assert len(world.deliver(world.claim()).succeeded) == 3
    assert library(world).keys().isdisjoint(stored), "the undone ones stay out"


def test_waiting_job_of_the_undone_sync_is_cancelled_and_returns_with_it(world: World) -> None:
    world.ingest(note("a.md", "v1", "a"))
    next_sync(world)
    before = library(world)
    world.ingest(note("a.md", "v2", "a"))
    next_sync(world, "yielded")
    stored = library(world)
    world.see(note("a.md", "v3", "a"))
    again = undo(world, world.sync.id, "yielded").number
    assert library(world) == before
    assert world.claim().jobs == ()
    assert again is not None
    undo(world, again)
    assert library(world) == stored
    assert [job.item.version for job in world.claim().jobs] == ["v3"]


def test_change_that_a_later_sync_found_is_stored_after_an_undo(world: World) -> None:
    sync_id, before = added_and_edited(world)
    world.see(note("n/0.md", "v3", "n0"))
    next_sync(world, "failed")
    undo(world, sync_id)
    assert library(world) == before
    world.deliver(world.claim())
    assert library(world)["n/0.md"] == "What 0 says in v3"


def test_repair_requested_before_an_undo_does_not_return_its_items(world: World) -> None:
    sync_id, before = added_and_edited(world)
    found = [world.ledger.intake.find(name)[0].id for name in ("new.md", "n/0.md")]
    assert world.ledger.proof.read_again(world.sync.id, found, [], "anna") == 2
    undo(world, sync_id)
    assert world.claim().jobs == ()
    assert library(world) == before


def test_held_deletions_belong_to_the_sync_that_found_them(world: World) -> None:
    world.ingest(*notes(30))
    next_sync(world)
    before = library(world)
    world.lose(*(f"n/{n}.md" for n in range(20)))
    assert world.settle().held == 20
    holding = next_sync(world)
    number = started(world)
    listed(world, number)
    assert replay(world, number) == 10
    next_sync(world)
    world.ledger.intake.apply_hold(world.source.id, "anna", "yes")
    undone = undo_backfill(world, number)
    assert undone is not None and len(undone.actions) == 10
    assert library(world) == {name: text for name, text in before.items() if int(name[2:-3]) >= 20}
    assert undo(world, holding).count(UndoAction.BRING_BACK) == 20
    assert library(world) == before


def test_cancelled_or_discarded_replay_lets_the_earlier_job_count(world: World) -> None:
    world.ingest(*notes(2))
    number = started(world)
    listed(world, number)
    batch = world.claim(1, sync_id=world.sync.id, backfill=number)
    failed = batch.jobs[0].id
    world.ledger.queue.fail(batch.token, failed, PARSE_ERROR, retry_at=None)
    waiting = next(job.job for job in world.ledger.queue.jobs() if job.state is JobState.PENDING)
    world.ledger.queue.cancel(waiting, "anna", "not now")
    world.ledger.quarantine.discard([failed], "anna", "not wanted")
    assert world.ledger.queue.counts()[world.source.name][JobState.SUCCEEDED] == 2
    assert world.ledger.check(deep=True) == []


@pytest.mark.parametrize("how", ["returned", "deleted and returned", "renamed"])
def test_item_that_was_away_while_its_replay_waited_is_read_by_the_sync_that_finds_it(world: World, how: str) -> None:
    world.ingest(*notes(2))
    number = started(world)
    listed(world, number)
    next_sync(world)
    if how == "renamed":
        world.record(Tombstone("n/0.md"), Upsert(note("n/new.md", identity="n0")))
    else:
        world.lose("n/0.md")
        if how == "deleted and returned":
            assert world.settle().deleted == 1
        world.see(*notes(1))
    [job] = world.claim().jobs
    assert job.item.locator == ("n/new.md" if how == "renamed" else "n/0.md")
    assert world.ledger.backfills.get(number).jobs == {JobState.CANCELLED: 1, JobState.PENDING: 1}
    assert len(library(world)) == 2, "the earlier text stays until then"
    assert world.ledger.check(deep=True) == []


def test_migration_joins_yielded_syncs_of_one_act_only(tmp_path: Path) -> None:
    file = kept("0010", tmp_path)
    rows = [
        (101, "yielded", None, None),
        (102, "completed", 1, None),
        (103, "yielded", None, None),
        (104, "completed", None, '{"undoes":103}'),
        (105, "yielded", None, None),
        (106, "yielded", None, '{"succeeded":1}'),
        (107, "completed", None, None),
    ]
    with closing(sqlite3.connect(file)) as database, database:
        database.executemany(
            "INSERT INTO syncs (id, source_id, owner, code_version, began_at, outcome, backfill_id, summary)"
            " VALUES (?, 1, 'worker', '1', 0, ?, ?, ?)",
            rows,
        )
        database.execute("UPDATE counters SET value = 107 WHERE name = 'syncs'")
    with closing(Ledger.open(f"sqlite:///{file}")) as ledger:
        assert ledger.syncs.get(104).summary == {"undoes": 103}
        assert ledger.syncs.get(106).summary == {"succeeded": 1}
        assert ledger.undo.undone_by(103) == 104
    with closing(sqlite3.connect(file)) as database:
        found = database.execute("SELECT id, continues FROM syncs WHERE continues IS NOT NULL ORDER BY id").fetchall()
    assert found == [(106, 105), (107, 106)]


def of_window(world: World, *names: str) -> int:
    """Start the backfill of a window, which finds these notes in a sync that stays open."""
    number = started(world, what=BackfillSelection(ReplayStage.FETCH))
    next_sync(world, backfill=number)
    world.see(*(note(name, identity=name) for name in names))
    world.ledger.backfills.close_listing(world.sync.id)
    return number


def renumber(world: World, *names: str) -> None:
    """Let an ordinary sync find each of these notes in another folder."""
    next_sync(world)
    moved = [Upsert(note(f"later/{name}", identity=name.rpartition("/")[2])) for name in names]
    world.record(*map(Tombstone, names), *moved)
    world.settle()


def fail(world: World, number: int, *, retry_at: bool) -> None:
    batch = world.claim(1, sync_id=world.sync.id, backfill=number)
    moment = world.clock.moment if retry_at else None
    world.ledger.queue.fail(batch.token, batch.jobs[0].id, TIMEOUT if retry_at else PARSE_ERROR, retry_at=moment)


@pytest.mark.parametrize("how", ["retried", "released", "repaired"])
@pytest.mark.parametrize("is_replay", [False, True])
@pytest.mark.databases
def test_undo_of_a_backfill_includes_what_ordinary_syncs_delivered(world: World, how: str, is_replay: bool) -> None:
    world.ingest(note("own.md"), *(notes(2) if is_replay else []))
    before = library(world)
    if is_replay:
        number = started(world)
        listed(world, number)
    else:
        number = of_window(world, "a.md", "b.md")
    assert replay(world, number, most=2 if is_replay else 1)
    fail(world, number, retry_at=how == "retried")
    next_sync(world)
    if how == "released":
        world.ledger.backfills.retry(number, "anna", "")
    elif how == "repaired":
        failed = world.ledger.quarantine.list()[0].item_id
        world.ledger.proof.read_again(world.sync.id, [failed], [], "anna")
    assert replay(world, None) == 1
    world.ingest(note("newer.md"))
    after = library(world)
    undone = undo_backfill(world, number)
    assert undone is not None and undone.number is not None
    assert len(undone.actions) == (3 if is_replay else 2)
    assert {name: text for name, text in library(world).items() if name != "newer.md"} == before
    undo(world, undone.number)
    assert library(world) == after


@pytest.mark.parametrize("is_replay", [False, True])
@pytest.mark.databases
def test_undo_of_a_backfill_follows_what_moved_since(world: World, is_replay: bool) -> None:
    names = ("a.md", "b.md")
    if is_replay:
        world.ingest(*(note(name, identity=name) for name in names))
        number = started(world)
        listed(world, number)
    else:
        number = of_window(world, *names)
    before = library(world) if is_replay else {}
    replay(world, number)
    renumber(world, *names)
    assert world.claim().jobs == ()
    assert library(world).keys() == {"later/a.md", "later/b.md"}
    undone = undo_backfill(world, number)
    assert undone is not None
    action = UndoAction.SET_BACK if is_replay else UndoAction.TAKE_OUT
    assert undone.actions == dict.fromkeys(("later/a.md", "later/b.md"), action)
    assert library(world) == {f"later/{name}": text for name, text in before.items()}
    renumber(world, *(f"later/{name}" for name in names))
    assert world.claim().jobs == (), "it is as the undo left it"


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.databases
def test_item_of_a_window_that_moves_while_it_waits_stays_of_the_window(world: World, ends: bool) -> None:
    number = of_window(world, "a.md")
    renumber(world, "a.md")
    assert world.ledger.backfills.get(number).left == 1
    if not ends:
        assert replay(world, None) == 1, "an ordinary sync may read it"
    undo_backfill(world, number)
    assert library(world) == {}
    assert world.claim().jobs == ()


def test_undo_of_a_backfill_leaves_what_changed_since(world: World) -> None:
    number = of_window(world, "a.md", "b.md")
    replay(world, number)
    renumber(world, "a.md", "b.md")
    world.ingest(note("later/a.md", "v2", "a.md"))
    undone = undo_backfill(world, number)
    assert undone is not None
    assert undone.actions == {"later/a.md": UndoAction.LEFT, "later/b.md": UndoAction.TAKE_OUT}
    assert library(world).keys() == {"later/a.md"}
