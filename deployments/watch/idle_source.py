"""One watched account of mail: a connection that waits for news of the inbox (IDLE), and how well that works.

What it tells is a hint, as with folders: the sync finds what happened, in every folder.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing, suppress

from catchment.errors import CatchmentError, LoginFailed
from catchment.ledger import Ledger
from catchment.runtime.home import Home
from connectors.imap import Imap
from connectors.imap.settings import ImapSettings
from deployments.server.blocks import read_blocks_of
from deployments.server.running import running
from deployments.sources.sources_file import SourceEntry
from deployments.watch.debounce import Debounce
from deployments.watch.status import Watching, WatchState
from deployments.watch.tree import Descriptor, Sign

_FIRST_PAUSE, _LAST_PAUSE = 5.0, 600.0
_LOOK_SECONDS = 30.0
"""How often it is looked whether a secret that was refused is another one; the server is not asked for that."""
_CONSENT_SECONDS = 10.0
"""How often it is asked whether the account may be read."""
_INBOX = "INBOX"
_ANSWERS_MISSED = 2

Tell = Callable[[str | Sign], None]


class WatchedMailbox:
    """An account from the moment that it is to be watched until `close`. All times are of one monotonic clock."""

    def __init__(self, entry: SourceEntry, settings: ImapSettings, home: Home, tell: Tell) -> None:
        self.entry = entry
        self.debounce = Debounce(entry.quiet)
        self._connector = Imap(settings)
        self._home = home
        self._tell = tell
        self._listener: threading.Thread | None = None
        self._over = threading.Event()
        self._consent_asked = 0.0
        self._state = WatchState(Watching.LIMITED, "connecting", "none needed; the schedule finds changes")

    def check(self, now: float, _descriptor: Callable[[], Descriptor]) -> None:
        """Begin to listen, if nobody does. May be called at any time."""
        if self._listener is None or not self._listener.is_alive():
            self._over.clear()
            self._listener = threading.Thread(target=self._listen, name=f"mail {self.entry.name}", daemon=True)
            self._listener.start()
            self.debounce.rescan(now)
        elif now >= self._consent_asked + _CONSENT_SECONDS:
            self._consent_asked = now
            if self._state.state is Watching.WATCHING and not self._consented():
                self._connector.interrupt()

    def complete(self) -> None:
        """Nothing: a connection that was lost is made again by itself."""

    def heard(self, now: float, sign: str | Sign) -> None:
        """Take what the listener told."""
        if isinstance(sign, Sign):
            self.debounce.rescan(now)
        else:
            self.debounce.changed(now)

    def rebuild(self, now: float) -> None:
        """Begin again: what happened meanwhile is not known."""
        self._connector.interrupt()
        self.debounce.rescan(now)

    def close(self) -> None:
        """Listen no more."""
        self._over.set()
        self._connector.interrupt()
        if self._listener is not None:
            self._listener.join(timeout=5)
            self._listener = None

    def state(self) -> WatchState:
        """How well the account is watched."""
        if self.debounce.unanswered >= _ANSWERS_MISSED:
            remedy = "see in the UI whether its automation is switched on, and `catchment doctor`"
            return WatchState(Watching.LIMITED, "no sync begins after a change", remedy)
        return self._state

    def _listen(self) -> None:
        """Wait for news, over and over; after trouble with a pause that grows, after a refused login for another secret."""
        pause = _FIRST_PAUSE
        while not self._over.is_set():
            lost = self._state.state is not Watching.WATCHING
            if not self._consented():
                remedy = f"catchment consent give {self.entry.name}"
                self._state = WatchState(Watching.LIMITED, "no consent given", remedy)
                self._over.wait(_CONSENT_SECONDS)
                continue
            try:
                if server := running(self._home):
                    read_blocks_of(server)
                secret = self._connector.fingerprint_of_secret()
                for news in self._connector.news():
                    if self._over.is_set():
                        break
                    self._state = WatchState(Watching.WATCHING, folders=1)
                    pause = _FIRST_PAUSE
                    if news or lost:
                        # Nobody knows what happened while nobody listened.
                        self._tell(_INBOX if news else Sign.LOST)
                        lost = False
            except LoginFailed as error:
                remedy = "retried when the secret changes, or after `catchment down && catchment up --detach`"
                self._state = WatchState(Watching.LIMITED, f"{error}", remedy)
                while not self._over.wait(_LOOK_SECONDS) and not self._is_another(secret):
                    pass
            except CatchmentError as error:
                self._state = WatchState(Watching.LIMITED, f"{error}", "until then the schedule finds changes")
                self._over.wait(pause)
                pause = min(pause * 2, _LAST_PAUSE)
        self._connector.close()

    def _is_another(self, secret: str) -> bool:
        """Whether the secret of the login is another one than this; not, while nobody can tell."""
        with suppress(CatchmentError):
            return self._connector.fingerprint_of_secret() != secret
        return False

    def _consented(self) -> bool:
        """Whether a person agrees to have the account read now; not, where the ledger cannot tell."""
        with suppress(CatchmentError), closing(Ledger.inspect(self._home.database_url)) as ledger:
            return ledger.consents.agreed(self.entry.name)
        return False
