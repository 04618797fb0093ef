"""Read files with messages: one message, an Apple Mail file, a mailbox (mbox, RFC 4155) or a saved web page (MHTML)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from catchment.content.normalize.formats import MAILBOX, SAVED_PAGE
from catchment.content.normalize.html import html
from catchment.content.normalize.language_detection import language
from catchment.content.normalize.mail import mail
from catchment.content.normalize.mail.body import start
from catchment.content.normalize.mail.dates import moment
from catchment.content.normalize.mail.mime import parse
from catchment.errors import ParseError
from catchment.model import Document

_SIZE = re.compile(rb"(\d{1,12})[ \t]*\r?\n")
"""The first line of an Apple Mail file (.emlx): the size of the message before a property list."""
_SEPARATOR = re.compile(rb"^From (?>[^\n]*\d\d:\d\d[^\n]*\n)(?=[!-9;-~]+:)", re.MULTILINE)
_QUOTED = re.compile(rb"^>(>*From )", re.MULTILINE)
_MAX_MESSAGES, _MAX_TEXT = 1_000, 4_000_000
_PAGES = ("text/html", "application/xhtml+xml")


def message_file(data: bytes, media_type: str) -> Document:
    """Read a file of one of these types. Raises ParseError if it has no mail headers, or no page."""
    if media_type == MAILBOX:
        return _mailbox(data)
    if media_type == SAVED_PAGE:
        return _saved_page(data)
    return mail(message_of(data))


def message_of(data: bytes) -> bytes:
    """Return the message in a file of one message."""
    size = _SIZE.match(data)
    return data[size.end() : size.end() + int(size[1])] if size else data


def without_quoting(message: bytes) -> bytes:
    """Return a message of a mailbox without the quoting of `From ` lines."""
    return _QUOTED.sub(rb"\1", message)


def _mailbox(data: bytes) -> Document:
    """Return each message of a mailbox under a heading, up to fixed limits."""
    parts: list[str] = []
    warnings: dict[str, None] = {}
    room, unread = _MAX_TEXT, 0
    for number, message in enumerate(_messages(data)):
        if number >= _MAX_MESSAGES or room <= 0:
            warnings[f"only the first {number:,} messages were read; split the mailbox into files of one message"] = (
                None
            )
            break
        try:
            document = mail(message)
        except ParseError:
            unread += 1
            continue
        date = f"{document.created:%Y-%m-%d %H:%M} UTC" if document.created else ""
        lines = [f"- {name}: {value}" for name, value in (("From", document.author), ("Date", date)) if value]
        parts.append("\n\n".join(filter(None, (f"## {document.title or 'Message'}", "\n".join(lines), document.text))))
        warnings |= dict.fromkeys(document.warnings)
        room -= len(parts[-1])
    if not parts:
        raise ParseError("no messages: not a mailbox, or truncated; export it again")
    if unread:
        warnings[f"damaged messages not read: {unread}"] = None
    text = "\n\n".join(parts)
    return Document(text=text, media_type=MAILBOX, language=language(text), warnings=tuple(warnings))


def _messages(data: bytes) -> Iterator[bytes]:
    """Yield the messages between the separator lines, without the quoting of `From ` lines."""
    start = -1
    for separator in _SEPARATOR.finditer(data):
        if start >= 0:
            yield without_quoting(data[start : separator.start()])
        start = separator.end()
    if start >= 0:
        yield without_quoting(data[start:])


def _saved_page(data: bytes) -> Document:
    """Return the page in an MHTML file (RFC 2557), followed by the pages in its frames."""
    tree = parse(data)
    main = [*start(tree.root).walk()] if tree.root.parts else []
    pages = sorted((part for part in tree.root.walk() if part.media_type in _PAGES), key=lambda part: part not in main)
    if not pages:
        raise ParseError("no page in the file: it is truncated or of another type; save it again")
    page, *frames = [html(part.content(), part.media_type, part.charset) for part in pages]
    address = tree.root.header("snapshot-content-location") or pages[0].header("content-location")
    text = "\n\n".join(filter(None, (page.text, *(frame.text for frame in frames))))
    properties = {"canonical": address} if address.startswith(("http://", "https://")) else {}
    if saved := moment(tree.root.header("date")):
        properties["saved"] = f"{saved:%Y-%m-%d}"
    return replace(
        page,
        text=text,
        media_type=SAVED_PAGE,
        title=page.title or tree.root.header("subject") or None,
        properties=dict(sorted({**page.properties, **properties}.items())),
        warnings=(*tree.warnings, *page.warnings),
    )
