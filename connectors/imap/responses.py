"""Convert the responses parsed by IMAPClient into our types. Malformed responses raise various errors; see `errors`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from imapclient.response_parser import parse_response

from catchment.model import time_of
from connectors.imap.mail_folders import MailboxStatus, MailFolder
from connectors.imap.names import decode_folder, identity

_HEADER = b"BODY[HEADER.FIELDS (MESSAGE-ID)]"
_MESSAGE_ID = re.compile(rb"message-id:\s*(\S.*)", re.IGNORECASE | re.DOTALL)


class Message(NamedTuple):
    """A listed message. `structure` is its BODYSTRUCTURE, None if not requested.

    `number` is the same in every folder, and `labels` are the folders that show the message; both exist only on Gmail.
    """

    uid: int
    size: int
    received: datetime | None
    message_id: str
    flags: tuple[str, ...]
    structure: Any = None
    number: int | None = None
    labels: tuple[str, ...] = ()

    def identity(self, part: str = "") -> str | None:
        """Return the identity of the message, or of a part of it."""
        # Gmail's message number is the same under every label.
        key = f"{self.number}" if self.number else self.message_id
        return identity(key, self.size, "" if self.received is None else self.received.isoformat(), part)


def parse_folders(listed: Sequence[tuple[Any, Any, Any]]) -> list[MailFolder]:
    """Parse the response to LIST."""
    return [MailFolder(_name(name), frozenset(flag.lower() for flag in _flags(flags))) for flags, _, name in listed]


def parse_statuses(lines: list[Any]) -> dict[str, MailboxStatus]:
    """Parse untagged STATUS lines, each a name and a list of pairs."""
    fields = parse_response(lines)
    pairs = zip(fields[::2], fields[1::2], strict=True)
    return {_name(name): parse_status(dict(zip(items[::2], items[1::2], strict=True))) for name, items in pairs}


def parse_status(fields: Mapping[bytes, Any]) -> MailboxStatus:
    """Parse a STATUS response. Raises ValueError if UIDNEXT is missing: the folder would seem to be empty."""
    validity, following, messages = (_number(fields[name]) for name in (b"UIDVALIDITY", b"UIDNEXT", b"MESSAGES"))
    if messages and not following:
        raise ValueError("no UIDNEXT")
    return MailboxStatus(
        validity, following, messages, _number(fields.get(b"HIGHESTMODSEQ", 0)), _number(fields.get(b"UNSEEN", 0))
    )


def parse_uidvalidity(fields: Mapping[bytes, Any]) -> int:
    """Return the UIDVALIDITY in a response to EXAMINE."""
    return _number(fields.get(b"UIDVALIDITY", 0))


def _number(value: Any) -> int:
    return int(value[0] if isinstance(value, (list, tuple)) else value)


def parse_messages(responses: Mapping[int, Any], uids: Sequence[int]) -> list[Message]:
    """Parse a response to FETCH, without deleted messages."""
    # For a message deleted meanwhile, the response may contain only new flags.
    return [_message(uid, responses[uid]) for uid in uids if b"RFC822.SIZE" in responses.get(uid, ())]


def _message(uid: int, fields: Mapping[bytes, Any]) -> Message:
    match = _MESSAGE_ID.match(fields.get(_HEADER) or b"")
    return Message(
        uid,
        int(fields[b"RFC822.SIZE"]),
        time_of(fields.get(b"INTERNALDATE"), lambda received: received),
        " ".join(match[1].decode("utf-8", "replace").split())[:998] if match else "",
        tuple(sorted(flag for flag in _flags(fields.get(b"FLAGS", ())) if flag != "\\Recent")),
        fields.get(b"BODYSTRUCTURE"),
        fields.get(b"X-GM-MSGID"),
        tuple(sorted(map(_name, fields.get(b"X-GM-LABELS") or ()))),
    )


def parse_vanished(lines: Sequence[bytes]) -> list[tuple[int, int]]:
    """Parse the UID ranges of VANISHED lines (RFC 7162, section 3.2.10)."""
    return [pair for line in lines for pair in _ranges(line.rpartition(b" ")[2])]


def _ranges(fields: bytes) -> Iterator[tuple[int, int]]:
    for part in fields.split(b","):
        first, _, last = part.partition(b":")
        yield int(first), int(last or first)


def _name(fields: Any) -> str:
    """Decode the name of a folder or label. IMAPClient parses names made of digits as numbers."""
    return decode_folder(fields if isinstance(fields, bytes) else str(fields).encode("latin-1"))


def _flags(flags: Any) -> tuple[str, ...]:
    return tuple(flag.decode("ascii", "replace") if isinstance(flag, bytes) else str(flag) for flag in flags)
