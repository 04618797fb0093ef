"""Read mail messages (RFC 5322, MIME): text as Markdown, people, attachments and conversation identifiers.

`mime` parses the parts, with `transport` for their encodings. `words` reads header fields, `dates` their dates. `body`
assembles the text with `html_body`, `encrypted` and the calendars of `exchange`; `replies` marks quotations and signatures.
`attachments` returns the files, `outlook` converts .msg files, `message_files` reads mailboxes and saved pages. Conversations
are not grouped here.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import datetime
from typing import Any

from catchment.content.normalize.language_detection import language
from catchment.content.normalize.mail import body, words
from catchment.content.normalize.mail.attachments import MESSAGES, files, name_of
from catchment.content.normalize.mail.dates import moment
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
    """Read a message into a document. Raises ParseError if it has no mail headers or its parts nest too deeply."""
    tree = parse(data)
    root = tree.root
    if not _OF_A_MESSAGE & root.headers.keys():
        raise ParseError("no mail headers: not a mail message, or truncated; fetch or save it again")
    read = body.read(root)
    properties, warnings = _properties(root), [*tree.warnings, *read.warnings]
    if read.signed:
        properties["signed"] = read.signed
    if read.encrypted:
        properties["encrypted"] = read.encrypted
    attachments = files(root)
    if attachments:
        properties["attachments"] = [_attachment_fields(part) for part in attachments[:_MAX_FILES]]
    if any(part.media_type in _UNREADABLE or part.file_name.lower() == "winmail.dat" for part in attachments):
        warnings.append("attachments in winmail.dat (Outlook) were not read")
    created = _created(root)
    if created is None or not moment(root.header("date")):
        warnings.append("the date is missing or implausible")
    return Document(
        text=read.text,
        media_type="message/rfc822",
        title=root.header("subject")[:1_000] or None,
        language=language(read.text),
        author=_sender(root),
        created=created,
        properties=dict(sorted(properties.items())),
        warnings=tuple(warnings),
    )


def letterhead(message: bytes, media_type: str) -> dict[str, str]:
    """Return the metadata of a file attached to a message: `from` and `sent`. An attached message names its own sender.

    `message`: at least its header, which ends at the first empty line.
    """
    root = parse(re.split(rb"\r?\n\r?\n", message, maxsplit=1)[0] + b"\r\n\r\n").root
    sender, sent = _sender(root), _created(root)
    named = {"from": sender} if sender and media_type not in MESSAGES else {}
    return named | ({"sent": sent.isoformat()} if sent else {})


def _properties(root: Part) -> dict[str, Any]:
    """Return the header fields; identifiers have no angle brackets."""
    fields: dict[str, Any] = {name: value[:2_000] for name in _TEXTS if (value := root.header(name))}
    fields |= {name: people for name in _PEOPLE if (people := words.mailboxes(root.headers.get(name, ())))}
    for name in ("message-id", "in-reply-to", "references"):
        ids = [identifier for value in root.headers.get(name, ()) for identifier in words.identifiers(value)]
        if name == "message-id" and ids:
            fields[name] = ids[0]
        elif ids:
            fields[name] = ids[:1] + ids[1:][-_MAX_REFERENCES + 1 :]
    if conversation := _conversation(root):
        fields["thread-index"] = conversation
    return fields


def _sender(root: Part) -> str | None:
    senders = (words.mailboxes(root.headers.get(name, ())) for name in ("from", "sender"))
    return next((people[0] for people in senders if people), None)


def _conversation(root: Part) -> str:
    """Return the first 22 bytes of Exchange's `Thread-Index`, equal for all messages of a conversation; "" if missing."""
    try:
        data = base64.b64decode(root.header("thread-index"), validate=True)
    except (binascii.Error, ValueError):
        return ""
    return data[:_CONVERSATION_BYTES].hex() if len(data) >= _CONVERSATION_BYTES else ""


def _attachment_fields(part: Part) -> dict[str, str]:
    return {"media-type": part.media_type, "name": name_of(part), "part": part.number}


def _created(root: Part) -> datetime | None:
    """Return the date of the message, or else the time at which the first server received it."""
    if date := moment(root.header("date")):
        return date
    received = root.headers.get("received", ())
    times = (moment(words.raw(value).rpartition(";")[2].strip()) for value in reversed(received))
    return next((time for time in times if time), None)
