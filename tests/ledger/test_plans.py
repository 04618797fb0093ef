"""The work on an item must not grow with the ledger: no statement of a sync may read through a table that grows."""

from __future__ import annotations

from typing import Any

from sqlalchemy import event

from catchment.ledger import schema
from tests.ledger.world import World, note, notes

GROWING = (schema.items, schema.jobs, schema.history, schema.contents, schema.chunks, schema.links, schema.documents)


def test_no_statement_of_a_sync_reads_a_whole_table(sqlite_world: World) -> None:
    world, engine = sqlite_world, sqlite_world.ledger._store.engine
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
    event.remove(engine, "before_cursor_execute", _keep)
    assert "moved" in world.item_events("m.md") and "moved" in world.item_events("copy.md")
    with engine.connect() as connection:
        for statement, parameters in said.items():
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
            scanned = {row[3] for row in plan if row[3].startswith("SCAN")}
            assert not scanned & {f"SCAN {table.name}" for table in GROWING}, statement
