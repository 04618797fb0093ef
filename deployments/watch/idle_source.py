"""A watched mail account: an IDLE connection on the inbox, and how well it works.

New mail in the inbox is a hint only. The sync compares every folder.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from catchment.errors import CatchmentError, LoginFailed
from catchment.ledger import Ledger
from catchment.runtime.home import Home
from catchment.runtime.watch_status import Watching, WatchState
from connectors.imap import Imap
from connectors.imap.settings import ImapSettings
from deployments.server.client import read_blocks_of
from deployments.server.running import running
from deployments.sources.sources_file import SourceEntry
from deployments.watch.debounce import Debounce
from deployments.watch.tree import Descriptor, WatchEvent

_FIRST_PAUSE, _LAST_PAUSE = 5.0, 600.0
_LOOK_SECONDS = 10.0
"""Interval of looks for a sync that succeeded, or another secret; this does not contact the mail server."""
_CONSENT_SECONDS = 10.0
"""Interval in which the account's consent is read from the ledger."""
_INBOX = "INBOX"
_ANSWERS_MISSED = 2

Notify = Callable[[str | WatchEvent], None]


class WatchedMailbox:
    """A mail account, watched from the first `check` until `close`. All times are of one monotonic clock."""

    def __init__(self, entry: SourceEntry, settings: ImapSettings, home: Home, notify: Notify) -> None:
        self.entry = entry
        self.debounce = Debounce(entry.quiet)
        self._connector = Imap(settings)
        self._home = home
        self._notify = notify
        self._listener: threading.Thread | None = None
        self._closed = threading.Event()
        self._state = WatchState(Watching.LIMITED, "connecting", "none needed; the schedule finds changes")

    def check(self, now: float, _descriptor: Callable[[], Descriptor]) -> None:
        """Start the listening thread unless it runs."""
        if self._listener is None or not self._listener.is_alive():
            self._closed.clear()
            self._listener = threading.Thread(target=self._listen, name=f"mail {self.entry.name}", daemon=True)
            self._listener.start()
            self.debounce.rescan(now)

    def complete(self) -> None:
        """Do nothing: the listening thread reconnects by itself."""

    def handle(self, now: float, event: str | WatchEvent) -> None:
        """Record new mail, or a lost connection."""
        if isinstance(event, WatchEvent):
            self.debounce.rescan(now)
        else:
            self.debounce.changed(now)

    def rebuild(self, now: float) -> None:
        """Reconnect. Changes in the meantime are unknown."""
        self._connector.interrupt()
        self.debounce.rescan(now)

    def close(self) -> None:
        """Stop listening."""
        self._closed.set()
        self._connector.interrupt()
        if self._listener is not None:
            self._listener.join(timeout=5)
            self._listener = None

    def state(self) -> WatchState:
        """Return how well the account is watched."""
        if self.debounce.unanswered >= _ANSWERS_MISSED:
            remedy = "check in the UI that its automation is enabled, and run `catchment check`"
            return WatchState(Watching.LIMITED, "no sync starts after a change", remedy)
        return self._state

    def _listen(self) -> None:
        """Listen until `close`. Retry after a growing pause; after a refused login, once it may succeed."""
        pause = _FIRST_PAUSE
        while not self._closed.is_set():
            lost = self._state.state is not Watching.WATCHING
            if not self._consented():
                remedy = f"catchment consent give {self.entry.name}"
                self._state = WatchState(Watching.LIMITED, "no consent given", remedy)
                self._closed.wait(_CONSENT_SECONDS)
                continue
            try:
                if server := running(self._home):
                    read_blocks_of(server)
                secret = self._connector.secret_digest()
                for news in self._connector.news():
                    if self._closed.is_set():
                        break
                    self._state = WatchState(Watching.WATCHING, folders=1)
                    pause = _FIRST_PAUSE
                    if news or lost:
                        # After a lost connection the missed mail is unknown.
                        self._notify(_INBOX if news else WatchEvent.LOST)
                        lost = False
            except LoginFailed as error:
                remedy = f"retried when the secret changes, or after a good sync: catchment sync {self.entry.name}"
                self._state = WatchState(Watching.LIMITED, f"{error}", remedy)
                self._rest(math.inf, secret)
            except CatchmentError as error:
                self._state = WatchState(Watching.LIMITED, f"{error}", "until then the schedule finds changes")
                self._rest(pause)
                pause = min(pause * 2, _LAST_PAUSE)
        self._connector.close()

    def _rest(self, seconds: float, secret: str = "") -> None:
        """Wait, at most until a sync has read the account, or its secret differs from a refused one."""
        failed, end = datetime.now(UTC), time.monotonic() + seconds
        while not self._closed.wait(min(_LOOK_SECONDS, end - time.monotonic())) and time.monotonic() < end:
            if self._was_read_since(failed) or (secret and self._differs_from(secret)):
                break

    def _differs_from(self, secret: str) -> bool:
        """Whether the login's secret differs from `secret`; False if it cannot be read."""
        with suppress(CatchmentError):
            return self._connector.secret_digest() != secret
        return False

    def _was_read_since(self, moment: datetime) -> bool:
        """Whether a sync that began later has read the account; False if the ledger cannot be read."""

        def began(ledger: Ledger) -> bool:
            last = ledger.syncs.last_good(ledger.sources.get(self.entry.name).id)
            return last is not None and last.began > moment

        return Ledger.ask(self._home, began, False)

    def _consented(self) -> bool:
        """Whether consent to read the account is given; False if the ledger cannot be read."""
        return Ledger.ask(self._home, lambda ledger: ledger.consents.agreed(self.entry.name), False)
