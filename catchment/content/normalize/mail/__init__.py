"""Mail messages (RFC 5322 and MIME): what was said as Markdown, who said it to whom, what came along, in which thread.

`mime` finds the parts, `words` reads header fields, `body` chooses and reads the text with `page`, `calendar` and `sealed`,
`quotes` tells what is the writer's own; `attachments` hands out the files, `threads` finds conversations.
"""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Any

from catchment.content.normalize.language import language
from catchment.content.normalize.mail import body, words
from catchment.content.normalize.mail.attachments import files, name_of
from catchment.content.normalize.mail.mime import Part, parse
from catchment.errors import ParseError
from catchment.model import Document

_PEOPLE = ("from", "to", "cc", "bcc", "reply-to", "sender")
_TEXTS = ("date", "list-id")
_MAX_REFERENCES = 50
_MAX_FILES = 300
_CONVERSATION_BYTES = 22
_UNREADABLE = frozenset({"application/ms-tnef", "application/vnd.ms-tnef"})
_OF_A_MESSAGE = frozenset(
    {"from", "to", "cc", "subject", "date", "received", "message-id", "return-path", "mime-version", "content-type"}
)


def mail(data: bytes) -> Document:
    """A message as a document. Raises ParseError where nothing says that it is one, or its parts nest beyond reason."""
    tree = parse(data)
    root = tree.root
    if not _OF_A_MESSAGE & root.headers.keys():
        raise ParseError("the message has no headers; it is not a mail message, or was cut off: fetch or save it again")
    read = body.read(root)
    properties, warnings = _properties(root), [*tree.warnings, *read.warnings]
    if read.signed:
        properties["signed"] = read.signed
    if read.encrypted:
        properties["encrypted"] = read.encrypted
    carried = files(root)
    if carried:
        properties["attachments"] = [_told(part) for part in carried[:_MAX_FILES]]
    if any(part.media_type in _UNREADABLE or part.file_name.lower() == "winmail.dat" for part in carried):
        warnings.append("what came along is packed in Outlook's own format (winmail.dat) and cannot be read")
    created = _created(root)
    if created is None or not words.moment(root.header("date")):
        warnings.append("its date is missing or makes no sense")
    senders = properties.get("from") or properties.get("sender")
    return Document(
        text=read.text,
        media_type="message/rfc822",
        title=root.header("subject")[:1_000] or None,
        language=language(read.text),
        author=senders[0] if senders else None,
        created=created,
        properties=dict(sorted(properties.items())),
        warnings=tuple(warnings),
    )


def _properties(root: Part) -> dict[str, Any]:
    """What the header fields say; the identifiers without their brackets."""
    said: dict[str, Any] = {name: value[:2_000] for name in _TEXTS if (value := root.header(name))}
    for name in _PEOPLE:
        found = [person for value in root.headers.get(name, ()) for person in words.people(value)]
        if found:
            said[name] = [f"{label} <{address}>" if label and address else label or address for label, address in found]
    for name in ("message-id", "in-reply-to", "references"):
        found_ids = [one for value in root.headers.get(name, ()) for one in words.identifiers(value)]
        if name == "message-id" and found_ids:
            said[name] = found_ids[0]
        elif found_ids:
            said[name] = found_ids[:1] + found_ids[1:][-_MAX_REFERENCES + 1 :]
    if conversation := _conversation(root):
        said["thread-index"] = conversation
    return said


def _conversation(root: Part) -> str:
    """What the messages of one conversation have in common in Exchange's `Thread-Index`: its first 22 bytes."""
    try:
        data = base64.b64decode(root.header("thread-index"), validate=True)
    except (binascii.Error, ValueError):
        return ""
    return data[:_CONVERSATION_BYTES].hex() if len(data) >= _CONVERSATION_BYTES else ""


def _told(part: Part) -> dict[str, str]:
    return {"media-type": part.media_type, "name": name_of(part), "part": part.number}


def _created(root: Part) -> datetime | None:
    """When it was sent, as it says itself, or else when the first server on its way had it."""
    if said := words.moment(root.header("date")):
        return said
    received = root.headers.get("received", ())
    moments = (words.moment(words.raw(value).rpartition(";")[2].strip()) for value in reversed(received))
    return next((moment for moment in moments if moment), None)
