"""One connection to an IMAP server, logged in, with the requests that a sync needs.

Only this module and `idle` use the private attributes of IMAPClient and imaplib.
"""

from __future__ import annotations

import imaplib
import re
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import date
from typing import Any

from imapclient import SocketTimeout
from imapclient.exceptions import LoginError

from catchment.errors import FetchFailed, ItemError, LoginFailed, SourceUnavailable, Vanished
from connectors.imap.auth import Login
from connectors.imap.bounds import LEAST_LITERAL, BoundedClient, LimitExceeded
from connectors.imap.errors import is_temporary, response_code, translate_errors
from connectors.imap.idle import wait
from connectors.imap.mail_folders import MailboxStatus, MailFolder
from connectors.imap.names import encode_folder
from connectors.imap.responses import (
    Message,
    parse_folders,
    parse_messages,
    parse_status,
    parse_statuses,
    parse_uidvalidity,
    parse_vanished,
)
from connectors.imap.settings import ImapSettings
from connectors.tls import tolerant

_CONNECT_SECONDS = 20.0
_WINDOW = 50_000
"""UIDs per search: the response is one line, and imaplib reads lines up to a million bytes."""
_FETCH_ITEMS = ("FLAGS", "INTERNALDATE", "RFC822.SIZE", "BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)]")
_GMAIL_FETCH_ITEMS = ("X-GM-MSGID", "X-GM-LABELS")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9.@+_-]+")


class ImapSession:
    """A connection.

    Every request raises SourceUnavailable if the connection is lost, RateLimited if the server throttles, and FetchFailed
    if the server refuses the request or sends a malformed response. After ResponseTooLarge, a FetchFailed, it cannot be
    used again.
    """

    def __init__(self, login: Login, seconds: float, max_bytes: int) -> None:
        """Connect, log in and enable extensions. Also raises LoginFailed.

        `seconds`: timeout of one response; `max_bytes`: size limit of a literal.
        """
        settings = login.settings
        self._host = settings.host
        self._open: str | None = None
        self._validity = 0
        self._client: Any = None
        with self._response():
            self._client = _connect(settings, SocketTimeout(min(_CONNECT_SECONDS, seconds), seconds))
        self._client._imap.most_literal = max(max_bytes, LEAST_LITERAL)
        try:
            with self._response():
                self._log_in(login)
                # After the login, because it may change the capabilities, and before the first SELECT (RFC 7162,
                # section 3.2.5).
                self.capabilities = frozenset(name.decode("ascii", "replace") for name in self._client.capabilities())
                self.can_vanish = self._enable("QRESYNC")
                self.has_modseq = self.can_vanish or self._enable("CONDSTORE")
                self.has_labels = "X-GM-EXT-1" in self.capabilities
        except BaseException:
            self.drop()
            raise

    def close(self) -> None:
        """Log out and disconnect."""
        # A failed logout does not matter.
        with suppress(imaplib.IMAP4.error, OSError, LimitExceeded):
            self._client.logout()
        self.drop()

    def drop(self) -> None:
        """Disconnect without logging out; may be called again."""
        with suppress(OSError):
            self._client.shutdown()

    def interrupt(self) -> None:
        """Disconnect while another thread waits for a response; its request raises SourceUnavailable."""
        with suppress(OSError):
            self._client.socket().shutdown(socket.SHUT_RDWR)

    # Folders

    def folders(self) -> list[MailFolder]:
        """Return every folder of the account, including folders without messages."""
        with self._response():
            return parse_folders(self._client.list_folders())

    def survey(self) -> dict[MailFolder, MailboxStatus | None]:
        """Return every folder, with its status if the server sends both together (RFC 5819)."""
        if "LIST-STATUS" in self.capabilities:
            # Fall back to separate STATUS commands.
            with suppress(FetchFailed):
                return self._folders_with_status()
        return dict.fromkeys(self.folders())

    def status(self, folder: str) -> MailboxStatus:
        """Return the status of a folder without opening it."""
        self._unselect()
        with self._response(folder):
            return parse_status(self._client.folder_status(encode_folder(folder), self._status_items))

    def statuses(self, folders: Sequence[str]) -> dict[str, MailboxStatus | ItemError]:
        """Return the status or error of several folders, using pipelined commands.

        Some folders may be missing in the result.
        """
        self._unselect()
        connection = self._client._imap
        connection.untagged_responses.pop("STATUS", None)
        items = f"({' '.join(self._status_items)})"
        statuses: dict[str, MailboxStatus | ItemError] = {}
        with self._response():
            names = [self._client._normalise_folder(encode_folder(folder)) for folder in folders]
            tags = [connection._command("STATUS", name, items) for name in names]
        for folder, tag in zip(folders, tags, strict=True):
            try:
                with self._response(folder):
                    _checked(connection._command_complete("STATUS", tag))
            except ItemError as error:
                statuses[folder] = error
        with self._response():
            return parse_statuses(connection.untagged_responses.pop("STATUS", [])) | statuses

    def open(self, folder: str, validity: int) -> None:
        """Open a folder read-only, unless it is open. Raises Vanished if its messages were renumbered."""
        if self._open != folder:
            self._open = None
            with self._response(folder):
                self._validity = parse_uidvalidity(self._client.select_folder(encode_folder(folder), readonly=True))
            self._open = folder
        if self._validity != validity:
            raise Vanished("folder renumbered by the server; the next sync finds the message again")

    def refresh(self) -> None:
        """Make the next `open` reopen the folder, to see its current state."""
        self._open = None

    # Messages of the open folder

    def uids(self, first: int, last: int, since: str = "", before: str = "") -> Iterator[int]:
        """Yield the UIDs in this range, ascending; only those that arrived on the days from `since` to before `before`.

        The days are ISO dates, and begin at a midnight of the server's choice.
        """
        days = [
            part
            for key, day in (("SINCE", since), ("BEFORE", before))
            if day
            for part in (key, date.fromisoformat(day))
        ]
        for start in range(first, last + 1, _WINDOW):
            with self._response():
                yield from sorted(self._client.search(["UID", f"{start}:{min(start + _WINDOW - 1, last)}", *days]))

    def changed(self, last: int, modseq: int) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the UIDs up to `last` whose flags changed since `modseq`, and the ranges of UIDs deleted since."""
        vanished = " VANISHED" if self.can_vanish else ""
        connection = self._client._imap
        connection.untagged_responses.pop("VANISHED", None)
        with self._response():
            response = _checked(connection.uid("FETCH", f"1:{last}", "(UID)", f"(CHANGEDSINCE {modseq}{vanished})"))
            lines = [line for line in response if isinstance(line, bytes)]
            uids = sorted(int(statuses[1]) for line in lines if (statuses := re.search(rb"\bUID (\d+)", line)))
            return uids, parse_vanished(connection.untagged_responses.pop("VANISHED", []))

    def messages(self, uids: Sequence[int], *, structure: bool) -> list[Message]:
        """List these messages; deleted ones are omitted."""
        items = [
            *_FETCH_ITEMS,
            *(["BODYSTRUCTURE"] if structure else []),
            *(_GMAIL_FETCH_ITEMS if self.has_labels else []),
        ]
        with self._response():
            answers = self._client.fetch(uids, items)
            return parse_messages(answers, uids)

    def bodies(self, uids: Sequence[int]) -> dict[int, bytes]:
        """Return the raw messages by UID; deleted ones are omitted."""
        with self._response():
            answers = self._client.fetch(uids, ["BODY.PEEK[]"])
            return {
                uid: response[b"BODY[]"]
                for uid, response in answers.items()
                if isinstance(response.get(b"BODY[]"), bytes)
            }

    def part(self, uid: int, number: str) -> tuple[bytes, bytes] | None:
        """Return the header of a message, and one part of it with its MIME header; None if the message was deleted."""
        header, body = f"BODY[{number}.MIME]".encode(), f"BODY[{number}]".encode()
        items = [f"BODY.PEEK[{number}.MIME]", f"BODY.PEEK[{number}]", "BODY.PEEK[HEADER]"]
        with self._response():
            response = self._client.fetch([uid], items).get(uid)
            if response is None or not isinstance(response.get(body), bytes):
                return None
            # A single-part message has no separate MIME header.
            of_message = response.get(b"BODY[HEADER]") or b""
            mime_header = response.get(header) or (of_message if number == "1" else b"")
            return of_message, mime_header.rstrip(b"\r\n") + b"\r\n\r\n" + response[body]

    def wait(self, seconds: float) -> bool:
        """Wait for a change in the open folder, at most `seconds`; return whether there was one."""
        with self._response():
            return wait(self._client._imap, seconds, can_idle="IDLE" in self.capabilities)

    # Internals

    def _log_in(self, login: Login) -> None:
        settings = login.settings
        user, secret = settings.user, login.secret()
        try:
            if settings.uses_tokens:
                self._client.oauth2_login(user, secret)
            elif _PLAIN_NAME.fullmatch(user) and secret.isascii() and not self._client.has_capability("LOGINDISABLED"):
                self._client.login(user, secret)
            else:
                # LOGIN is limited to ASCII, and IMAPClient sends the user name unquoted.
                self._client.plain_login(user, secret)
        except LoginError as error:
            if is_temporary(error):
                raise error.__context__ or error from None
            code = response_code(error)
            password = "check user and password (some providers require an app password)"
            remedy = "renew the token" if settings.uses_tokens else password
            raise LoginFailed(f"{self._host}: login refused{f' ({code})' if code else ''}; {remedy}") from None

    def _enable(self, extension: str) -> bool:
        if extension not in self.capabilities or "ENABLE" not in self.capabilities:
            return False
        return extension.encode() in self._client.enable(extension)

    @property
    def _status_items(self) -> list[str]:
        return ["MESSAGES", "UIDNEXT", "UIDVALIDITY", "HIGHESTMODSEQ" if self.has_modseq else "UNSEEN"]

    def _folders_with_status(self) -> dict[MailFolder, MailboxStatus | None]:
        self._unselect()
        connection = self._client._imap
        connection.untagged_responses.pop("STATUS", None)
        uses = "SPECIAL-USE " if "SPECIAL-USE" in self.capabilities else ""
        options = f"RETURN ({uses}STATUS ({' '.join(self._status_items)}))"
        with self._response():
            _checked(connection._simple_command("LIST", '""', '"*"', options))
            listed = self._client._proc_folder_list(connection.untagged_responses.pop("LIST", []))
            statuses = parse_statuses(connection.untagged_responses.pop("STATUS", []))
            return {folder: statuses.get(folder.name) for folder in parse_folders(listed)}

    def _unselect(self) -> None:
        """Close the open folder: STATUS may be outdated for an open folder (RFC 3501, section 6.3.10)."""
        if self._open is None:
            return
        with self._response():
            if "UNSELECT" in self.capabilities:
                self._client.unselect_folder()
            else:
                # CLOSE expunges no messages in a folder opened read-only.
                self._client.close_folder()
        self._open = None

    def _response(self, folder: str | None = None) -> AbstractContextManager[None]:
        if self._client is not None:
            self._client._imap.begin_response()
        return translate_errors(self._host, folder)


def _connect(settings: ImapSettings, timeout: SocketTimeout) -> Any:
    # Loads all system certificates, which takes 30 ms.
    context = None if settings.security == "none" else tolerant(ssl.create_default_context(cafile=settings.ca_file))
    tls = settings.security == "tls"
    port = settings.server_port
    client = BoundedClient(settings.host, port, ssl=tls, ssl_context=context if tls else None, timeout=timeout)
    # imaplib would otherwise log every byte received.
    client._imap.debug = 0
    client.folder_encode = False
    client.normalise_times = False
    if settings.security == "starttls":
        if not client.has_capability("STARTTLS"):
            client.shutdown()
            raise SourceUnavailable(
                f"{settings.host}: STARTTLS not available on this port; set security to tls, or use another port"
            )
        client.starttls(context)
    return client


def _checked(response: tuple[str, list[Any]]) -> list[Any]:
    """Return the data of a response. Raises imaplib's error unless its status is OK."""
    status, data = response
    if status != "OK":
        raise imaplib.IMAP4.error(f"{data}")
    return data
