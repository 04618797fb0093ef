"""The beginning of a sync: preflight checks, recovery of jobs from dead processes, and the pace of its connector.

The checks are of consent, the state of the source, rules, circuit breakers and pauses requested by the host.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from catchment import __version__
from catchment.contracts import Connected, Connector, Guarded, Keeping, Paced, Parsing
from catchment.errors import CatchmentError, NoConsent, NotFound, NotNow, Reason, SourceUnavailable, Stopped
from catchment.ledger import (
    WHOLE,
    Backfill,
    Circumstances,
    ConsentState,
    Ledger,
    Source,
    Sync,
    SyncRow,
    first_change,
)
from catchment.model import Priority, ReplayStage
from catchment.pacing import HostLimits
from catchment.pacing.metered import Metered
from catchment.pacing.waits import Wait
from catchment.parser_pool import ParserPool
from catchment.runtime import process
from catchment.settings import Home, Limits, Policy
from catchment.telemetry.catalogue import LIMITED

_FULL_QUEUE = 10_000
"""Number of waiting jobs at which discovery slows down."""
_FILL_SECONDS = 5.0
"""Time for which their number is used."""
_WITHDRAWN = "consent expired or was withdrawn; reading stopped"
DEFECT = "upgrade its package, or tell its author"
"""The remedy for a connector that breaks the contract."""
_LIST_SECONDS = 20.0
"""Time to parse a feed or list of a stranger. One of 20 MB takes two."""


def scopes_of(connector: Connector) -> Mapping[str, str]:
    """Return the scopes that need consent, with descriptions. Empty if adding the source is the consent."""
    if isinstance(connector, Guarded):
        return connector.scopes()
    return {WHOLE: "all configured data"} if isinstance(connector, Paced) else {}


class Permit:
    """Consent to everything that a source is set to read. Rechecked during the sync, because consent can end at any time.

    Also ends when `sync` is closed, as on removal of the source, when the source is paused, or when `stop` is called.
    """

    def __init__(self, ledger: Ledger, source: Source, scopes: frozenset[str]) -> None:
        self.ended = False
        """True if no more may be read."""
        self.reason = ""
        """Reason for the end."""
        self.sync: int | None = None
        self._stopped = threading.Event()
        self._ledger = ledger
        self._source = source
        self._scopes = scopes

    def holds(self) -> bool:
        """Return whether the consent is still valid, and the source not paused. An ended permit stays ended."""
        if not self.ended and (reason := self._end()):
            self.ended, self.reason = True, reason
        return not self.ended

    def stop(self, reason: str) -> None:
        """Request the sync to stop. Thread-safe and idempotent."""
        if not self._stopped.is_set():
            self.ended, self.reason = True, reason
            self._stopped.set()

    @property
    def source_id(self) -> int:
        """The source that may be read."""
        return self._source.id

    @property
    def is_stopped(self) -> bool:
        """True if the sync was requested to stop."""
        return self._stopped.is_set()

    def check(self) -> None:
        """Raise Stopped if the sync was requested to stop. Cheap: called between changes, items and requests."""
        if self._stopped.is_set():
            raise Stopped(self.reason)

    def sleep(self, seconds: float) -> None:
        """Wait between two requests to a host. Raises Stopped immediately when the sync is requested to stop."""
        self._stopped.wait(seconds)
        self.check()

    def _end(self) -> str:
        """Return why no more may be read; "" if it may."""
        if not self._scopes <= self._ledger.consents.valid(self._source.id):
            return _WITHDRAWN
        if self.sync is None:
            return ""  # Not begun: `gate` judges pauses.
        with suppress(NotFound):  # It may be removed.
            wait = self._ledger.sources.get(self._source.name).wait
            if self._ledger.syncs.is_open(self.sync):
                return str(wait or "")
        return _WITHDRAWN


@contextmanager
def limited(permit: Permit, seconds: float | None) -> Iterator[None]:
    """Stop the permit after this time; None: never."""
    timer = threading.Timer(seconds or 0, permit.stop, ("stopped at its time limit",))
    timer.daemon = True
    if seconds is not None:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def consented(ledger: Ledger, source: Source, connector: Connector) -> Permit:
    """Return the permit to read a source now.

    For local files, adding the source is the consent, which is recorded here. Raises NoConsent if a scope lacks consent, and
    records the scope as requested.
    """
    scopes = scopes_of(connector)
    needed = frozenset(scopes or {WHOLE})
    consents = {consent.scope: consent for consent in ledger.consents.all(source.name, every=True)}
    if not scopes and WHOLE not in consents:
        ledger.consents.give(source.id, needed, "configuration", None, if_new=True)
    elif {consent.scope for consent in consents.values() if consent.wanted} != needed:
        ledger.consents.ask(source.id, needed)
    permit = Permit(ledger, source, needed)
    if not permit.holds():
        present = ledger.consents.all(source.name)
        # If all scopes are given by now, the consent expired in between.
        expired = replace(present[0], state=ConsentState.EXPIRED)
        lacking = next((consent for consent in present if consent.problem), expired)
        raise NoConsent(f"{source.name}{lacking.suffix}: {lacking.problem}; run: {lacking.remedy}")
    return permit


def limits_of(connector: Connector) -> HostLimits | None:
    """Return the limits of the connector's only host, or None if it has none, or several."""
    return connector.limits() if isinstance(connector, Paced) else None


def admitted(home: Home, ledger: Ledger, source: Source, connector: Connector, *, asks_host: bool = True) -> None:
    """Check that the source may be synced now, and set the folder for its files. Raises NotNow."""
    if (wait := gate(ledger, source, limits_of(connector) if asks_host else None)) is not None:
        raise NotNow(str(wait), wait.until)
    if isinstance(connector, Keeping):
        connector.folder = home.copies(source.name)


def gate(ledger: Ledger, source: Source, limits: HostLimits | None) -> Wait | None:
    """Return why a sync may not start now; None if it may.

    Idempotent. If a circuit breaker is half open, this process becomes the one that probes.
    """
    wait = source.wait or ledger.throttles.blocked(source.name)
    if wait is None:
        return ledger.pacing.not_before(source.name, limits, process.identity())
    if source.wait is None:
        ledger.measures.tally.add(LIMITED, 1, source.id, limit="rule")
        ledger.measures.flush()
    return wait


@contextmanager
def paced(
    connector: Connector, ledger: Ledger, source: Source, sleep: Callable[[float], None] = time.sleep
) -> Iterator[None]:
    """Set a metered pace on a connector that uses a host. On exit, release its slots and connections.

    `sleep` waits between two requests.
    """
    if not isinstance(connector, Paced):
        yield
        return

    @lru_cache(maxsize=1)
    def level(_period: int) -> float:
        return ledger.queue.waiting(source.id).ready / _FULL_QUEUE

    def fill() -> float:
        # Each host calls this separately, and counting 10,000 jobs takes as long as several requests.
        return level(int(time.monotonic() / _FILL_SECONDS))

    pace = Metered(ledger.pacing, connector.limits(), source.name, process.identity(), fill=fill, sleep=sleep)
    connector.pace = pace
    try:
        yield
    finally:
        if isinstance(connector, Connected):
            connector.close()
        pace.close()


def let_parse(connector: Connector, pool: ParserPool, limits: Limits) -> None:
    """Let a connector parse untrusted content in processes of a pool. A list has less time than an item."""
    if isinstance(connector, Parsing):
        stall = min(limits.stall_seconds, _LIST_SECONDS)
        connector.parse = partial(pool.call, limits.model_copy(update={"stall_seconds": stall}))


def probe(connector: Connector) -> str:
    """Check that a source can be read, and describe it in one line. Raises as `Connector.probe`."""
    with ParserPool(1) as pool:
        let_parse(connector, pool, connector.policy.limits)
        try:
            return connector.probe()
        except CatchmentError:
            raise
        except (Exception, SystemExit) as error:
            reason = f"its connector failed ({type(error).__name__}); {DEFECT}"
            raise SourceUnavailable(f"{connector.kind}: {reason}") from error


@dataclass(frozen=True, slots=True)
class StartedSync:
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
) -> StartedSync:
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

    def runs_elsewhere(owner: str) -> bool:
        return owner != process.identity() and ledger.alive(owner)

    if before is None or before.outcome is not None or not runs_elsewhere(before.owner):
        # Before closing a crashed sync, because closing it returns all jobs without checking their attempts. A live sync keeps
        # its jobs even if a clock change makes its leases look expired.
        ledger.queue.recover(source.id, runs_elsewhere, policy.retry.attempts)
    sync = ledger.syncs.begin(
        source.id,
        run=run,
        owner=process.identity(),
        code_version=__version__,
        alive=runs_elsewhere,
        circumstances=now,
        backfill=None if backfill is None else backfill.id,
    )
    permit.sync = sync.id
    if now is not None:
        ledger.quarantine.auto_retry(sync.id, now)
    return StartedSync(source, sync, before, permit, was_released)


def _release(ledger: Ledger, source: Source, now: Circumstances) -> bool:
    """Resume a held source if its login or settings have changed since the failure. Return whether it was resumed."""
    before = ledger.syncs.circumstances(source.id) if source.state == "held" else {}
    if first_change(Reason.PERMISSION_DENIED, before, now) is None:
        return False
    ledger.sources.release(source.name, "catchment")
    return True
