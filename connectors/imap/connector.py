"""The connector for a mail account over IMAP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from catchment.contracts import Known, Manifest
from catchment.errors import FetchFailed, SourceUnavailable
from catchment.model import Change, Item, RawContent
from catchment.pacing import HostLimits, Pace, RateProfile
from catchment.settings import Policy, RetryPolicy, SourceSettings
from connectors.imap.account_listing import Changes
from connectors.imap.connection import ImapSession
from connectors.imap.connection_pool import MOST, Pool
from connectors.imap.fetch import MessageReader
from connectors.imap.mail_folders import MailFolder, select_folders
from connectors.imap.names import parse_locator
from connectors.imap.settings import ImapSettings

_RENEWED_SECONDS = 600.0
"""Servers may close connections idle for 30 minutes (RFC 2177); home routers close them earlier."""


class Imap:
    """The connector for mail: every message of the selected folders, and every attached file."""

    kind: ClassVar[str] = "imap"
    manifest: ClassVar[Manifest] = Manifest(
        "Mail (IMAP)",
        "a mail account",
        "mail",
        "Mailbox: user name, an @, and the server, with its port if it is not 993",
        "me@imap.example.org",
        deep="Compare all messages and flags, not only new and changed ones.",
        is_watched=True,
        level="gold",
        exempt={"parsers": "a listing parses only IMAP responses, within limits of size; the engine parses messages"},
    )
    settings: ClassVar[type[SourceSettings]] = ImapSettings
    policy: ClassVar[Policy] = Policy(
        retry=RetryPolicy(attempts=5, initial=120, maximum=1_800),
        at_once=4,
    )
    fetch_in_parser: ClassVar[bool] = False

    def __init__(self, settings: ImapSettings) -> None:
        self._settings = settings
        limits = settings.policy(self.policy).limits
        self._max_bytes = limits.max_bytes
        self._watching: ImapSession | None = None
        self.pace = Pace()
        self._pool = Pool(settings, lambda: self.pace, limits.stall_seconds, self._max_bytes)
        self._reader = MessageReader(self._pool)

    def __reduce__(self) -> tuple[type[Imap], tuple[Any, ...]]:
        return Imap, (self._settings,)

    def limits(self) -> HostLimits:
        return HostLimits(self._settings.host, self._settings.user, RateProfile.MODERATE, at_once=MOST)

    def scopes(self) -> Mapping[str, str]:
        messages = "messages in the selected folders: senders, recipients, dates and text"
        attached = {"attachments": "files attached to these messages"} if self._settings.attachments else {}
        return {"messages": messages, **attached}

    def scope_of(self, locator: str) -> str:
        address = parse_locator(locator)
        return "attachments" if address is not None and address.part else "messages"

    def probe(self) -> str:
        """Connect and describe the account in one line: folders, messages, encryption, extensions."""
        try:
            return self._pool.request(self._describe)
        except FetchFailed as error:
            raise SourceUnavailable(f"folders cannot be listed: {error}") from error
        finally:
            self._pool.close()

    def changes(self, known: Known, *, deep: bool = False) -> Iterator[Change]:
        return self._listing(known, deep=deep).run()

    def changes_between(self, known: Known, since: datetime, until: datetime) -> Iterator[Change]:
        return self._listing(known).between(since, until)

    def expect(self, items: Sequence[Item]) -> None:
        self._reader.expect(items)

    def fetch(self, item: Item) -> RawContent:
        return self._reader.read(item)

    def news(self) -> Iterator[bool]:
        """Wait for changes in the inbox, or in the first selected folder if there is no inbox.

        Yields True when the server reports a change; False at the start and every ten minutes. Raises SourceUnavailable
        after `interrupt`.
        """
        session = self._watching = self._pool.connect()
        try:
            folders = self._selected(session, session.folders())
            folder = "INBOX" if "INBOX" in folders or not folders else folders[0]
            session.open(folder, session.status(folder).validity)
            yield False
            while True:
                yield session.wait(_RENEWED_SECONDS)
        finally:
            self._watching = None
            session.drop()

    def secret_digest(self) -> str:
        """Return a hash of the login's secret, to detect a changed one."""
        return self._pool.login.digest()

    def interrupt(self) -> None:
        """Stop `news`, from any thread."""
        if (watching := self._watching) is not None:
            watching.interrupt()

    def close(self) -> None:
        """Log out. The next request connects again."""
        self._pool.close()

    def _listing(self, known: Known, *, deep: bool = False) -> Changes:
        return Changes(self._settings, self._pool, known, self._max_bytes, deep=deep)

    def _selected(self, session: ImapSession, folders: list[MailFolder]) -> list[str]:
        return sorted(folder.name for folder in select_folders(self._settings, folders, by_label=session.has_labels))

    def _describe(self, session: ImapSession) -> str:
        folders = [folder for folder in session.folders() if folder.holds_messages]
        selected = self._selected(session, folders)
        shown = "INBOX" if "INBOX" in selected else selected[0] if selected else None
        counted = "" if shown is None else f", {session.status(shown).messages} messages in {shown}"
        extensions = [name for name in ("QRESYNC", "CONDSTORE", "IDLE") if name in session.capabilities]
        secured = {"tls": "TLS", "starttls": "STARTTLS", "none": "not encrypted"}[self._settings.security]
        details = ", ".join([secured, *extensions])
        return f"{self._settings.host}: {len(selected)} of {len(folders)} folders{counted}; {details}"
