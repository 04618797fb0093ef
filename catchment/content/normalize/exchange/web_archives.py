"""Read web archives (WARC, ISO 28500): the pages and texts that servers sent."""

from __future__ import annotations

import re
import zlib
from contextlib import suppress
from dataclasses import replace

from catchment.content.normalize.decode import decode, is_text
from catchment.content.normalize.formats import HTML, XHTML
from catchment.content.normalize.html.main_text import web_page
from catchment.errors import ParseError
from catchment.model import Document

_RECORD = re.compile(rb"[\r\n]*WARC/\d\.\d+\r?\n((?:[^\r\n]+\r?\n){1,100})\r?\n")
_FIELD = re.compile(rb"^([\w-]{1,60}):[ \t]*([^\r\n]*)", re.MULTILINE)
_STATUS = re.compile(rb"HTTP/\d[\d.]* 2\d\d\b")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]{2,40})", re.IGNORECASE)
_CHUNK = re.compile(rb"(?:\r\n)?([0-9A-Fa-f]{1,8})[^\r\n]{0,200}\r\n")
_TEXTS = (HTML, XHTML, "text/plain", "text/markdown")
_MAX_RECORDS, _MAX_PAGES, _MAX_BYTES = 100_000, 500, 10 * 1024 * 1024
"""Pages and their bytes: the main text of so many is found in the time that an item may take without progress."""


def web_archive(data: bytes, media_type: str) -> Document:
    """Return the main text of each page under its address. Raises ParseError without any record."""
    pages: dict[str, Document] = {}
    at, others, room, records = 0, 0, _MAX_BYTES, 0
    while records < _MAX_RECORDS and (record := _RECORD.match(data, at)):
        records += 1
        fields = _fields(record[1])
        at = record.end() + int(length[:12] if (length := fields.get("content-length", "")).isdecimal() else 0)
        block = data[record.end() : at]
        kind, address = fields.get("warc-type", ""), fields.get("warc-target-uri", "").strip("<>")
        if kind == "response":
            head, _, block = block.partition(b"\r\n\r\n")
            fields = _fields(head) if _STATUS.match(head) else {}
        if kind in ("response", "resource", "conversion") and fields and address.startswith("http"):
            body = _body(block, fields, room) if len(pages) < _MAX_PAGES and address not in pages else b""
            room, others = room - len(body), others + (not body)
            pages |= {address: _page(body, address, fields.get("content-type", ""))} if body else {}
    if not records:
        raise ParseError("no web archive: the file is truncated or of another type; fetch it again")
    warnings = [each for page in pages.values() for each in page.warnings]
    warnings += [f"other files of the archive not read: {others}"] if others else []
    if at > len(data) or data[at:].strip(b"\r\n"):
        warnings.append(f"the archive is damaged after record {records:,}, or has more than {_MAX_RECORDS:,} records")
    text = "\n\n".join(f"# {address}\n\n{page.text}".rstrip() for address, page in pages.items())
    title = next(iter(pages.values())).title if len(pages) == 1 else None
    return Document(text, media_type, title, warnings=tuple(dict.fromkeys(warnings)))


def _fields(head: bytes) -> dict[str, str]:
    return {name.decode("ascii").lower(): value.decode("latin-1").strip() for name, value in _FIELD.findall(head)}


def _body(block: bytes, fields: dict[str, str], room: int) -> bytes:
    """Return the body of a response with text, as the server wrote it; b"" for any other, and for one that is too large."""
    if fields.get("content-type", "").partition(";")[0].strip().lower() not in _TEXTS:
        return b""
    if fields.get("transfer-encoding", "").lower() == "chunked" and _CHUNK.match(block):
        parts, at = [], 0
        while (size := _CHUNK.match(block, at)) and (length := int(size[1], 16)):
            at = size.end() + length
            parts.append(block[size.end() : at])
        block = b"".join(parts)
    if fields.get("content-encoding"):
        with suppress(zlib.error):  # some programs decode the body and keep the header
            block = zlib.decompressobj(wbits=47).decompress(block, room + 1)
    return block if len(block) <= room and is_text(block) else b""


def _page(body: bytes, address: str, declared: str) -> Document:
    kind = declared.partition(";")[0].strip().lower()
    encoding = charset[1] if (charset := _CHARSET.search(declared)) else None
    if kind in (HTML, XHTML):
        page = web_page(body, address, kind, encoding=encoding)
        return page if not page.title or page.title in page.text else replace(page, text=f"{page.title}\n\n{page.text}")
    text, warnings, _ = decode(body, encoding)
    return Document(text, kind, warnings=warnings)
