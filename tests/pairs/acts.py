"""The acts, each as a person's command or a run of the system performs it. A process performs one.

An act raises a `CatchmentError` if it is refused. `final` are refusals that end it: repeated, they stay.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import sinks
from catchment.audit import chain, signing
from catchment.audit.export import export as export_bundle
from catchment.errors import CatchmentError, NoConsent, NotFound, NotNow, Refused, TryAgain
from catchment.ledger import Ledger, SinkState, UndoAction
from catchment.runtime import process
from catchment.sync import supply
from catchment.sync.preflight import WHOLE
from catchment.sync.revoke import Extent, revoke
from catchment.sync.supply import DeliveryCounts
from console import session
from console.data import backup
from tests.faults.desk import SOURCE
from tests.pairs.office import COPY, POLICY, SINK, Office

_MOST_RUNS = 20
_WHOLE = Extent(frozenset({WHOLE}), lambda _locator: True, whole=True)
_ACTOR, _REASON = "operator", "a pair of acts"


@dataclass(frozen=True, slots=True)
class Act:
    """An act by its name."""

    name: str
    play: Callable[[Office], None]
    final: tuple[type[CatchmentError], ...] = ()

    def perform(self, office: Office) -> None:
        """Play the act. A refused undo must not leave its sync open: the process may live, and no sync could begin."""
        try:
            self.play(office)
        except CatchmentError:
            with suppress(NotFound), closing(Ledger.inspect(office.home.database_url)) as ledger:
                mine = [row for row in ledger.syncs.recent(limit=100) if row.owner == process.identity()]
                assert not any(row.outcome is None and row.is_undo for row in mine), "the undo left its sync open"
            raise


def sync(office: Office) -> None:
    office.sync(POLICY)


def sync_elsewhere(office: Office) -> None:
    """The source was moved to another machine, which syncs it and cannot see the processes of this one."""
    process.boot = lambda: "elsewhere"
    with session.writing() as ledger:
        ledger.sources.note(SOURCE, "moved", _ACTOR, "to elsewhere")
    office.sync(POLICY)


def replay(office: Office) -> None:
    """Let one run after another work on the backfill, until it is done."""
    for _ in range(_MOST_RUNS):
        if not office.replay():
            return
    raise AssertionError("the backfill does not end")


def cancel(office: Office) -> None:
    with session.writing() as ledger:
        ledger.backfills.cancel(office.backfill, _ACTOR, _REASON)


def undo(office: Office) -> None:
    """Undo the second sync, and note the paths that the undo reports as left."""
    with session.writing() as ledger:
        actions = ledger.undo.undo(office.number, _ACTOR, _REASON, ledger.alive).actions
    office.note("left", [path for path, action in actions.items() if action is UndoAction.LEFT])


def revoke_consent(office: Office) -> None:
    with session.writing() as ledger:
        source = ledger.sources.get(SOURCE)
        if not (proof := revoke(office.home, ledger, source, _WHOLE, _ACTOR)).holds:
            raise TryAgain(f"revoke: {proof}")


def restore(office: Office) -> None:
    assert backup.restore(office.aside / COPY) == 0


def rotate(office: Office) -> None:
    with session.writing() as ledger:
        public = signing.rotate(office.home)
        ledger.history.note("audit key replaced", _ACTOR, public.key)


def sign(office: Office) -> None:
    """Sign the history as the daily clean-up does."""
    with session.reading() as ledger:
        problems = chain.verify(office.home, ledger, sign=True).problems
    assert problems == (), problems


def export(office: Office) -> None:
    bundles = len(list(office.aside.glob("audit-*.tar")))
    with session.reading() as ledger:
        export_bundle(office.home, ledger, office.aside / f"audit-{bundles}.tar")


def erase(office: Office) -> None:
    before = datetime.fromtimestamp(office.noted("erase"), UTC)
    with session.writing() as ledger:
        chain.erase(office.home, ledger, before, _ACTOR, _REASON)


def rebuild(office: Office) -> None:
    """Empty the sink, and deliver everything to it."""
    with session.writing() as ledger:
        ledger.outbox.set_state(SINK, SinkState.EMPTYING, _ACTOR, _REASON)
    deliver(office)


def deliver(office: Office) -> None:
    """Bring the sink up to date, as the run of its deployment does."""
    with session.reading() as ledger, suppress(NotFound), supply.alone(office.home, ledger.outbox.get(SINK)):
        supply.deliver(ledger, SINK, sinks.opened, lambda: True, DeliveryCounts())


def is_revoked(ledger: Ledger) -> bool:
    """Return whether the consent to the first source is withdrawn."""
    return any(one.withdrawn is not None for one in ledger.consents.all(SOURCE, every=True))


ACTS = {
    act.name: act
    for act in (
        Act("sync", sync, (NoConsent,)),
        Act("move", sync_elsewhere, (NoConsent,)),
        Act("replay", replay, (NotFound, NoConsent, NotNow)),
        Act("fetch", replay, (NotFound, NoConsent, NotNow)),
        Act("cancel", cancel, (NotFound, Refused)),
        Act("undo", undo, (NotFound,)),
        Act("revoke", revoke_consent),
        Act("restore", restore),
        Act("rotate", rotate),
        Act("sign", sign),
        Act("export", export),
        Act("erase", erase),
        Act("rebuild", rebuild),
    )
}
