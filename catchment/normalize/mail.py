"""Mail messages (RFC 5322 and MIME): headers as properties, the readable part as text, attachments by name."""

from __future__ import annotations

import email
import email.policy
import re
from datetime import UTC, datetime
from email.message import Message
from email.utils import getaddresses, parsedate_to_datetime

from catchment.errors import ParseError
from catchment.model import Document
from catchment.normalize.decode import decode
from catchment.normalize.html import html
from catchment.normalize.language import language

_HEADERS = ("from", "to", "cc", "bcc", "reply-to", "date", "message-id", "in-reply-to", "list-id")
_PEOPLE = ("from", "to", "cc", "bcc", "reply-to")
_SPACE = re.compile(r"\s+")
_MAX_PARTS = 1_000
_MAX_HEADER = 20_000


def mail(data: bytes) -> Document:
    """A message as a document. Raises ParseError where there is not one header."""
    try:
        message = email.message_from_bytes(data, policy=email.policy.compat32)
        texts, pages, attachments = _parts(message)
    except RecursionError as error:
        raise ParseError("the message nests its parts too deeply; no mail program writes such a one") from error
    if not message.keys():
        raise ParseError("the message has no headers; it is not a mail message, or was cut off")
    body = "\n\n".join(text for text in (_text(part) for part in texts) if text)
    if not body:
        body = "\n\n".join(
            text for text in (html(_payload(part), declared=part.get_content_charset()).text for part in pages) if text
        )
    properties: dict[str, object] = {name: value for name in _HEADERS if (value := _header(message, name))}
    for name in _PEOPLE:
        if name in properties:
            properties[name] = _people(str(properties[name]))
    if attachments:
        properties["attachments"] = attachments
    return Document(
        text=body,
        media_type="message/rfc822",
        title=_header(message, "subject") or None,
        language=language(body),
        author=_header(message, "from") or None,
        created=_date(_header(message, "date")),
        properties=dict(sorted(properties.items())),
        warnings=("the message is malformed in places",) if message.defects else (),
    )


def _header(message: Message, name: str) -> str:
    """A header, decoded; raw where its encoding is broken."""
    raw = str(message.get(name, ""))[:_MAX_HEADER]
    try:
        value = str(email.policy.default.header_factory(name, _SPACE.sub(" ", raw))) if raw else ""
    except Exception:  # noqa: BLE001 - the standard parser fails in many ways on real headers; the raw text serves
        value = raw
    return _SPACE.sub(" ", value.encode("utf-8", "replace").decode()).strip()


def _people(value: str) -> list[str]:
    """The addresses of a header, each as `Name <address>`; a header that is no list of addresses stays whole."""
    people = [f"{name} <{address}>" if name else address for name, address in getaddresses([value]) if address]
    return people or [value]


def _parts(message: Message) -> tuple[list[Message], list[Message], list[str]]:
    """The plain parts, the HTML parts, and the names of the attachments."""
    texts: list[Message] = []
    pages: list[Message] = []
    attachments: list[str] = []
    for number, part in enumerate(message.walk()):
        if number >= _MAX_PARTS:
            break
        if part.is_multipart():
            continue
        name = _file_name(part)
        if name or part.get_content_disposition() == "attachment":
            attachments.append(name or "unnamed")
        elif part.get_content_type() == "text/plain":
            texts.append(part)
        elif part.get_content_type() == "text/html":
            pages.append(part)
    return texts, pages, attachments


def _file_name(part: Message) -> str:
    try:
        name = part.get_filename() or ""
    except (LookupError, ValueError, TypeError):  # a name in an unknown or wrong encoding
        name = "unnamed"
    return _SPACE.sub(" ", name.encode("utf-8", "replace").decode()).strip()


def _payload(part: Message) -> bytes:
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _text(part: Message) -> str:
    text, _ = decode(_payload(part), part.get_content_charset())
    return text.strip()


def _date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
