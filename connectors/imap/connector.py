"""The connector for an account of mail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from catchment.contracts import Known
from catchment.errors import FetchFailed, SourceUnavailable
from catchment.model import Change, Item, RawContent
from catchment.pacing import HostLimits, Pace, RateProfile
from catchment.settings import Policy, Resources, RetryPolicy, SourceSettings
from connectors.imap.changes import Changes
from connectors.imap.fetch import MessageReader
from connectors.imap.folders import MailFolder, chosen
from connectors.imap.names import place
from connectors.imap.pool import MOST, Pool
from connectors.imap.session import ImapSession
from connectors.imap.settings import ImapSettings

_MEGABYTE = 1_000_000
_RENEWED_SECONDS = 600.0
"""Servers may hang up on who has been idle for half an hour (RFC 2177), and home routers do after less."""

T = TypeVar("T")


class Imap:
    """The connector for mail by IMAP: every message of the wanted folders, and every file in one."""

    kind: ClassVar[str] = "imap"
    settings: ClassVar[type[SourceSettings]] = ImapSettings
    policy: ClassVar[Policy] = Policy(
        retry=RetryPolicy(attempts=5, initial=120, maximum=1_800),
        resources=Resources(cores=0.5, memory_mb=512, at_once=4),
    )
    fetch_in_parser: ClassVar[bool] = False

    def __init__(self, settings: ImapSettings) -> None:
        self._settings = settings
        limits = settings.policy(self.policy).limits
        self._max_bytes = int(limits.max_mb * _MEGABYTE)
        self._listening: ImapSession | None = None
        self._pool = Pool(settings, limits.stall_seconds, self._max_bytes)
        self.pace = Pace()
        self._reader = MessageReader(self._ask)

    def __reduce__(self) -> tuple[type[Imap], tuple[Any, ...]]:
        return Imap, (self._settings,)

    def limits(self) -> HostLimits:
        """As `Paced.limits`."""
        return HostLimits(self._settings.host, self._settings.user, RateProfile.MODERATE, at_once=MOST)

    def scopes(self) -> Mapping[str, str]:
        """As `Guarded.scopes`."""
        messages = "the messages in the folders that you chose: who wrote to whom, when, and what"
        attached = {"attachments": "the files that are attached to them"} if self._settings.attachments else {}
        return {"messages": messages, **attached}

    def scope_of(self, locator: str) -> str:
        """As `Guarded.scope_of`."""
        named = place(locator)
        return "attachments" if named is not None and named.part else "messages"

    def probe(self) -> str:
        """As `Connector.probe`."""
        try:
            return self._ask(self._look)
        except FetchFailed as error:
            raise SourceUnavailable(f"the folders cannot be listed: {error}") from error
        finally:
            self._pool.close()

    def changes(self, known: Known, *, deep: bool = False) -> Iterator[Change]:
        """As `Connector.changes`."""
        return Changes(self._settings, self._ask, known, self._max_bytes, self._pool.login, deep=deep).tell()

    def expect(self, items: Sequence[Item]) -> None:
        """As `ReadsAhead.expect`."""
        self._reader.expect(items)

    def fetch(self, item: Item) -> RawContent:
        """As `Connector.fetch`."""
        return self._reader.read(item)

    def news(self) -> Iterator[bool]:
        """Whether something happened in the inbox, or in the first folder that is wanted: True at once when the server tells,
        False in the beginning and every ten minutes. Ends with SourceUnavailable after `interrupt`."""
        session = self._listening = self._pool.connect()
        try:
            folders = self._chosen(session, session.folders())
            folder = "INBOX" if "INBOX" in folders or not folders else folders[0]
            session.open(folder, session.status(folder).validity)
            yield False
            while True:
                yield session.wait(_RENEWED_SECONDS)
        finally:
            self._listening = None
            session.drop()

    def fingerprint_of_secret(self) -> str:
        """What tells whether the secret of the login is another one than before."""
        return self._pool.login.fingerprint()

    def interrupt(self) -> None:
        """End `news` in whichever thread goes through it."""
        if (listening := self._listening) is not None:
            listening.interrupt()

    def close(self) -> None:
        """Log out; whatever is asked next connects again."""
        self._pool.close()

    def _ask(self, question: Callable[[ImapSession], T], *, cost: int = 1) -> T:
        return self._pool.ask(self.pace, question, cost)

    def _chosen(self, session: ImapSession, folders: list[MailFolder]) -> list[str]:
        return sorted(folder.name for folder in chosen(self._settings, folders, by_label=session.has_labels))

    def _look(self, session: ImapSession) -> str:
        folders = [folder for folder in session.folders() if folder.holds_messages]
        mine = self._chosen(session, folders)
        shown = "INBOX" if "INBOX" in mine else mine[0] if mine else None
        counted = "" if shown is None else f", {session.status(shown).messages} messages in {shown}"
        extensions = [name for name in ("QRESYNC", "CONDSTORE", "IDLE") if name in session.capabilities]
        secured = {"tls": "TLS", "starttls": "STARTTLS", "none": "not encrypted"}[self._settings.security]
        told = ", ".join([secured, *extensions])
        return f"{self._settings.host}: {len(mine)} of {len(folders)} folders{counted}; {told}"
