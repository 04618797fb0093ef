"""A document that a sink refuses: the others of its batch are stored, and it is offered again when it changes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from catchment.contracts import Sink
from catchment.errors import DocumentRefused
from catchment.model import DocumentCopy
from catchment.sync.supply import DeliveryCounts, deliver, differences, export
from tests.ledger.world import World, note, notes


class Choosy:
    """A sink in memory that refuses documents by title. After a refusal, the batch is stored up to there."""

    batch = 10
    wants_vectors = False

    def __init__(self) -> None:
        self.stored: dict[int, str] = {}
        self.refuses = "1"
        self.marked: str | None = None

    defect: Exception | None = None
    reason: Exception = DocumentRefused("too heavy")

    def write(self, changed: Sequence[DocumentCopy], removed: Collection[int]) -> None:
        if self.defect is not None:
            raise self.defect
        for number in removed:
            self.stored.pop(number, None)
        for document in changed:
            self.stored[document.id] = document.version
            if document.title == self.refuses:
                raise self.reason

    def versions(self, after: int, last: int) -> Mapping[int, str]:
        return {number: version for number, version in self.stored.items() if after < number <= last}

    def mark(self, stamp: str) -> None:
        self.marked = stamp

    def stamp(self) -> str | None:
        return self.marked

    def close(self) -> None:
        return


def _supply(world: World, choosy: Choosy) -> DeliveryCounts:
    @contextmanager
    def opened(_kind: str, _place: str, _secret: str | None) -> Iterator[Sink]:
        yield choosy

    counts = DeliveryCounts()
    deliver(world.ledger, "copy", opened, lambda: True, counts)
    return counts


def test_refused_document_stops_no_other(world: World) -> None:
    choosy, outbox = Choosy(), world.ledger.outbox
    world.ingest(*notes(3))
    outbox.add("copy", "choosy", "here", None, "operator:anna")
    assert str(_supply(world, choosy)) == "2 sent, 1 refused"
    sink = outbox.get("copy")
    assert (choosy.stored.keys(), outbox.refusals(sink), sink.waiting) == ({1, 3}, {2: "too heavy"}, 0)
    assert differences(world.ledger, choosy, [2]).missing == ()
    assert str(export(world.ledger, choosy)) == "2 sent, 1 refused"
    choosy.refuses = ""
    world.ingest(note("n/1.md", "v2", "n1"))
    assert str(_supply(world, choosy)) == "1 sent"
    assert outbox.get("copy").refused == 0


def test_unexpected_error_about_a_document_refuses_it_alone(world: World) -> None:
    choosy, outbox = Choosy(), world.ledger.outbox
    choosy.reason = OverflowError("secret text")
    world.ingest(*notes(3))
    outbox.add("copy", "choosy", "here", None, "operator:anna")
    assert str(_supply(world, choosy)) == "2 sent, 1 refused"
    assert outbox.refusals(outbox.get("copy")) == {2: "unexpected OverflowError"}


def test_defect_of_a_sink_is_recorded_and_puts_the_next_attempt_off(world: World) -> None:
    choosy, outbox = Choosy(), world.ledger.outbox
    choosy.defect = ZeroDivisionError("secret text")
    world.ingest(*notes(1))
    outbox.add("copy", "choosy", "here", None, "operator:anna")
    with pytest.raises(ZeroDivisionError):
        _supply(world, choosy)
    assert (outbox.get("copy").failures, outbox.due()) == (1, [])
    assert "secret" not in str(outbox.get("copy").error)
