"""The promise of every kind of sink: after each delivery it equals the library, after any history."""

from __future__ import annotations

import itertools
import os
import random
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import neo4j
import psycopg
import pytest

import sinks
from catchment.errors import SinkUnavailable
from catchment.ledger import Ledger, SinkState
from catchment.model import Tombstone, Upsert
from catchment.pacing.json_server import JsonServer
from catchment.sync.supply import differences
from tests.faults.crashes import listen
from tests.ledger.world import World, note, notes
from tests.sinks.conftest import Place, library, supply

_EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.utime", "sqlite3.connect", "socket.__new__")


def equals(world: World, place: Place) -> bool:
    sink = world.ledger.outbox.get("copy")
    with sinks.opened(sink.kind, sink.place, sink.secret) as opened:
        found = differences(world.ledger, opened)
    assert (found.missing, found.outdated, found.surplus) == ((), (), ())
    assert sink.waiting == 0
    return place.read() == {number: place.shown(document) for number, document in library(world.ledger).items()}


def test_documents_come_change_move_and_go(supplied: World, place: Place) -> None:
    world = supplied
    world.ingest(*notes(3))
    assert supply(world.ledger).sent == 3
    assert equals(world, place)
    world.ingest(note("n/1.md", "v2", "n1"), *notes(1, 3))
    world.record(Tombstone("n/2.md"), Upsert(note("n/moved.md", "v1", "n2")))
    world.lose("n/0.md")
    world.settle()
    counts = supply(world.ledger)
    assert (counts.sent, counts.removed) == (3, 1)
    assert equals(world, place)
    assert supply(world.ledger).sent == 0


def test_documents_of_any_year_are_stored(supplied: World, place: Place) -> None:
    world = supplied
    years = (1, 1700, 1969, 2262, 2300, 9999)
    world.ingest(*(note(f"n/{year}.md", modified=datetime(year, 12, 31, tzinfo=UTC)) for year in years))
    assert supply(world.ledger).sent == len(years)
    assert equals(world, place)


def test_whatever_is_changed_at_the_place_is_repaired(supplied: World, place: Place) -> None:
    world = supplied
    world.ingest(*notes(5))
    supply(world.ledger)
    some = world.ledger.outbox.documents([2, 3])
    with sinks.opened(place.kind, place.place, place.secret) as opened:
        opened.write([], [1, 77])
        opened.write([some[0]], [])
        opened.write([replace(some[1], version="0" * 16, text="altered"), replace(some[1], id=999)], [])
        assert differences(world.ledger, opened).missing == (1,)
        assert differences(world.ledger, opened).outdated == (3,)
        assert differences(world.ledger, opened).surplus == (999,)
    world.ledger.outbox.set_state("copy", SinkState.ACTIVE, "operator:anna")
    supply(world.ledger)
    assert equals(world, place)


def test_rebuild_empties_and_fills(supplied: World, place: Place) -> None:
    world = supplied
    world.ingest(*notes(4))
    supply(world.ledger)
    world.ledger.outbox.set_state("copy", SinkState.EMPTYING, "operator:anna")
    counts = supply(world.ledger)
    assert (counts.sent, counts.removed) == (4, 4)
    assert equals(world, place)


def test_any_order_of_changes_and_deliveries(supplied: World, place: Place) -> None:
    world, random_ = supplied, random.Random(7)
    present = set[int]()
    for step in range(30):
        n = random_.randrange(12)
        if n in present and random_.random() < 0.4:
            world.lose(f"n/{n}.md")
            world.settle()
            present.remove(n)
        else:
            world.ingest(note(f"n/{n}.md", f"v{step}", f"n{n}"))
            present.add(n)
        if random_.random() < 0.3:
            supply(world.ledger)
            assert equals(world, place)
    supply(world.ledger)
    assert equals(world, place)


@pytest.mark.faults
@pytest.mark.parametrize("state", [SinkState.ACTIVE, pytest.param(SinkState.EMPTYING, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "place",
    [
        "folder",
        "jsonl",
        *(pytest.param(kind, marks=pytest.mark.long) for kind in ("parquet", "chroma", "neo4j")),
        pytest.param("postgresql", marks=[pytest.mark.postgres, pytest.mark.long]),
    ],
    indirect=True,
)
def test_killed_delivery_is_finished_by_the_next(supplied: World, place: Place, state: SinkState) -> None:
    """Kill a comparison and a rebuild at each operation, with new, changed, renamed and deleted documents in it."""
    world = supplied
    world.ingest(*notes(3))
    supply(world.ledger)
    for step in itertools.count(1):
        world.ingest(note("n/0.md", f"v{step}", "n0"), note(f"n/new{step}.md", "v1", f"new{step}"))
        world.lose(f"n/new{step - 1}.md" if step > 1 else "n/2.md")
        world.settle()
        if state is SinkState.EMPTYING or step % 2:
            world.ledger.outbox.set_state("copy", state, "operator:anna")
        was_killed = _deliver_and_die(world, step)
        supply(world.ledger)
        assert equals(world, place)
        if not was_killed:
            break
    assert step > 3


def _deliver_and_die(world: World, operation: int) -> bool:
    """Deliver in another process, and kill it at the operation with this number. Return whether it got that far."""
    world.ledger.close()
    child = os.fork()
    if child == 0:
        numbers, is_open = itertools.count(1), False

        def look(event: str, _arguments: object) -> None:
            if is_open and event in _EVENTS and next(numbers) == operation:
                os.kill(os.getpid(), signal.SIGKILL)

        def hear(moment: str) -> None:
            if moment.endswith("commit"):
                look("open", None)

        def counted(call: Callable[..., Any]) -> Callable[..., Any]:
            def counting(*arguments: Any, **named: Any) -> Any:
                look("open", None)
                return call(*arguments, **named)

            return counting

        psycopg.Connection.wait = counted(psycopg.Connection.wait)  # type: ignore[method-assign]
        JsonServer.ask = counted(JsonServer.ask)  # type: ignore[method-assign]
        neo4j.Session.run = counted(neo4j.Session.run)  # type: ignore[method-assign]
        neo4j.ManagedTransaction.run = counted(neo4j.ManagedTransaction.run)  # type: ignore[method-assign]

        try:
            listen(hear)
            with closing(Ledger.open(world.url, clock=world.clock, monotonic=world.clock.steady)) as ledger:
                sys.addaudithook(look)
                is_open = True
                supply(ledger)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def test_absent_place_delays_only_its_sink(supplied: World, place: Place) -> None:
    world = supplied
    world.ingest(*notes(2))
    supply(world.ledger)
    world.ingest(*notes(2, 2))
    with place.away():
        for failures in (1, 2):
            with pytest.raises(SinkUnavailable) as error:
                supply(world.ledger)
            assert place.place not in str(error.value)
            sink = world.ledger.outbox.get("copy")
            assert (sink.failures, sink.waiting) == (failures, 2)
            assert world.ledger.outbox.due() == []
    world.clock.forward(minutes=1)
    assert world.ledger.outbox.due() == ["copy"]
    supply(world.ledger)
    assert equals(world, place)
    assert world.ledger.outbox.get("copy").failures == 0
