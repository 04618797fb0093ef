"""What a sync passes before it begins, and its pace then.

Consent, the state of its source, rules, breakers, what its host said.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from catchment.contracts import Connected, Connector, Guarded, Mirrored, Paced
from catchment.errors import NoConsent, NotNow, Stopped
from catchment.ledger import ConsentState, Ledger, Source
from catchment.pacing import HostLimits
from catchment.pacing.metered import Metered
from catchment.runtime import process
from catchment.settings import Home

_FULL_QUEUE = 10_000
"""Jobs that wait at a source, at which more need not be looked for in a hurry: a slice of batches."""


WHOLE = "content"
"""The scope of a source whose kind knows no parts."""


def scopes_of(connector: Connector) -> Mapping[str, str]:
    """What a person has to agree to, in words, by scope; empty where adding the source is the consent."""
    if isinstance(connector, Guarded):
        return connector.scopes()
    return {WHOLE: "everything that it is set to read"} if isinstance(connector, Paced) else {}


class Permit:
    """Consent to all that a source is set to read. It may end at any time, so the sync checks it again as it reads.

    It ends with the `sync` that it is for, once there is one: a source that was removed closes that. `stop` ends it too.
    """

    def __init__(self, ledger: Ledger, source: Source, scopes: frozenset[str]) -> None:
        self.ended = False
        """Whether nothing more may be read."""
        self.reason = ""
        """Why, once it has ended."""
        self.sync: int | None = None
        self._stopped = threading.Event()
        self._ledger = ledger
        self._source = source
        self._scopes = scopes

    def holds(self) -> bool:
        """Whether a person still agrees; once it has ended, it has for good."""
        if not self.ended and not self._stands():
            self.ended, self.reason = True, "consent expired or was withdrawn; reading stopped"
        return not self.ended

    def stop(self, reason: str) -> None:
        """Ask the sync to stop as soon as it can. Any thread may call this, more than once."""
        if not self._stopped.is_set():
            self.ended, self.reason = True, reason
            self._stopped.set()

    @property
    def is_stopped(self) -> bool:
        """Whether the sync was asked to stop."""
        return self._stopped.is_set()

    def check(self) -> None:
        """Raise Stopped if the sync was asked to stop. Cheap: called between changes, items and requests."""
        if self._stopped.is_set():
            raise Stopped(self.reason)

    def sleep(self, seconds: float) -> None:
        """Wait, as between two requests to a host. Raises Stopped as soon as the sync is asked to stop."""
        self._stopped.wait(seconds)
        self.check()

    def _stands(self) -> bool:
        if self.sync is not None and not self._ledger.syncs.is_open(self.sync):
            return False
        return self._scopes <= self._ledger.consents.valid(self._source.id)


def consented(ledger: Ledger, source: Source, connector: Connector) -> Permit:
    """The permit to read a source now.

    Of this machine's own files, who wrote the source down has agreed, which is recorded here. Raises NoConsent when a scope
    may not be read; it is remembered as asked for.
    """
    asked = scopes_of(connector)
    needed = frozenset(asked or {WHOLE})
    said = {consent.scope: consent for consent in ledger.consents.all(source.name, every=True)}
    if not asked and WHOLE not in said:
        ledger.consents.give(source.id, needed, "configuration", None)
    elif {consent.scope for consent in said.values() if consent.wanted} != needed:
        ledger.consents.ask(source.id, needed)
    permit = Permit(ledger, source, needed)
    if not permit.holds():
        states = {scope: said[scope].state if scope in said else ConsentState.ASKED for scope in sorted(needed)}
        raise NoConsent(_unread(source.name, states))
    return permit


def _unread(name: str, states: Mapping[str, ConsentState]) -> str:
    """Why a source is not read, of the first scope that keeps it from being so."""
    # Should none do so any more, it has ended just now.
    found = ((scope, state) for scope, state in states.items() if state is not ConsentState.GIVEN)
    scope, state = next(found, (next(iter(states)), ConsentState.EXPIRED))
    what = name if scope == WHOLE else f"{name} ({scope})"
    if state is ConsentState.PURGING:
        return f"{what}: deletion of revoked data is incomplete; finish it with `catchment consent revoke {name}`"
    why = {
        ConsentState.ASKED: "no consent given",
        ConsentState.EXPIRED: "consent expired",
        ConsentState.WITHDRAWN: "consent withdrawn",
    }[state]
    return f"{what}: {why}; run: catchment consent give {name}"


def limits_of(connector: Connector) -> HostLimits | None:
    """How the connector means to treat its host; None where it asks none."""
    return connector.limits() if isinstance(connector, Paced) else None


def admitted(home: Home, ledger: Ledger, source: Source, connector: Connector) -> None:
    """Let the connector at a source that a person has agreed to, and show it the place of its copies. Raises NotNow."""
    if (reason := gate(ledger, source, limits_of(connector))) is not None:
        raise reason
    if isinstance(connector, Mirrored):
        connector.folder = home.copies(source.name)


def gate(ledger: Ledger, source: Source, limits: HostLimits | None) -> NotNow | None:
    """Why a sync of this source may not begin now, with the moment when it may where that is known; None when it may.

    May be asked again. Of a breaker that lets one process try, this process becomes the one.
    """
    name = source.name
    if source.state != "active":
        return NotNow(f"{name}: {source.state}; resume with `catchment sources resume {name}`")
    if (ruled := ledger.throttles.blocked(name)) is not None:
        until, why = ruled
        end = f" until {until:%H:%M} UTC" if until else ""
        return NotNow(f"{name}: throttled{end} ({why}); see `catchment throttle show`", until)
    if (found := ledger.pacing.not_before(name, limits, process.identity())) is not None:
        moment, why = found
        return NotNow(f"{name}: throttled until {moment:%H:%M} UTC ({why}); see `catchment throttle show`", moment)
    return None


@contextmanager
def paced(
    connector: Connector, ledger: Ledger, source: Source, sleep: Callable[[float], None] = time.sleep
) -> Iterator[None]:
    """Give a connector that asks a host its pace, and take back what it holds: of the pace, and of connections.

    `sleep` waits between two requests.
    """
    if not isinstance(connector, Paced):
        yield
        return

    def fill() -> float:
        return ledger.queue.waiting(source.id).ready / _FULL_QUEUE

    pace = Metered(ledger.pacing, connector.limits(), source.name, process.identity(), fill=fill, sleep=sleep)
    connector.pace = pace
    try:
        yield
    finally:
        if isinstance(connector, Connected):
            connector.close()
        pace.close()
