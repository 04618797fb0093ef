"""One connection to a server of mail, logged in: the few questions that are asked of it.

The library's own attributes are touched here and in `waiting`, and nowhere else.
"""

from __future__ import annotations

import imaplib
import re
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from imapclient import SocketTimeout
from imapclient.exceptions import LoginError

from catchment.errors import FetchFailed, ItemError, LoginFailed, SourceUnavailable, Vanished
from connectors.imap.auth import Login
from connectors.imap.bounds import LEAST_LITERAL, BoundedClient, TooMuch
from connectors.imap.errors import code_of, is_for_now, told
from connectors.imap.folders import MailboxStatus, MailFolder
from connectors.imap.idle import wait
from connectors.imap.names import folder_bytes
from connectors.imap.responses import Message, folders_in, messages_in, ranges_in, status_of, statuses_in, validity_of
from connectors.imap.settings import ImapSettings

_CONNECT_SECONDS = 20.0
_WINDOW = 50_000
"""UIDs that one search asks for: its answer is one line, and the library reads lines of up to a million bytes."""
_ASKED = ("FLAGS", "INTERNALDATE", "RFC822.SIZE", "BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)]")
_ASKED_OF_GMAIL = ("X-GM-MSGID", "X-GM-LABELS")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9.@+_-]+")


class ImapSession:
    """A connection. Every question raises SourceUnavailable when it is lost, RateLimited when the server says so, and
    FetchFailed when the server declines this one thing or answers what nobody can read. After AnswerTooLarge, a FetchFailed,
    the connection is unusable."""

    def __init__(self, login: Login, seconds: float, max_bytes: int) -> None:
        """Connect, log in and agree on extensions. Raises LoginFailed besides.

        `seconds`: how long an answer may take; `max_bytes`: how large one literal in it may be, but for short ones.
        """
        settings = login.settings
        self._host = settings.host
        self._open: str | None = None
        self._validity = 0
        self._client: Any = None
        with self._told():
            self._client = _connect(settings, SocketTimeout(min(_CONNECT_SECONDS, seconds), seconds))
        self._client._imap.most_literal = max(max_bytes, LEAST_LITERAL)
        try:
            with self._told():
                self._log_in(login)
                # Not before the login: a server may offer others then. Not after the first SELECT (RFC 7162, 3.2.5).
                self.capabilities = frozenset(name.decode("ascii", "replace") for name in self._client.capabilities())
                self.can_vanish = self._enable("QRESYNC")
                self.has_modseq = self.can_vanish or self._enable("CONDSTORE")
                self.has_labels = "X-GM-EXT-1" in self.capabilities
        except BaseException:
            self.drop()
            raise

    def close(self) -> None:
        """Say goodbye."""
        # Who leaves does not mind whether that is heard.
        with suppress(imaplib.IMAP4.error, OSError, TooMuch):
            self._client.logout()
        self.drop()

    def drop(self) -> None:
        """Hang up without a word; may be called again."""
        with suppress(OSError):
            self._client.shutdown()

    def interrupt(self) -> None:
        """Have whichever thread waits for an answer stop that: the connection is lost then."""
        with suppress(OSError):
            self._client.socket().shutdown(socket.SHUT_RDWR)

    # What there is

    def folders(self) -> list[MailFolder]:
        """Every folder of the account, those that hold no messages too."""
        with self._told():
            return folders_in(self._client.list_folders())

    def survey(self) -> dict[MailFolder, MailboxStatus | None]:
        """Every folder, and how it stands where the server tells that along with its name (RFC 5819)."""
        if "LIST-STATUS" in self.capabilities:
            # A server that stumbles over the one question is asked the many.
            with suppress(FetchFailed):
                return self._folders_with_status()
        return dict.fromkeys(self.folders())

    def status(self, folder: str) -> MailboxStatus:
        """How a folder stands, without opening it."""
        self._leave()
        with self._told(folder):
            return status_of(self._client.folder_status(folder_bytes(folder), self._status_items))

    def statuses(self, folders: Sequence[str]) -> dict[str, MailboxStatus | ItemError]:
        """How folders stand, all asked for before the first answer is read; of some perhaps nothing."""
        self._leave()
        connection = self._client._imap
        connection.untagged_responses.pop("STATUS", None)
        items = f"({' '.join(self._status_items)})"
        found: dict[str, MailboxStatus | ItemError] = {}
        with self._told():
            names = [self._client._normalise_folder(folder_bytes(folder)) for folder in folders]
            tags = [connection._command("STATUS", name, items) for name in names]
        for folder, tag in zip(folders, tags, strict=True):
            try:
                with self._told(folder):
                    _agreed(connection._command_complete("STATUS", tag))
            except ItemError as error:
                found[folder] = error
        with self._told():
            return statuses_in(connection.untagged_responses.pop("STATUS", [])) | found

    def open(self, folder: str, validity: int) -> None:
        """Open a folder for reading only, unless it is open. Raises Vanished when its messages are numbered anew."""
        if self._open != folder:
            self._open = None
            with self._told(folder):
                self._validity = validity_of(self._client.select_folder(folder_bytes(folder), readonly=True))
            self._open = folder
        if self._validity != validity:
            raise Vanished("its folder was numbered anew by the server; the next sync finds it again")

    def refresh(self) -> None:
        """Have what is open be opened again: it is to be seen as it is now."""
        self._open = None

    # What is in the folder that is open

    def uids(self, first: int, last: int) -> Iterator[int]:
        """The UIDs that there are between these two, rising."""
        for start in range(first, last + 1, _WINDOW):
            with self._told():
                yield from sorted(self._client.search(["UID", f"{start}:{min(start + _WINDOW - 1, last)}"]))

    def changed(self, last: int, modseq: int) -> tuple[list[int], list[tuple[int, int]]]:
        """The UIDs up to the last one whose flags changed since, and ranges of those that vanished since."""
        vanished = " VANISHED" if self.can_vanish else ""
        connection = self._client._imap
        connection.untagged_responses.pop("VANISHED", None)
        with self._told():
            said = _agreed(connection.uid("FETCH", f"1:{last}", "(UID)", f"(CHANGEDSINCE {modseq}{vanished})"))
            lines = [line for line in said if isinstance(line, bytes)]
            uids = sorted(int(found[1]) for line in lines if (found := re.search(rb"\bUID (\d+)", line)))
            return uids, ranges_in(connection.untagged_responses.pop("VANISHED", []))

    def messages(self, uids: Sequence[int], *, structure: bool) -> list[Message]:
        """What there is to tell of these messages; of those that are gone, nothing."""
        asked = [*_ASKED, *(["BODYSTRUCTURE"] if structure else []), *(_ASKED_OF_GMAIL if self.has_labels else [])]
        with self._told():
            answers = self._client.fetch(uids, asked)
            return messages_in(answers, uids)

    def bodies(self, uids: Sequence[int]) -> dict[int, bytes]:
        """The messages as they came, by UID; those that are gone are missing."""
        with self._told():
            answers = self._client.fetch(uids, ["BODY.PEEK[]"])
            return {uid: said[b"BODY[]"] for uid, said in answers.items() if isinstance(said.get(b"BODY[]"), bytes)}

    def part(self, uid: int, number: str) -> bytes | None:
        """One part of a message, with its MIME header before it; None when the message is gone."""
        header, body = f"BODY[{number}.MIME]".encode(), f"BODY[{number}]".encode()
        asked = [f"BODY.PEEK[{number}.MIME]", f"BODY.PEEK[{number}]", "BODY.PEEK[HEADER]"]
        with self._told():
            said = self._client.fetch([uid], asked).get(uid)
            if said is None or not isinstance(said.get(body), bytes):
                return None
            # The only part of a message has no MIME header of its own.
            above = said.get(header) or (said.get(b"BODY[HEADER]") if number == "1" else b"") or b""
            return bytes(above.rstrip(b"\r\n") + b"\r\n\r\n" + said[body])

    def wait(self, seconds: float) -> bool:
        """Wait until the server tells of a change in the folder that is open, or so many seconds at most; whether it told."""
        with self._told():
            return wait(self._client._imap, seconds, can_idle="IDLE" in self.capabilities)

    # Parts

    def _log_in(self, login: Login) -> None:
        settings = login.settings
        user, secret = settings.user, login.secret()
        try:
            if settings.uses_tokens:
                self._client.oauth2_login(user, secret)
            elif _PLAIN_NAME.fullmatch(user) and secret.isascii() and not self._client.has_capability("LOGINDISABLED"):
                self._client.login(user, secret)
            else:
                # LOGIN takes ASCII only, and the library sends the user without quotes.
                self._client.plain_login(user, secret)
        except LoginError as error:
            if is_for_now(error):
                raise error.__context__ or error from None
            code = code_of(error)
            remedy = "renew the token" if settings.uses_tokens else "check user and password; many need an app password"
            raise LoginFailed(f"{self._host} refused the login{f' ({code})' if code else ''}; {remedy}") from None

    def _enable(self, extension: str) -> bool:
        if extension not in self.capabilities or "ENABLE" not in self.capabilities:
            return False
        return extension.encode() in self._client.enable(extension)

    @property
    def _status_items(self) -> list[str]:
        return ["MESSAGES", "UIDNEXT", "UIDVALIDITY", "HIGHESTMODSEQ" if self.has_modseq else "UNSEEN"]

    def _folders_with_status(self) -> dict[MailFolder, MailboxStatus | None]:
        self._leave()
        connection = self._client._imap
        connection.untagged_responses.pop("STATUS", None)
        uses = "SPECIAL-USE " if "SPECIAL-USE" in self.capabilities else ""
        wanted = f"RETURN ({uses}STATUS ({' '.join(self._status_items)}))"
        with self._told():
            _agreed(connection._simple_command("LIST", '""', '"*"', wanted))
            listed = self._client._proc_folder_list(connection.untagged_responses.pop("LIST", []))
            statuses = statuses_in(connection.untagged_responses.pop("STATUS", []))
            return {folder: statuses.get(folder.name) for folder in folders_in(listed)}

    def _leave(self) -> None:
        """Close what is open: what is told of an opened folder may be old (RFC 3501, 6.3.10)."""
        if self._open is None:
            return
        with self._told():
            if "UNSELECT" in self.capabilities:
                self._client.unselect_folder()
            else:
                # Nothing is expunged: it was opened for reading only.
                self._client.close_folder()
        self._open = None

    def _told(self, folder: str | None = None) -> AbstractContextManager[None]:
        if self._client is not None:
            self._client._imap.begin_answer()
        return told(self._host, folder)


def _connect(settings: ImapSettings, timeout: SocketTimeout) -> Any:
    context = None if settings.security == "none" else _trusting(settings.ca_file)
    tls = settings.security == "tls"
    port = settings.server_port
    client = BoundedClient(settings.host, port, ssl=tls, ssl_context=context if tls else None, timeout=timeout)
    # It would write every byte that comes into a log that nobody keeps.
    client._imap.debug = 0
    client.folder_encode = False
    client.normalise_times = False
    if settings.security == "starttls":
        if not client.has_capability("STARTTLS"):
            client.shutdown()
            raise SourceUnavailable(
                f"{settings.host} does not offer STARTTLS on this port; use security tls, or another port"
            )
        client.starttls(context)
    return client


def _trusting(ca_file: Path | None) -> ssl.SSLContext:
    # It reads all authorities of the system, 30 ms.
    context = ssl.create_default_context(cafile=ca_file)
    if ca_file:
        # Since Python 3.13 an authority has to be made by the letter of RFC 5280, and hardly one that is made at home is.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _agreed(said: tuple[str, list[Any]]) -> list[Any]:
    """What a server answered, unless it declined."""
    ending, data = said
    if ending != "OK":
        raise imaplib.IMAP4.error(f"{data}")
    return data
