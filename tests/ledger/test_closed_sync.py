"""The fence around a sync: after another process closed it, none of its writes changes anything."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from catchment.errors import StaleLease
from catchment.ledger import BackfillSelection, Ledger, Sync
from catchment.ledger.db.schema import metadata
from catchment.ledger.items import deletion_guard, undo
from catchment.model import ReplayStage, Tombstone, Upsert
from tests.ledger.world import PARSE_ERROR, World, jobs_of, note, notes

READS = {
    "steps",
    "syncs.change_counts",
    "syncs.changes",
    "syncs.get",
    "syncs.is_open",
    "syncs.work",
    "undo.preview",
    "undo.refusal",
    "undo.undone_by",
}
OF_A_SYNC_THAT_ENDED = {"undo.undo"}
SILENT = {
    "backfills.enqueue",
    "backfills.judge",
    "quarantine.auto_retry",
    "queue.deliver",
    "queue.release",
    "queue.renew",
}

pytestmark = pytest.mark.databases


def nobody(_owner: str) -> bool:
    return False


def dump(ledger: Ledger) -> dict[str, list[Any]]:
    """Return every row of every table except `measures`, which also counts the work of a closed sync."""
    tables = [table for table in metadata.sorted_tables if table.name != "measures"]
    with ledger._store.read() as reading:
        return {table.name: sorted(map(repr, reading.execute(select(table)))) for table in tables}


def methods(ledger: Ledger) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public methods of a ledger and of its parts, by name."""
    for name, part in [("", ledger), *inspect.getmembers(ledger)]:
        if not name.startswith("_") and type(part).__module__.startswith("catchment.ledger"):
            for method, found in inspect.getmembers(part, inspect.ismethod):
                if not method.startswith("_"):
                    yield f"{name}.{method}".removeprefix("."), found


def test_closed_sync_changes_nothing_by_any_method(world: World) -> None:
    world.see(*notes(30))
    world.lose("n/0.md")
    batch = world.claim(3)
    closed, ledger = world.sync, world.ledger
    assert ledger.syncs.close_dead(nobody) == 1
    world.sync = world.begin()
    world.see(*notes(31))
    world.lose("n/1.md", "n/2.md")
    number, token, [job, *_] = closed.id, batch.token, jobs_of(batch)
    what = BackfillSelection(ReplayStage.NORMALIZE)
    backfill = ledger.backfills.plan(
        closed.source_id, what, ledger.backfills.survey(closed.source_id, what, "2"), "anna"
    )
    writes: dict[str, Callable[[], object]] = {
        "backfills.close_listing": lambda: ledger.backfills.close_listing(number),
        "backfills.enqueue": lambda: ledger.backfills.enqueue(number, backfill, "2"),
        "backfills.judge": lambda: ledger.backfills.judge(number, backfill),
        "intake.record": lambda: ledger.intake.record(number, [Tombstone("n/3.md"), Upsert(note("late"))], {"n": "1"}),
        "intake.settle": lambda: ledger.intake.settle(number),
        "proof.read_again": lambda: ledger.proof.read_again(number, [1, 2], [1], "anna"),
        "quarantine.auto_retry": lambda: ledger.quarantine.auto_retry(number, {"program": "2"}),
        "queue.claim": lambda: ledger.queue.claim(closed.source_id, 5, owner="worker", sync_id=number),
        "queue.deliver": lambda: world.deliver(batch),
        "queue.fail": lambda: ledger.queue.fail(token, job, PARSE_ERROR, retry_at=None),
        "queue.release": lambda: ledger.queue.release(token),
        "queue.renew": lambda: ledger.queue.renew(token, jobs_of(batch), timedelta(hours=1)),
        "sources.changed_roots": lambda: ledger.sources.changed_roots(number, {"": "another disk"}),
        "syncs.end": lambda: ledger.syncs.end(number, "quarantined", {"deleted": 9}, "late"),
        "syncs.expect": lambda: ledger.syncs.expect(number, world.clock.moment),
    }
    of_a_sync = {
        name for name, method in methods(ledger) if {"sync_id", "token"} & inspect.signature(method).parameters.keys()
    }
    assert of_a_sync - READS - OF_A_SYNC_THAT_ENDED == writes.keys()
    before = dump(ledger)
    for name, write in writes.items():
        # Writes under a token report the lost jobs instead. No job can be replayed, paused or retried.
        with suppress(StaleLease):
            write()
            assert name in SILENT, name
        assert dump(ledger) == before, name


@pytest.mark.parametrize("what", ["enqueue", "close_listing", "judge", "auto_retry"])
def test_closed_sync_of_a_backfill_changes_nothing(world: World, what: str) -> None:
    world.ingest(*notes(30))
    ledger, selection = world.ledger, BackfillSelection(ReplayStage.NORMALIZE)
    survey = ledger.backfills.survey(world.source.id, selection, "2.1")
    backfill = ledger.backfills.plan(world.source.id, selection, survey, "anna")
    ledger.backfills.start(backfill, survey.digest, "anna")
    ledger.syncs.end(world.sync.id, "completed", {})

    def begin() -> int:
        how = {"run": None, "owner": "worker", "code_version": "1", "circumstances": {"program": "1"}}
        return ledger.syncs.begin(world.source.id, alive=nobody, backfill=backfill, **how).id  # type: ignore[arg-type]

    closed = begin()
    if what in ("judge", "auto_retry"):
        ledger.backfills.enqueue(closed, backfill, "2.1")
        batch = world.claim(25, sync_id=closed, backfill=backfill)
        for job in batch.jobs:
            ledger.queue.fail(batch.token, job.id, PARSE_ERROR, retry_at=None)
    writes: dict[str, Callable[[int], object]] = {
        "enqueue": lambda sync: ledger.backfills.enqueue(sync, backfill, "2.1"),
        "close_listing": ledger.backfills.close_listing,
        "judge": lambda sync: ledger.backfills.judge(sync, backfill),
        "auto_retry": lambda sync: ledger.quarantine.auto_retry(sync, {"program": "2"}),
    }
    following = begin()
    before = dump(ledger)
    with pytest.raises(StaleLease):
        writes[what](closed)
    assert dump(ledger) == before
    writes[what](following)
    assert dump(ledger) != before


def test_deletions_stop_when_their_sync_is_closed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.see(*notes(100))
    world.lose(*(f"n/{n}.md" for n in range(6)))
    monkeypatch.setattr(deletion_guard, "_DELETED_AT_ONCE", 2)
    monkeypatch.setattr(type(world.ledger._store), "let_others_write", lambda _: world.ledger.syncs.close_dead(nobody))
    with pytest.raises(StaleLease):
        world.settle()
    assert [item.state for n in range(6) for item in world.ledger.intake.find(f"n/{n}.md")].count("missing") == 4


def test_undo_stops_when_another_process_took_it_for_dead(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.ingest(*notes(6))
    undone, ledger = world.sync.id, world.ledger
    ledger.syncs.end(undone, "completed", {})
    monkeypatch.setattr(undo, "_ROWS_AT_ONCE", 2)
    monkeypatch.setattr(type(ledger._store), "let_others_write", lambda _: ledger.syncs.close_dead(nobody))
    with pytest.raises(StaleLease):
        ledger.undo.undo(undone, "anna", "", nobody)
    assert len(world.found("says")) == 4
    assert ledger.syncs.recent()[0].outcome == "crashed"
    monkeypatch.undo()
    ledger.undo.undo(undone, "anna", "", nobody)
    assert world.found("says") == []


def test_undo_takes_the_jobs_of_a_dead_sync(world: World) -> None:
    world.ingest(*notes(2))
    undone = world.sync.id
    world.ledger.syncs.end(undone, "completed", {})
    world.sync = world.begin()
    world.see(note("later.md"))
    batch = world.claim()
    world.ledger.undo.undo(undone, "anna", "", nobody)
    assert world.deliver(batch).stale == jobs_of(batch)


def held(world: World, sync: Sync) -> str:
    world.ledger.syncs.end(sync.id, "quarantined", {}, "login refused")
    return world.ledger.sources.get("notes").state


def test_sync_that_ends_quarantined_holds_its_source(world: World) -> None:
    assert held(world, world.sync) == "held"
    assert world.ledger.sources.get("notes").state_reason == "login refused"


def test_quarantined_sync_does_not_replace_the_pause_of_an_operator(world: World) -> None:
    world.ledger.sources.pause("notes", "anna", "not now")
    assert held(world, world.sync) == "paused"
