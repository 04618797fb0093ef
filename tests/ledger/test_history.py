"""The history is append-only, and tampering is detected."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from tests.ledger.world import World, note, notes

pytestmark = pytest.mark.databases


@pytest.mark.parametrize("statement", ["UPDATE history SET actor = 'nobody'", "DELETE FROM history WHERE id = 2"])
def test_the_database_refuses_to_change_the_history(world: World, statement: str) -> None:
    world.ingest(*notes(2))
    engine = create_engine(world.url)
    with pytest.raises(DBAPIError, match="append-only"), engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()
    assert world.ledger.history.verify() == []


@pytest.mark.parametrize(
    ("forgery", "finding"),
    [
        ("UPDATE history SET actor = 'nobody' WHERE id = 3", "Row 3 of the history was changed"),
        ("UPDATE history SET at = at + 1 WHERE id = 1", "Row 1 of the history was changed"),
        ("DELETE FROM history WHERE id = 4", "Row 4 of the history is missing"),
        (
            "DELETE FROM history WHERE id = (SELECT max(id) FROM history)",
            "The history ends at row 6 and should end at row 7",
        ),
    ],
)
def test_a_forged_history_is_found(sqlite_world: World, forgery: str, finding: str) -> None:
    sqlite_world.ingest(*notes(2))
    file = sqlite_world.url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.executescript("DROP TRIGGER history_no_update; DROP TRIGGER history_no_delete;")
        connection.execute(forgery)
    assert sqlite_world.ledger.history.verify() == [finding]
    assert finding in sqlite_world.ledger.check()


def test_item_history_records_actor_action_and_sync(world: World) -> None:
    world.ingest(note("a.md"))
    events = world.ledger.history.of_item(1)
    assert [(e.event, e.actor, e.reason) for e in events] == [
        ("pending", "worker", "new"),
        ("running", "worker", None),
        ("succeeded", "worker", None),
    ]
    assert events[0].sync_id == world.sync.id
    assert events[0].at == world.clock.moment
    assert world.ledger.history.of_job(99) == []
