"""A document that a sink refuses: the others of its batch are stored, and it is offered again when it changes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

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

    def write(self, changed: Sequence[DocumentCopy], removed: Collection[int]) -> None:
        for number in removed:
            self.stored.pop(number, None)
        for document in changed:
            self.stored[document.id] = document.version
            if document.title == self.refuses:
                raise DocumentRefused("too heavy")

    def versions(self, after: int, last: int) -> Mapping[int, str]:
        return {number: version for number, version in self.stored.items() if after < number <= last}

    def close(self) -> None:
        return


def test_refused_document_stops_no_other(world: World) -> None:
    choosy, outbox = Choosy(), world.ledger.outbox

    @contextmanager
    def opened(_kind: str, _place: str, _secret: str | None) -> Iterator[Sink]:
        yield choosy

    def supply() -> DeliveryCounts:
        counts = DeliveryCounts()
        deliver(world.ledger, "copy", opened, lambda: True, counts)
        return counts

    world.ingest(*notes(3))
    outbox.add("copy", "choosy", "here", None, "operator:anna")
    assert str(supply()) == "2 sent, 1 refused"
    sink = outbox.get("copy")
    assert (choosy.stored.keys(), outbox.refusals(sink), sink.waiting) == ({1, 3}, {2: "too heavy"}, 0)
    assert differences(world.ledger, choosy, [2]).missing == ()
    assert str(export(world.ledger, choosy)) == "2 sent, 1 refused"
    choosy.refuses = ""
    world.ingest(note("n/1.md", "v2", "n1"))
    assert str(supply()) == "1 sent"
    assert outbox.get("copy").refused == 0
