"""Read e-books of Mobipocket and Kindle (.mobi, .azw, .azw3): HTML in the records of a Palm database.

The records are compressed with PalmDOC or not at all. Books with DRM or with the compression HUFF/CDIC are refused.
"""

from __future__ import annotations

import re
import struct
from itertools import pairwise

from catchment.content.normalize.html import html
from catchment.content.normalize.office.extraction import Metadata
from catchment.errors import ParseError

MEDIA_TYPE = "application/x-mobipocket-ebook"
_PLAIN, _PALMDOC, _UTF8, _KINDLE_8 = 1, 2, 65001, 8
_AUTHOR, _SUBJECT, _PUBLISHED, _TITLE, _LANGUAGE = 100, 105, 106, 503, 524
_MARKS = re.compile(rb"</?mbp:[^<>]*>")
_DAMAGED = "the e-book is damaged or truncated; fetch it again"
_PROTECTED = "the e-book is copy-protected; only a copy without protection can be read"
_UNSUPPORTED = "the compression of the e-book (HUFF/CDIC) is not supported; convert it to EPUB"


def text(data: bytes) -> tuple[str, Metadata]:
    """Return the text of a book as Markdown, and its metadata. Raises ParseError."""
    try:
        page, metadata = _book(data)
    except (struct.error, IndexError) as error:
        raise ParseError(_DAMAGED) from error
    return html(_MARKS.sub(b"", page)).text, metadata


def _book(data: bytes) -> tuple[bytes, Metadata]:
    """Return the page of a book in UTF-8. Raises struct.error or IndexError if the book is truncated."""
    (count,) = struct.unpack_from(">H", data, 76)
    starts = [struct.unpack_from(">I", data, 78 + 8 * number)[0] for number in range(count)]
    if starts != sorted(starts):  # overlapping records could multiply in memory
        raise ParseError(_DAMAGED)
    records = [data[start:stop] for start, stop in pairwise([*starts, len(data)])]
    head = records[0]
    compression, texts, protection = struct.unpack_from(">H6xH2xH", head)
    length, encoding, version = struct.unpack_from(">I4xI4xI", head, 20) if head[16:20] == b"MOBI" else (0, 0, 0)
    if protection:
        raise ParseError(_PROTECTED)
    if compression not in (_PLAIN, _PALMDOC):
        raise ParseError(_UNSUPPORTED)
    flags = struct.unpack_from(">H", head, 242)[0] if length >= 228 else 0
    bodies = [_without_trailers(records[number], flags) for number in range(1, texts + 1)]
    page = b"".join(map(_inflated, bodies) if compression == _PALMDOC else bodies)
    sections = next((record for record in records if version == _KINDLE_8 and record[:4] == b"FDST"), None)
    if sections:  # the text is the first section, styles and drawings are the others
        page = page[slice(*struct.unpack_from(">II", sections, 12))]
    charset = "utf-8" if encoding == _UTF8 else "cp1252"
    fields = _fields(head, 16 + length) if length else {}
    return page.decode(charset, "replace").encode(), _metadata(head, fields, charset, has_name=length > 76)


def _without_trailers(record: bytes, flags: int) -> bytes:
    """Return a record without the entries at its end; their sizes are written backwards, seven bits a byte."""
    stop = len(record)
    for _ in range((flags >> 1).bit_count()):
        size, place = 0, stop
        for shift in (0, 7, 14, 21):
            place -= 1
            size |= (record[place] & 0x7F) << shift
            if record[place] & 0x80:
                break
        stop -= size
    return record[: stop - (record[stop - 1] & 3) - 1] if flags & 1 else record[:stop]


def _inflated(record: bytes) -> bytes:
    """Decompress a record (PalmDOC). Raises IndexError if it is damaged."""
    out = bytearray()
    place = 0
    while place < len(record):
        byte = record[place]
        place += 1
        if byte >= 0xC0:
            out += b" " + bytes([byte ^ 0x80])
        elif byte >= 0x80:
            pair = (byte << 8 | record[place]) & 0x3FFF
            place += 1
            for _ in range((pair & 7) + 3):
                out.append(out[-(pair >> 3)])
        elif 1 <= byte <= 8:
            out += record[place : place + byte]
            place += byte
        else:
            out.append(byte)
    return bytes(out)


def _fields(head: bytes, place: int) -> dict[int, list[bytes]]:
    """Return the values of the EXTH header by type; empty without one."""
    fields: dict[int, list[bytes]] = {}
    if head[place : place + 4] == b"EXTH":
        (count,) = struct.unpack_from(">I", head, place + 8)
        place += 12
        for _ in range(min(count, len(head) // 8)):
            kind, size = struct.unpack_from(">II", head, place)
            fields.setdefault(kind, []).append(head[place + 8 : place + size])
            place += max(size, 8)
    return fields


def _metadata(head: bytes, fields: dict[int, list[bytes]], charset: str, *, has_name: bool) -> Metadata:
    start, size = struct.unpack_from(">II", head, 84) if has_name else (0, 0)
    values = {kind: tuple(each.decode(charset, "replace") for each in held) for kind, held in fields.items()}
    first = {kind: held[0] for kind, held in values.items()}
    return Metadata(
        title=first.get(_TITLE) or head[start : start + size].decode(charset, "replace"),
        authors=values.get(_AUTHOR, ()),
        created=first.get(_PUBLISHED),
        keywords=values.get(_SUBJECT, ()),
        language=first.get(_LANGUAGE),
    )
