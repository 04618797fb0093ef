"""The work on an item must not grow with the ledger: no statement of a sync may read through a table that grows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import event

from catchment.ledger import Ledger, schema
from catchment.pacing.steady import Steady
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
    """A source and an open sync; however long the test takes, no time passes that its clock does not show."""
    ledger = Ledger.open(sqlite_url, clock=clock, steady=lambda: Steady("boot", int(clock() * 1_000_000)))
    with closing(ledger):
        yield World(sqlite_url, clock, ledger)


def test_no_statement_of_a_sync_reads_a_whole_table(world: World) -> None:
    engine = world.ledger._store.engine
    said: dict[str, Any] = {}

    @event.listens_for(engine, "before_cursor_execute")
    def _keep(_connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:
        if statement.startswith(("SELECT", "UPDATE", "DELETE")):
            said[statement] = parameters[0] if many else parameters

    world.ingest(*notes(3), note("old.md"))
    world.lose("n/0.md", "old.md")
    world.see(note("n/1.md", "v2"), note("m.md", identity="n0"), note("copy.md"))
    world.settle()
    world.deliver(world.claim(), "What old says in v1")
    for message in (messages := corpus(0, 10).envelopes):
        arrive(world, [message])
    world.see(*(note(message.key, "v2") for message in messages))
    world.deliver(world.claim())
    event.remove(engine, "before_cursor_execute", _keep)
    assert "moved" in world.item_events("m.md") and "moved" in world.item_events("copy.md")
    with engine.connect() as connection:
        for statement, parameters in said.items():
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
            scanned = {row[3] for row in plan if row[3].startswith("SCAN")}
            assert not scanned & {f"SCAN {table.name}" for table in GROWING}, statement
