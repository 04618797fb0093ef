"""The delivery of documents to a sink: compare it with the library once, then send each change.

A batch counts as received when the sink has stored it, so a kill repeats one batch at most. After each batch, the sink and then
the ledger get the same new stamp. If the stamps differ, the sink or the ledger was restored from a copy, or a kill interrupted
this step: the sink is compared again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from catchment.contracts import Destination, Sink
from catchment.errors import (
    CatchmentError,
    DocumentRefused,
    LedgerError,
    LoginFailed,
    NotFound,
    Refused,
    SinkUnavailable,
    UserError,
)
from catchment.ledger import LAST_ID, Ledger, Outbox, SinkRow, SinkState, in_parts
from catchment.model import DocumentCopy
from catchment.runtime import atomic_files
from catchment.runtime.home import Home

Opening = Callable[[str, str, str | None], AbstractContextManager[Sink]]
"""Opens a sink by kind, place and secret."""
_PAGE = 2_000
"""Number of documents to compare at a time."""
_FEW = 20
PLACE_FAILURES = SinkUnavailable, DocumentRefused, UserError, LoginFailed
"""The exceptions of a place. Within `write` only, a refusal is about a document."""


@dataclass(slots=True)
class DeliveryCounts:
    """Numbers of documents that a delivery stored at a sink, deleted there, or that the sink refused."""

    sent: int = 0
    removed: int = 0
    refused: int = 0

    def __str__(self) -> str:
        others = ((self.removed, "deleted"), (self.refused, "refused"))
        parts = [f"{self.sent:,} sent", *(f"{n:,} {verb}" for n, verb in others if n)]
        return ", ".join(parts) if any((self.sent, self.removed, self.refused)) else "nothing to do"


@dataclass(frozen=True, slots=True)
class Differences:
    """IDs of documents: not at the sink, there with another version, and there although the library has them no more."""

    missing: tuple[int, ...]
    outdated: tuple[int, ...]
    surplus: tuple[int, ...]


@contextmanager
def alone(home: Home, sink: SinkRow) -> Iterator[None]:
    """Hold the right to write to a sink, on this machine. Waits for another process."""
    folder = home.run / f"sink-{sink.id}"
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_files.alone(folder):
        yield


def deliver(
    ledger: Ledger, name: str, opened: Opening, may_continue: Callable[[], bool], counts: DeliveryCounts
) -> None:
    """Bring a sink up to date, until it is, or is paused, or `may_continue` returns False between two batches.

    `opened` opens its place. Adds to `counts`. A sink that is away is recorded, and its next delivery put off.
    Raises NotFound, or SinkUnavailable.
    """
    delivery = _Delivery(ledger, ledger.outbox.get(name), counts)
    sink = delivery.sink
    try:
        with opened(sink.kind, sink.place, sink.secret) as place:
            if own_stamp(ledger.outbox, sink, place) != sink.stamp:
                delivery.sink = ledger.outbox.recheck(sink)
            while may_continue() and delivery.step(place):
                pass
    except PLACE_FAILURES as error:
        if isinstance(error, NotFound):
            raise
        ledger.outbox.failed(delivery.sink, str(error))
        raise SinkUnavailable(str(error)) from error
    except LedgerError:
        raise
    except Exception as error:
        ledger.outbox.failed(delivery.sink, f"unexpected {type(error).__name__}; see `catchment logs worker`")
        raise


def own_stamp(outbox: Outbox, sink: SinkRow, place: Sink) -> str | None:
    """Return the stamp of a place. Reads no document. Raises Refused if it is of another home or another sink."""
    stamp = place.stamp()
    if outbox.is_own(sink, stamp):
        return stamp
    raise Refused(
        f"{sink.name}: another home or sink writes to its place; connect its own, "
        f"or if nothing else uses it: catchment sinks adopt {sink.name}"
    )


def adopt(home: Home, ledger: Ledger, name: str, opened: Opening, actor: str, reason: str = "") -> None:
    """Take over the place of a sink from another home or sink. The next write of the former owner is refused. May be repeated.

    Waits for a delivery. The next one sends the differences. Raises NotFound, SinkUnavailable.
    """
    outbox = ledger.outbox
    with alone(home, outbox.get(name)):
        sink = outbox.get(name)
        with opened(sink.kind, sink.place, sink.secret) as place:
            place.mark(stamp := outbox.new_stamp(sink))
            outbox.adopt(sink, stamp, actor, reason)


def look(home: Home, ledger: Ledger, name: str, opened: Opening) -> None:
    """Request a comparison of an idle sink if its place was put back from a copy or emptied.

    Otherwise, record that it is up to date now, that it is away, or that another home or sink took it over.

    Reads at most a few documents' versions. Waits for a delivery. Raises NotFound.
    """
    outbox = ledger.outbox
    with alone(home, outbox.get(name)):
        sink = outbox.get(name)
        if not sink.is_idle or not outbox.is_served_here(sink):
            return
        try:
            with opened(sink.kind, sink.place, sink.secret) as place:
                if own_stamp(outbox, sink, place) != sink.stamp or _is_emptied(outbox, sink, place):
                    outbox.recheck(sink)
                else:
                    outbox.caught_up(sink)
        except PLACE_FAILURES as error:
            if str(error) != sink.error:
                outbox.failed(sink, str(error))


def _is_emptied(outbox: Outbox, sink: SinkRow, place: Sink) -> bool:
    """Return whether a place has none of the first documents that it accepted."""
    refused = outbox.refusals(sink, sink.refused)
    versions = outbox.versions(0, _FEW + len(refused), vectors=place.wants_vectors)
    accepted = versions.items() - {(number, versions[number]) for number in refused if number in versions}
    return bool(accepted) and not accepted & place.versions(0, max(versions)).items()


def export(ledger: Ledger, place: Destination) -> DeliveryCounts:
    """Send the whole library to a new place. Raises SinkUnavailable."""
    counts, after = DeliveryCounts(), 0
    while numbers := ledger.outbox.versions(after, place.batch):
        after = max(numbers)
        refused = _written(place, documents := ledger.outbox.documents(numbers), ())
        counts.sent += len(documents) - len(refused)
        counts.refused += len(refused)
    return counts


def differences(ledger: Ledger, place: Sink, refused: Collection[int] = ()) -> Differences:
    """Compare a sink with the library, document by document. Raises SinkUnavailable."""
    missing, outdated, surplus = list[int](), list[int](), list[int]()
    after = 0
    while after != LAST_ID:
        in_library, in_place, last = _page(ledger.outbox, place, after)
        missing += sorted(in_library.keys() - in_place.keys() - set(refused))
        surplus += sorted(in_place.keys() - in_library.keys())
        outdated += sorted(
            number for number in in_library.keys() & in_place.keys() if in_library[number] != in_place[number]
        )
        after = last
    return Differences(tuple(missing), tuple(outdated), tuple(surplus))


def _page(outbox: Outbox, place: Sink, after: int) -> tuple[Mapping[int, str], Mapping[int, str], int]:
    """Return the versions of the next documents of the library and of a sink, and the last ID that they cover."""
    versions = outbox.versions(after, _PAGE, vectors=place.wants_vectors)
    last = max(versions) if len(versions) == _PAGE else LAST_ID
    return versions, place.versions(after, last), last


class _Delivery:
    def __init__(self, ledger: Ledger, sink: SinkRow, counts: DeliveryCounts) -> None:
        self.sink = sink
        self._outbox = ledger.outbox
        self._counts = counts

    def step(self, place: Sink) -> bool:
        """Send the next batch, and return whether there may be more."""
        sink = self.sink
        if sink.state is SinkState.PAUSED:
            return False
        if sink.state is SinkState.EMPTYING:
            for part in in_parts(sorted(place.versions(0, LAST_ID)), place.batch):
                self._write(place, (), part)
            self.sink = self._outbox.compare(sink, self._marked(place), is_emptied=True)
        elif sink.must_be_compared:
            self.sink = self._outbox.compare(sink, self._marked(place))
        elif sink.compared is not None:
            self._compare(place, sink.compared)
        else:
            return self._send_changes(place)
        return True

    def _marked(self, place: Sink) -> str:
        """Give the place a new stamp, and return it. Raises Refused if the place was taken over meanwhile."""
        own_stamp(self._outbox, self.sink, place)
        stamp = self._outbox.new_stamp(self.sink)
        place.mark(stamp)
        return stamp

    def _compare(self, place: Sink, after: int) -> None:
        in_library, in_place, last = _page(self._outbox, place, after)
        differing = [number for number in in_library if in_place.get(number) != in_library[number]]
        surplus = sorted(in_place.keys() - in_library.keys())
        refusals = dict[int, str]()
        for part in in_parts([*differing, *surplus], place.batch):
            refusals |= self._send(place, part)
        stamp = self._marked(place) if differing or surplus else None
        self.sink = self._outbox.received(self.sink, [*in_library, *surplus], refusals, compared=last, stamp=stamp)

    def _send_changes(self, place: Sink) -> bool:
        changed, position = self._outbox.changes(self.sink, place.batch)
        if not changed:
            self.sink = self._outbox.caught_up(self.sink)
            return False
        refusals = self._send(place, changed)
        stamp = self._marked(place)
        self.sink = self._outbox.received(self.sink, changed, refusals, position=position, stamp=stamp)
        return True

    def _send(self, place: Sink, numbers: Collection[int]) -> dict[int, str]:
        """Let the sink store those of these documents that the library has, and delete the others."""
        present = self._outbox.documents(numbers, vectors=place.wants_vectors)
        return self._write(place, present, set(numbers) - {document.id for document in present})

    def _write(self, place: Sink, changed: Sequence[DocumentCopy], removed: Collection[int]) -> dict[int, str]:
        own_stamp(self._outbox, self.sink, place)
        refusals = _written(place, changed, removed)
        self._counts.sent += len(changed) - len(refusals)
        self._counts.removed += len(removed)
        self._counts.refused += len(refusals)
        return refusals


def _written(place: Destination, changed: Sequence[DocumentCopy], removed: Collection[int]) -> dict[int, str]:
    """Let a sink store and delete documents. Return the reasons for refused documents; it has no version of these then.

    A document for which the sink raises an unexpected error is refused, too, if the sink can delete it.
    """
    refusals = dict[int, str]()
    try:
        place.write(changed, removed)
    except Exception as error:  # noqa: BLE001 - `_refusal` raises the errors that are not about a document
        _refusal(error)
        place.write((), [*removed, *(document.id for document in changed)])
        for document in changed:
            try:
                place.write([document], ())
            except Exception as error:  # noqa: BLE001 - as above
                refusals[document.id] = _refusal(error)
                place.write((), [document.id])
    return refusals


def _refusal(error: Exception) -> str:
    """Return why a sink refuses a document. Raises an error that concerns the whole sink."""
    if isinstance(error, DocumentRefused):
        return str(error)
    if isinstance(error, CatchmentError | OSError | MemoryError):
        raise error
    return f"unexpected {type(error).__name__}"
