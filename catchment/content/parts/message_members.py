"""The messages of a mailbox file (mbox, RFC 4155), and the files attached to a message or a saved page."""

from __future__ import annotations

import hashlib
import io
import os
import re
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import IO, Any
from urllib.parse import urlsplit

from catchment.content.normalize.decode import decode
from catchment.content.normalize.formats import MAIL
from catchment.content.normalize.mail import letterhead
from catchment.content.normalize.mail.attachments import attachments
from catchment.content.normalize.mail.message_files import message_of, without_quoting
from catchment.content.normalize.mail.mime import parse
from catchment.content.normalize.mail.words import file_name
from catchment.content.parts.containers import Member
from catchment.errors import ParseError, SkipReason

_NAMES = tuple(f"__substg1.0_{tag}" for tag in ("3707", "3704", "3001"))
"""The streams with the long, the short and the displayed name of an attached file."""
_DATA, _LISTED = "__substg1.0_37010102", "__properties_version1.0"
_SENT, _EPOCH = 0x00390040, datetime(1601, 1, 1, tzinfo=UTC)
"""The property with the time of sending, and the start of the times of Windows."""
_OBJECT = "a message or object in a message of Outlook; save it as a file of its own"
_OF_PAGES = re.compile(r"(?:image|audio|video|font)/|text/(?:html|css|javascript)$|application/.*(?:xhtml|script|font)")
_LONGEST_HEAD = 64 << 10
_MESSAGE_ID = re.compile(rb"^Message-ID:\s*<?([^<>\s]{1,200})", re.MULTILINE | re.IGNORECASE)
_OWN_FIELD = re.compile(rb"^(?:X-|Status:|Content-Length:|Lines:).*\n(?:[ \t].*\n)*", re.MULTILINE | re.IGNORECASE)
"""What a mail program adds and changes, such as whether a message was read."""
_SEPARATOR, _HEADER = re.compile(rb"From .{0,900}\d\d:\d\d"), re.compile(rb"[!-9;-~]+:")


def mailbox_members(file: IO[bytes]) -> Iterator[Member]:
    """Yield the messages of a mailbox, by their Message-ID; after its first message, with a mark of the content.

    Needs the memory of one message, and of the names, whatever the file's size.

    Raises ParseError if it has text and no message.
    """
    name, names = "", set[str]()
    for (_, start), (stop, _) in pairwise(_separators(file)):
        file.seek(start)
        head = file.read(min(stop - start, _LONGEST_HEAD))
        head = _OWN_FIELD.sub(b"", head.replace(b"\r", b"").rstrip())
        own_name = _MESSAGE_ID.search(head.partition(b"\n\n")[0])
        mark = hashlib.sha256(head).hexdigest()
        name = own_name[1].decode("utf-8", "replace") if own_name else mark[:16]
        name = f"{name} {mark[:8]}" if name in names else name
        names.add(name)
        content = partial(_message, file, start, stop)
        yield Member(f"{name}.eml", stop - start, None, "", "", content, MAIL)
    if not name and file.seek(0, os.SEEK_END):
        raise ParseError("no messages: not a mailbox, or truncated; export it again")


def attached_members(file: IO[bytes]) -> Iterator[Member]:
    """Yield the files in a message. Raises ParseError if parts nest more than 100 deep."""
    file.seek(0)
    inside, message = ".", message_of(file.read())
    for each in attachments(message):
        if each.part.startswith(inside):  # of an attached message, which has its own parts
            continue
        inside = f"{each.part}." if each.media_type == MAIL else inside
        problem = "larger than 50 MB" if each.skipped is SkipReason.TOO_LARGE else ""
        content = partial(io.BytesIO, each.data)
        head = letterhead(message, each.media_type)
        yield Member(each.name, each.size, None, each.content_hash[:32], problem, content, each.media_type, head)


def page_members(file: IO[bytes]) -> Iterator[Member]:
    """Yield the files in a saved page (MHTML, RFC 2557) but those that the page is made of. Raises as `attached_members`."""
    file.seek(0)
    for part in parse(file.read()).root.walk():
        name = part.file_name or file_name(urlsplit(part.header("content-location")).path)
        if name and not part.parts and not _OF_PAGES.match(part.media_type):
            data = part.content()
            yield Member(name, len(data), None, "", "", partial(io.BytesIO, data), part.media_type)


def outlook_members(file: IO[bytes]) -> Iterator[Member]:
    """Yield the files in a message of Outlook ([MS-OXMSG], 2.2.2). Attached messages are listed, but not read."""
    import olefile

    file.seek(0)
    try:
        held = olefile.OleFileIO(io.BytesIO(file.read()))
        head = _letterhead(held)
        for folder in sorted({path[0] for path in held.listdir() if path[0].startswith("__attach_version1.0_")}):
            values = {path[1]: path for path in held.listdir() if path[0] == folder and len(path) == 2}
            wide = {tag: held.openstream(values[f"{tag}001F"]).read() for tag in _NAMES if f"{tag}001F" in values}
            names = [text.decode("utf-16-le", "replace").strip("\0") for text in wide.values()]
            narrow = [held.openstream(values[f"{tag}001E"]).read() for tag in _NAMES if f"{tag}001E" in values]
            names += [decode(text.strip(b"\0")).text for text in narrow]
            name = next(filter(None, names), f"attachment-{int(folder[-8:], 16) + 1}")
            if _DATA in values:
                data = held.openstream(values[_DATA]).read()
                yield Member(name, len(data), None, "", "", partial(io.BytesIO, data), metadata=head)
            else:
                yield Member(name, 0, None, "object", _OBJECT, io.BytesIO)
    except Exception as error:  # olefile raises arbitrary errors for damaged files
        raise ParseError("the attached files of the message are damaged; save it again") from error


def _letterhead(held: Any) -> dict[str, str]:
    """Return the metadata of a file attached to a message of Outlook. Only received messages have a header."""

    def text(tag: str) -> str:
        stream = f"__substg1.0_{tag}001F"
        return held.openstream(stream).read().decode("utf-16-le", "replace").strip("\0") if held.exists(stream) else ""

    listed = held.openstream(_LISTED).read() if held.exists(_LISTED) else b""
    values = dict(struct.iter_unpack("<I4xQ", listed[32 : len(listed) // 16 * 16]))
    sent = _EPOCH + timedelta(microseconds=values[_SENT] // 10) if 0 < values.get(_SENT, 0) < 1 << 61 else None
    sender, address = text("0C1A"), text("5D01") or text("0C1F")
    written = f"{sender} <{address}>" if sender and "@" in address else sender or address
    known = {"from": written, "sent": sent.isoformat() if sent else ""}
    return {name: value for name, value in known.items() if value} | letterhead(text("007D").encode(), "")


def _separators(file: IO[bytes]) -> Iterator[tuple[int, int]]:
    """Yield start and end of each separator line, then the size of the file as the last."""
    file.seek(0)
    at, separator = 0, None
    for line in iter(partial(file.readline, _LONGEST_HEAD), b""):
        if separator and _HEADER.match(line):
            yield separator
            file.seek(at + len(line))  # the caller reads elsewhere meanwhile
        separator = (at, at + len(line)) if _SEPARATOR.match(line) else None
        at += len(line)
    yield at, at


def _message(file: IO[bytes], start: int, stop: int) -> IO[bytes]:
    file.seek(start)
    return io.BytesIO(without_quoting(file.read(stop - start)))
