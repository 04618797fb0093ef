"""Add, pause, resume, rebuild, adopt and remove a sink, a place that documents are copied to; compare it with the library."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import sinks
from catchment.errors import BadInput, NoConsent, TryAgain
from catchment.ledger import Ledger, SinkRow, SinkState
from catchment.runtime.home import CONTROL, expanded
from catchment.runtime.membership import Membership
from catchment.sync import supply
from deployments.actions.desk import Desk
from deployments.runs import deliveries

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}\Z")


def kinds() -> tuple[str, ...]:
    """Return the kinds of sink."""
    return sinks.kinds()


def add(
    desk: Desk,
    kind: str,
    place: str,
    name: str,
    actor: str,
    reason: str = "",
    *,
    secret: str | None = None,
    consented: bool = False,
) -> SinkRow:
    """Add a sink, which receives the whole library next.

    Args:
        place: The full path of a folder that is empty or does not exist yet, or an address.
        secret: The reference to its password.
        consented: The operator agreed that documents leave this machine. Not needed for a place on it.

    Raises NoConsent, BadInput, Refused if the place has other data, SinkUnavailable if it cannot be written.
    """
    if not _NAME.match(name):
        raise BadInput(f"{name!r}: not a valid name; use lower-case letters, digits, - and _")
    if CONTROL.search(place):
        raise BadInput(f"{place!r}: contains a control character; choose another place")
    folder = None
    if sinks.is_folder(kind):
        folder = expanded(Path(place))
        if not folder.is_absolute():
            raise BadInput(f"{kind}: not a full path; pass one such as /home/me/{folder.name} or ~/{folder.name}")
        place = str(folder)
    host = sinks.host_elsewhere(kind, place)
    if host and not consented:
        raise NoConsent(f"{host}: not this machine; pass --consent to have all documents sent there")
    if Membership.of(desk.home):
        # The first host that deploys a sink copies to it, so this one must.
        desk.require_running()
    desk.read_blocks()
    with desk.writing() as ledger:
        if any(sink.name == name for sink in ledger.outbox.all()):
            raise BadInput(f"{name}: a sink with this name exists; choose another name")
        if folder:
            _require_free(desk, ledger, folder)
        with sinks.opened(kind, place, secret, create=True) as made:
            wants_vectors = made.wants_vectors
            # An empty place may still have the stamp of a former sink.
            made.mark("")
        added = ledger.outbox.add(name, kind, place, secret, actor, reason, wants_vectors=wants_vectors)
    _deliver(desk, name)
    return added


def pause(desk: Desk, name: str, actor: str, reason: str = "") -> None:
    """Stop the deliveries to a sink until it is resumed; a batch that is being written is completed. Raises NotFound."""
    with desk.writing() as ledger:
        ledger.outbox.set_state(name, SinkState.PAUSED, actor, reason)


def resume(desk: Desk, name: str, actor: str, reason: str = "") -> None:
    """Compare a sink with the library and send the differences, also those that it refused before. Raises NotFound."""
    with desk.writing() as ledger:
        ledger.outbox.set_state(name, SinkState.ACTIVE, actor, reason)
    _deliver(desk, name)


def rebuild(desk: Desk, name: str, actor: str, reason: str = "") -> None:
    """Have all documents deleted at a sink and sent again. Raises NotFound, Refused if it is paused."""
    with desk.writing() as ledger:
        ledger.outbox.set_state(name, SinkState.EMPTYING, actor, reason)
    _deliver(desk, name)


def adopt(desk: Desk, name: str, actor: str, reason: str = "") -> SinkRow:
    """Take over the place of a sink from another home or sink, and make it equal to the library.

    Raises NotFound, or SinkUnavailable, without a change, if the place cannot be reached.
    """
    desk.read_blocks()
    with desk.writing() as ledger:
        supply.adopt(desk.home, ledger, name, sinks.opened, actor, reason)
        adopted = ledger.outbox.get(name)
    _deliver(desk, name)
    return adopted


def remove(desk: Desk, name: str, actor: str, reason: str = "") -> SinkRow:
    """Forget a sink and delete its deployment. Its copies stay. Raises NotFound."""
    with desk.writing() as ledger:
        sink = ledger.outbox.get(name)
        # Ends a delivery between two batches.
        ledger.outbox.set_state(name, SinkState.PAUSED, actor, reason)
        deliveries.undeploy_sink(desk.home, name)
        with supply.alone(desk.home, sink):
            ledger.outbox.remove(name, actor, reason)
    return sink


def _deliver(desk: Desk, name: str) -> None:
    # The action is done. If the server does not respond now, the worker starts the delivery at its next look.
    with suppress(TryAgain):
        deliveries.start_delivery(desk.home, name)


def _require_free(desk: Desk, ledger: Ledger, folder: Path) -> None:
    """Refuse a folder of another sink, or of Catchment itself, or within one; also by another path to it."""
    place = folder.resolve()
    if place.is_relative_to(desk.home.path.resolve()):
        raise BadInput(f"{folder}: Catchment's own state; choose another folder")
    for sink in ledger.outbox.all():
        if sinks.is_folder(sink.kind):
            used = Path(sink.place).resolve()
            if place.is_relative_to(used) or used.is_relative_to(place):
                raise BadInput(f"{folder}: the place of the sink {sink.name}; choose another folder")


def check(desk: Desk, name: str) -> supply.Differences:
    """Compare a sink with the library. Raises NotFound, SinkUnavailable, Refused if its place is another's."""
    desk.read_blocks()
    with desk.reading() as ledger:
        sink = ledger.outbox.get(name)
        with sinks.opened(sink.kind, sink.place, sink.secret) as place:
            supply.own_stamp(ledger.outbox, sink, place)
            return supply.differences(ledger, place, ledger.outbox.refusals(sink, sink.refused))
