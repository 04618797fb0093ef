"""What the answers of a server say, once the library has taken them apart. What is odd raises as it comes; see `refusals`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from imapclient.response_parser import parse_response

from connectors.imap.folders import MailboxStatus, MailFolder
from connectors.imap.names import folder_text

_HEADER = b"BODY[HEADER.FIELDS (MESSAGE-ID)]"
_MESSAGE_ID = re.compile(rb"message-id:\s*(\S.*)", re.IGNORECASE | re.DOTALL)


class Message(NamedTuple):
    """What a listing tells of a message. `structure` is its BODYSTRUCTURE, None where that was not asked for.

    `number` is one that it has in every folder, and `labels` are the names under which it shows; only Gmail tells them.
    """

    uid: int
    size: int
    received: datetime | None
    message_id: str
    flags: tuple[str, ...]
    structure: Any = None
    number: int | None = None
    labels: tuple[str, ...] = ()


def folders_in(listed: Sequence[tuple[Any, Any, Any]]) -> list[MailFolder]:
    """The folders of an answer to LIST."""
    return [MailFolder(_name(name), _flags(flags)) for flags, _, name in listed]


def statuses_in(lines: list[Any]) -> dict[str, MailboxStatus]:
    """How folders stand by the untagged STATUS lines, each a name and a list of pairs."""
    said = parse_response(lines)
    pairs = zip(said[::2], said[1::2], strict=True)
    return {_name(name): status_of(dict(zip(told[::2], told[1::2], strict=True))) for name, told in pairs}


def status_of(said: Mapping[bytes, Any]) -> MailboxStatus:
    """How a folder stands by an answer to STATUS. One that leaves out what tells where it ends would say that it is empty."""
    validity, following, messages = (_number(said[name]) for name in (b"UIDVALIDITY", b"UIDNEXT", b"MESSAGES"))
    if messages and not following:
        raise ValueError("no next number")
    return MailboxStatus(
        validity, following, messages, _number(said.get(b"HIGHESTMODSEQ", 0)), _number(said.get(b"UNSEEN", 0))
    )


def validity_of(said: Mapping[bytes, Any]) -> int:
    """Since when the messages are numbered as they are, by an answer to EXAMINE."""
    return _number(said.get(b"UIDVALIDITY", 0))


def _number(value: Any) -> int:
    return int(value[0] if isinstance(value, (list, tuple)) else value)


def messages_in(answers: Mapping[int, Any], uids: Sequence[int]) -> list[Message]:
    """The messages of an answer to FETCH; without those that are gone."""
    # Of a message that went meanwhile there may be a word about new flags, and nothing else.
    return [_message(uid, answers[uid]) for uid in uids if b"RFC822.SIZE" in answers.get(uid, ())]


def _message(uid: int, said: Mapping[bytes, Any]) -> Message:
    found = _MESSAGE_ID.match(said.get(_HEADER) or b"")
    received = said.get(b"INTERNALDATE")
    return Message(
        uid,
        int(said[b"RFC822.SIZE"]),
        received.astimezone(UTC) if received else None,
        " ".join(found[1].decode("utf-8", "replace").split())[:998] if found else "",
        tuple(sorted(flag for flag in _flags(said.get(b"FLAGS", ())) if flag != "\\Recent")),
        said.get(b"BODYSTRUCTURE"),
        said.get(b"X-GM-MSGID"),
        tuple(sorted(map(_name, said.get(b"X-GM-LABELS") or ()))),
    )


def ranges_in(lines: Sequence[bytes]) -> list[tuple[int, int]]:
    """The ranges of UIDs that lines of VANISHED name (RFC 7162, 3.2.10)."""
    return [pair for line in lines for pair in _ranges(line.rpartition(b" ")[2])]


def _ranges(said: bytes) -> Iterator[tuple[int, int]]:
    for part in said.split(b","):
        first, _, last = part.partition(b":")
        yield int(first), int(last or first)


def _name(said: Any) -> str:
    """The name of a folder or label; the library reads one of digits as a number."""
    return folder_text(said if isinstance(said, bytes) else str(said).encode("latin-1"))


def _flags(flags: Any) -> tuple[str, ...]:
    return tuple(flag.decode("ascii", "replace") if isinstance(flag, bytes) else str(flag) for flag in flags)
