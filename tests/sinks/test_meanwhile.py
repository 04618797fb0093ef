"""Commands, syncs and deletions at any moment of a delivery: none is lost, and the sink equals the library afterwards."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import sinks
from catchment.contracts import Sink
from catchment.errors import NotFound
from catchment.ledger import LAST_ID, SinkState
from catchment.sync.supply import DeliveryCounts, Opening, deliver
from tests.ledger.world import World, note, notes
from tests.sinks.conftest import Place, supply
from tests.sinks.test_contract import equals

pytestmark = pytest.mark.faults

Act = Callable[[World], object]
_ANNA = "operator:anna"


class Interrupted:
    """A sink that calls `act` before its operation with the number `moment`, from 1, and notes its operations."""

    def __init__(self, sink: Sink, moment: int, act: Callable[[], object], operations: list[str]) -> None:
        self._sink, self._moment, self._act, self._operations = sink, moment, act, operations

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._sink, name)
        if not callable(found):
            return found

        def operation(*arguments: Any) -> Any:
            self._operations.append(name)
            if len(self._operations) == self._moment:
                self._act()
            return found(*arguments)

        return operation


def _deliver(world: World, moment: int, act: Act) -> tuple[bool, DeliveryCounts]:
    """Deliver with an act at a moment, 0 for the time while the place is opened. Return whether there was such a moment."""
    operations, counts = list[str](), DeliveryCounts()
    deliver(world.ledger, "copy", interrupted(world, moment, act, operations), lambda: True, counts)
    return len(operations) >= moment, counts


def interrupted(world: World, moment: int, act: Act, operations: list[str]) -> Opening:
    """Return a function that opens a sink with an act at a moment, and adds the operations to a list."""

    @contextmanager
    def opened(kind: str, place: str, secret: str | None) -> Iterator[Any]:
        if moment == 0:
            act(world)
        with sinks.opened(kind, place, secret) as sink:
            yield Interrupted(sink, moment, lambda: act(world), operations)

    return opened


def _set(state: SinkState) -> Act:
    return lambda world: world.ledger.outbox.set_state("copy", state, _ANNA)


def _damage_and_resume(world: World) -> None:
    """Alter the place by hand, also the documents that this delivery has compared already."""
    sink = world.ledger.outbox.get("copy")
    with sinks.opened(sink.kind, sink.place) as opened:
        opened.write([], opened.versions(0, LAST_ID).keys())
    world.ledger.outbox.set_state("copy", SinkState.ACTIVE, _ANNA)


def _adopt_elsewhere(world: World) -> None:
    """Adopt the place from another machine that shares the ledger: the lock of the delivery does not hold it up."""
    sink = world.ledger.outbox.get("copy")
    with sinks.opened(sink.kind, sink.place) as opened:
        opened.mark(stamp := world.ledger.outbox.new_stamp(sink))
    world.ledger.outbox.adopt(sink, stamp, _ANNA)


def _sync(world: World) -> None:
    world.ingest(note("n/0.md", f"v{next(_NUMBERS)}", "n0"), note(f"n/meanwhile{next(_NUMBERS)}.md"))
    world.lose("n/1.md")
    world.settle()


def _undo(world: World) -> None:
    world.ledger.syncs.end(world.sync.id, "completed", {})
    world.ledger.undo.undo(world.sync.id, "anna", "a mistake", lambda _: True)
    world.sync = world.begin()


def _purge(world: World) -> None:
    assert sum(world.ledger.purging.items(world.source.id, lambda _: True)) >= 3


_NUMBERS = itertools.count()
_STATES = [None, SinkState.ACTIVE, SinkState.EMPTYING]
"""The delivery sends changes, compares or rebuilds."""
_ACTS: dict[str, Act] = {
    "resume": _damage_and_resume,
    "rebuild": _set(SinkState.EMPTYING),
    "adopt": _adopt_elsewhere,
    "sync": _sync,
    "undo": _undo,
    "purge": _purge,
}


def _next_work(world: World, state: SinkState | None) -> None:
    """Let the sink have documents, and changes to receive: in a comparison, a rebuild, or by the outbox alone."""
    world.ingest(*notes(3))
    supply(world.ledger)
    world.ledger.syncs.end(world.sync.id, "completed", {})
    world.sync = world.begin()
    world.ingest(note("n/2.md", f"v{next(_NUMBERS)}", "n2"), note(f"n/new{next(_NUMBERS)}.md"))
    if state is not None:
        world.ledger.outbox.set_state("copy", state, _ANNA)


@pytest.mark.parametrize("place", ["jsonl"], indirect=True)
@pytest.mark.parametrize("state", _STATES)
@pytest.mark.parametrize("act", _ACTS)
def test_act_at_any_moment_of_a_delivery_takes_effect(
    act: str, state: SinkState | None, place: Place, supplied: World
) -> None:
    world, was_there = supplied, True
    for moment in itertools.count():
        _next_work(world, state)
        was_there, counts = _deliver(world, moment, _ACTS[act])
        sink = world.ledger.outbox.get("copy")
        assert (sink.state, sink.compared) == (SinkState.ACTIVE, None), moment
        assert equals(world, place), moment
        if not was_there:
            break
        if act == "rebuild":
            assert counts.removed >= 3, moment
    assert moment > 3


@pytest.mark.parametrize("place", ["jsonl"], indirect=True)
@pytest.mark.parametrize("state", _STATES)
def test_pause_at_any_moment_of_a_delivery_holds(state: SinkState | None, place: Place, supplied: World) -> None:
    world, was_there = supplied, True
    for moment in itertools.count():
        _next_work(world, state)
        was_there, _ = _deliver(world, moment, _set(SinkState.PAUSED))
        if not was_there:
            break
        assert world.ledger.outbox.get("copy").state is SinkState.PAUSED, moment
        world.ledger.outbox.set_state("copy", SinkState.ACTIVE, _ANNA)
        supply(world.ledger)
        assert equals(world, place), moment
    assert moment > 3


@pytest.mark.parametrize("place", ["jsonl"], indirect=True)
@pytest.mark.parametrize("state", _STATES)
def test_removed_sink_receives_no_more_and_its_name_is_free(
    state: SinkState | None, place: Place, supplied: World, tmp_path: Path
) -> None:
    """A delivery to the removed sink sends no documents to another sink with its name."""
    world = supplied

    def replace(world: World) -> None:
        world.ledger.outbox.remove("copy", _ANNA)
        world.ledger.outbox.add("copy", "jsonl", str(tmp_path / "other"), None, _ANNA)

    for moment in itertools.count():
        _next_work(world, state)
        try:
            was_there, _ = _deliver(world, moment, replace)
        except NotFound:
            was_there = True
        if not was_there:
            break
        sink = world.ledger.outbox.get("copy")
        assert (sink.place, sink.position, sink.compared) == (str(tmp_path / "other"), 0, 0), moment
        world.ledger.outbox.remove("copy", _ANNA)
        with sinks.opened(place.kind, place.place) as opened:
            opened.mark("")
        world.ledger.outbox.add("copy", "jsonl", place.place, None, _ANNA)
    assert moment > 3
