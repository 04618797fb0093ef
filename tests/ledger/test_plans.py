"""The cost per item is independent of the ledger's size: sync statements never scan a growing table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from sqlalchemy import event

from catchment.ledger import Ledger
from catchment.ledger.db import schema
from catchment.pacing.boot_clock import ClockReading
from tests.hits import find_hits
from tests.ledger.mailbox import arrive
from tests.ledger.world import Clock, World, note, notes
from tests.normalize.conversations import corpus

GROWING = (
    schema.items,
    schema.jobs,
    schema.history,
    schema.contents,
    schema.chunks,
    schema.links,
    schema.documents,
    schema.mails,
    schema.mail_names,
)


@pytest.fixture
def world(sqlite_url: str, clock: Clock) -> Iterator[World]:
    """A source and an open sync. Time passes only on the test's clock."""
    ledger = Ledger.open(sqlite_url, clock=clock, monotonic=lambda: ClockReading("boot", int(clock() * 1_000_000)))
    with closing(ledger):
        yield World(sqlite_url, clock, ledger)


@contextmanager
def recorded(world: World) -> Iterator[dict[str, Any]]:
    """Record the statements executed in the block, each with a set of its parameters."""
    engine = world.ledger._store.engine
    said: dict[str, Any] = {}

    @event.listens_for(engine, "before_cursor_execute")
    def _keep(_connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:
        if statement.startswith(("SELECT", "UPDATE", "DELETE")):
            said[statement] = parameters[0] if many else parameters

    yield said
    event.remove(engine, "before_cursor_execute", _keep)


def query_plans(world: World, said: dict[str, Any]) -> Iterator[tuple[str, set[str]]]:
    """Yield SQLite's query plan for each statement."""
    with world.ledger._store.engine.connect() as connection:
        for statement, parameters in said.items():
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
            yield statement, {row[3] for row in plan}


def test_no_statement_of_a_sync_reads_a_whole_table(world: World) -> None:
    with recorded(world) as said:
        exercise_sync(world)
    assert "moved" in world.item_events("m.md") and "moved" in world.item_events("copy.md")
    for statement, way in query_plans(world, said):
        assert not way & {f"SCAN {table.name}" for table in GROWING}, statement


def test_query_for_one_record_scans_neither_a_table_nor_a_source(world: World) -> None:
    exercise_sync(world)
    ledger, job = world.ledger, world.ledger.queue.jobs()[0].job
    ended = world.sync.id
    ledger.syncs.end(ended, "completed", {})
    with recorded(world) as said:
        assert ledger.history.of_job(job)
        ledger.queue.job(job)
        ledger.queue.left(world.source.id)
        ledger.library.document(find_hits(ledger, "copy")[0].document)
        undone = ledger.undo.undo(ended, "anna", "", lambda _: False)
        assert undone.actions
    through = {"SCAN jobs", *(f"SCAN {table.name}" for table in GROWING)}
    for statement, way in query_plans(world, said):
        assert not way & through, statement
        for table in ("documents", "items"):
            assert not [one for one in way if one.startswith(f"SEARCH {table} ") and one.endswith("(source_id=?)")], way


def exercise_sync(world: World) -> None:
    """Perform each operation of a sync once."""
    world.ingest(*notes(3), note("old.md"))
    world.lose("n/0.md", "old.md")
    world.see(note("n/1.md", "v2"), note("m.md", identity="n0"), note("copy.md"))
    world.settle()
    world.deliver(world.claim(), "What old says in v1")
    for message in (messages := corpus(0, 10).envelopes):
        arrive(world, [message])
    world.see(*(note(message.key, "v2") for message in messages))
    world.deliver(world.claim())
