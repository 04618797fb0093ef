"""How a sync begins: what it passes, what a dead process left, and its row in the ledger."""

from __future__ import annotations

from dataclasses import dataclass

from catchment import __version__
from catchment.contracts import Connector
from catchment.ledger import Ledger, Source, Sync, SyncRow
from catchment.ledger.jobs.circumstances import Circumstances, changed
from catchment.model import Priority, Reason
from catchment.runtime import process
from catchment.settings import Home, Policy
from catchment.sync.preflight import Permit, admitted, consented


@dataclass(frozen=True, slots=True)
class Begun:
    """A sync that has begun, what it may read, and the sync of its source before it."""

    source: Source
    sync: Sync
    before: SyncRow | None
    permit: Permit


def begin(
    home: Home,
    ledger: Ledger,
    connector: Connector,
    name: str,
    policy: Policy,
    priority: Priority,
    *,
    run: str | None,
    now: Circumstances | None,
) -> Begun:
    """Let a sync of a source begin. Raises NoConsent, NotNow, TryAgain when another one of it is running.

    Jobs that a dead process held are taken back, and what was given up under other circumstances is tried again. The caller
    has made sure that this process has no other sync of the source open: an open one of ours could not be closed.
    """
    source = ledger.sources.put(name, connector.kind, priority)
    permit = consented(ledger, source, connector)
    if now is not None:
        source = _released(ledger, source, now)
    admitted(home, ledger, source, connector)
    before = ledger.syncs.last(source.id)
    if before is None or before.outcome is not None or not _runs_elsewhere(before.owner):
        # First, for closing a crashed sync lets all its jobs wait again, and asks none how often it was tried. One that
        # lives keeps its jobs, though its leases seem to have ended when the clock was set.
        ledger.queue.recover(source.id, _runs_elsewhere, policy.retry.attempts)
    sync = ledger.syncs.begin(
        source.id, run=run, owner=process.identity(), code_version=__version__, alive=_runs_elsewhere, circumstances=now
    )
    permit.sync = sync.id
    if now is not None:
        ledger.quarantine.heal(source.id, now)
    return Begun(source, sync, before, permit)


def _runs_elsewhere(owner: str) -> bool:
    return owner != process.identity() and process.alive(owner)


def _released(ledger: Ledger, source: Source, now: Circumstances) -> Source:
    """The source, which is not held any more if its login or its settings are others than when it failed."""
    before = ledger.syncs.circumstances(source.id) if source.state == "held" else {}
    if changed(Reason.PERMISSION_DENIED, before, now) is None:
        return source
    ledger.sources.resume(source.name, "catchment")
    return ledger.sources.get(source.name)
