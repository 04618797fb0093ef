"""Start of a sync: preflight checks, recovery of jobs from dead processes, and the sync's row in the ledger."""

from __future__ import annotations

from dataclasses import dataclass

from catchment import __version__
from catchment.contracts import Connector
from catchment.errors import Reason
from catchment.ledger import Backfill, Circumstances, Ledger, Source, Sync, SyncRow, first_change
from catchment.model import Priority, ReplayStage
from catchment.runtime import process
from catchment.settings import Home, Policy
from catchment.sync.preflight import Permit, admitted, consented


@dataclass(frozen=True, slots=True)
class Begun:
    """A started sync, its permit, and the previous sync of its source. `was_released`: the source was held until now."""

    source: Source
    sync: Sync
    before: SyncRow | None
    permit: Permit
    was_released: bool


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
    backfill: Backfill | None = None,
) -> Begun:
    """Start a sync. Raises NoConsent, NotNow, or TryAgain if another sync of the source is running.

    Recovers jobs held by dead processes, and retries items that failed under other conditions. The caller ensures that this
    process has no other open sync of the source, since it could not be closed here.
    """
    source = ledger.sources.put(name, connector.kind, priority, keep_days=policy.keep_days)
    permit = consented(ledger, source, connector)
    was_released = now is not None and _release(ledger, source, now)
    if was_released:
        source = ledger.sources.get(name)
    asks_source = backfill is None or backfill.selection.stage is ReplayStage.FETCH
    admitted(home, ledger, source, connector, asks_host=asks_source)
    before = ledger.syncs.last(source.id)
    if before is None or before.outcome is not None or not _runs_elsewhere(before.owner):
        # Before closing a crashed sync, because closing it returns all jobs without checking their attempts. A live sync keeps
        # its jobs even if a clock change makes its leases look expired.
        ledger.queue.recover(source.id, _runs_elsewhere, policy.retry.attempts)
    sync = ledger.syncs.begin(
        source.id,
        run=run,
        owner=process.identity(),
        code_version=__version__,
        alive=_runs_elsewhere,
        circumstances=now,
        backfill=None if backfill is None else backfill.id,
    )
    permit.sync = sync.id
    if now is not None:
        ledger.quarantine.auto_retry(source.id, now)
    return Begun(source, sync, before, permit, was_released)


def _runs_elsewhere(owner: str) -> bool:
    return owner != process.identity() and process.alive(owner)


def _release(ledger: Ledger, source: Source, now: Circumstances) -> bool:
    """Resume a held source if its login or settings have changed since the failure. Return whether it was resumed."""
    before = ledger.syncs.circumstances(source.id) if source.state == "held" else {}
    if first_change(Reason.PERMISSION_DENIED, before, now) is None:
        return False
    ledger.sources.release(source.name, "catchment")
    return True
