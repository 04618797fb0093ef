"""One connection to a server of mail, logged in: the few questions that are asked of it, and what its answers mean.

The library's own attributes are touched here and nowhere else.
"""

from __future__ import annotations

import imaplib
import re
import select
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

from imapclient import IMAPClient, SocketTimeout
from imapclient.exceptions import LoginError

from catchment.errors import LoginFailed, Vanished
from connectors.imap import login
from connectors.imap.folders import Folder, Status
from connectors.imap.names import folder_bytes, folder_text
from connectors.imap.refusals import code_of, is_for_now, told
from connectors.imap.settings import ImapSettings

_CONNECT_SECONDS = 20.0
_POLL_SECONDS = 60.0
"""How often a server is asked that cannot tell by itself."""
_WINDOW = 50_000
"""UIDs that one search asks for: its answer is one line, and the library reads lines of up to a million bytes."""
_HEADER = b"BODY[HEADER.FIELDS (MESSAGE-ID)]"
_ASKED = ("FLAGS", "INTERNALDATE", "RFC822.SIZE", "BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)]")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9.@+_-]+")
_MESSAGE_ID = re.compile(rb"message-id:\s*(\S.*)", re.IGNORECASE | re.DOTALL)
_EARLY_NEWS = frozenset({"EXISTS", "EXPUNGE", "VANISHED", "FETCH"})
_NEWS = frozenset({b"EXISTS", b"EXPUNGE", b"VANISHED", b"FETCH"})


class Message(NamedTuple):
    """What a listing tells of a message. `structure` is its BODYSTRUCTURE, None where that was not asked for."""

    uid: int
    size: int
    received: datetime | None
    message_id: str
    flags: tuple[str, ...]
    structure: Any = None


class Session:
    """A connection. Every question raises SourceUnavailable when it is lost, RateLimited when the server says so, and
    FetchFailed when the server declines this one thing or answers what nobody can read."""

    def __init__(self, settings: ImapSettings, seconds: float) -> None:
        """Connect, log in and agree on extensions. `seconds`: how long an answer may take. Raises LoginFailed besides."""
        self._host = settings.host
        self._open: str | None = None
        self._status: Status | None = None
        with self._told():
            self._client = _connect(settings, SocketTimeout(min(_CONNECT_SECONDS, seconds), seconds))
        try:
            with self._told():
                self._log_in(settings)
                # Not before the login: a server may offer others then. Not after the first SELECT (RFC 7162, 3.2.5).
                self.capabilities = frozenset(name.decode("ascii", "replace") for name in self._client.capabilities())
                self.can_vanish = self._enable("QRESYNC")
                self.has_modseq = self.can_vanish or self._enable("CONDSTORE")
        except BaseException:
            self.drop()
            raise

    def close(self) -> None:
        """Say goodbye."""
        # Who leaves does not mind whether that is heard.
        with suppress(imaplib.IMAP4.error, OSError):
            self._client.logout()

    def drop(self) -> None:
        """Hang up without a word."""
        with suppress(OSError):
            self._client.shutdown()

    def interrupt(self) -> None:
        """Have whichever thread waits for an answer stop that: the connection is lost then."""
        with suppress(OSError):
            self._client.socket().shutdown(socket.SHUT_RDWR)

    # What there is

    def folders(self) -> list[Folder]:
        """Every folder of the account, those that hold no messages too."""
        with self._told():
            return [
                Folder(folder_text(str(name).encode("latin-1") if isinstance(name, str) else name), _flags(flags))
                for flags, _, name in self._client.list_folders()
            ]

    def status(self, folder: str) -> Status:
        """How a folder stands, without opening it."""
        if self._open is not None:
            # What is told of an opened folder may be old (RFC 3501, 6.3.10).
            self._leave()
        modseq = ["HIGHESTMODSEQ"] if self.has_modseq else ["UNSEEN"]
        with self._told(folder):
            said = self._client.folder_status(folder_bytes(folder), ["MESSAGES", "UIDNEXT", "UIDVALIDITY", *modseq])
            return _status(said)

    def open(self, folder: str, validity: int) -> None:
        """Open a folder for reading only, unless it is open. Raises Vanished when its messages are numbered anew."""
        if self._open != folder or self._status is None:
            self._open = self._status = None
            with self._told(folder):
                self._status = _status(self._client.select_folder(folder_bytes(folder), readonly=True))
            self._open = folder
        if self._status.validity != validity:
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
            ending, said = connection.uid("FETCH", f"1:{last}", "(UID)", f"(CHANGEDSINCE {modseq}{vanished})")
            if ending != "OK":
                raise imaplib.IMAP4.error(f"{said}")
            lines = [line for line in said if isinstance(line, bytes)]
            uids = sorted(int(found[1]) for line in lines if (found := re.search(rb"\bUID (\d+)", line)))
            gone = connection.untagged_responses.pop("VANISHED", [])
            return uids, [pair for line in gone for pair in _ranges(line.rpartition(b" ")[2])]

    def messages(self, uids: Sequence[int], *, structure: bool) -> list[Message]:
        """What there is to tell of these messages; of those that are gone, nothing."""
        asked = [*_ASKED, "BODYSTRUCTURE"] if structure else _ASKED
        with self._told():
            answers = self._client.fetch(uids, asked)
            return [_message(uid, answers[uid]) for uid in uids if _is_whole(answers.get(uid))]

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
        """Wait until the server tells of a change in the folder that is open, or so many seconds; whether it told."""
        with self._told():
            if "IDLE" not in self.capabilities:
                select.select([self._client.socket()], [], [], min(seconds, _POLL_SECONDS))
                return any(map(_is_news, self._client.noop()[1]))
            early = self._client._imap.untagged_responses
            early.clear()
            self._client.idle()
            # What came before the server began to idle is kept by the library, and told by no check.
            if early.keys() & _EARLY_NEWS:
                self._client.idle_done()
                return True
            told = self._client.idle_check(timeout=seconds)
            _, more = self._client.idle_done()
            return any(map(_is_news, [*told, *more]))

    # Parts

    def _log_in(self, settings: ImapSettings) -> None:
        user, secret = settings.user, login.secret(settings)
        try:
            if settings.uses_tokens:
                self._client.oauth2_login(user, secret)
            elif _PLAIN_NAME.fullmatch(user) and secret.isascii():
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

    def _leave(self) -> None:
        with self._told():
            if "UNSELECT" in self.capabilities:
                self._client.unselect_folder()
            else:
                # Nothing is expunged: it was opened for reading only.
                self._client.close_folder()
        self._open = None

    def _told(self, folder: str | None = None) -> AbstractContextManager[None]:
        return told(self._host, folder)


def _connect(settings: ImapSettings, timeout: SocketTimeout) -> Any:
    # It reads all authorities of the system, 30 ms.
    context = None if settings.security == "none" else ssl.create_default_context(cafile=settings.ca_file)
    tls = settings.security == "tls"
    port = settings.server_port
    client = IMAPClient(settings.host, port, ssl=tls, ssl_context=context if tls else None, timeout=timeout)
    # It would write every byte that comes into a log that nobody keeps.
    client._imap.debug = 0
    client.folder_encode = False
    client.normalise_times = False
    if settings.security == "starttls":
        client.starttls(context)
    return client


def _status(said: Any) -> Status:
    def number(name: bytes, other: bytes = b"") -> int:
        value = said.get(name, said.get(other, 0))
        return int(value[0] if isinstance(value, (list, tuple)) else value)

    return Status(
        number(b"UIDVALIDITY"),
        number(b"UIDNEXT"),
        number(b"MESSAGES", b"EXISTS"),
        number(b"HIGHESTMODSEQ"),
        number(b"UNSEEN"),
    )


def _message(uid: int, said: Any) -> Message:
    found = _MESSAGE_ID.match(said.get(_HEADER) or b"")
    received = said.get(b"INTERNALDATE")
    return Message(
        uid,
        int(said[b"RFC822.SIZE"]),
        received.astimezone(UTC) if received else None,
        " ".join(found[1].decode("utf-8", "replace").split())[:998] if found else "",
        tuple(sorted(flag for flag in _flags(said.get(b"FLAGS", ())) if flag != "\\Recent")),
        said.get(b"BODYSTRUCTURE"),
    )


def _is_whole(said: Any) -> bool:
    """Whether it is an answer to the question, and not only a word about new flags of a message that went meanwhile."""
    return said is not None and b"RFC822.SIZE" in said


def _flags(flags: Any) -> tuple[str, ...]:
    return tuple(flag.decode("ascii", "replace") if isinstance(flag, bytes) else str(flag) for flag in flags)


def _ranges(said: bytes) -> Iterator[tuple[int, int]]:
    for part in said.split(b","):
        first, _, last = part.partition(b":")
        yield int(first), int(last or first)


def _is_news(answer: Any) -> bool:
    return isinstance(answer, tuple) and any(word in _NEWS for word in answer if isinstance(word, bytes))
