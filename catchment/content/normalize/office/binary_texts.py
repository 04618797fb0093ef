"""Read text that xberg omits from the records of .doc and .ppt files ([MS-DOC] 2.4, 2.9; [MS-PPT] 2.3.1, 2.5.20)."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

_TABLE_FLAG, _FLAGS = 0x0200, 10
_COUNTS, _CLX = 0x4C, 0x01A2
_LABELS = ("", "Note: ", "Header or footer: ", "", "Comment: ", "Note: ", "", "")
"""Labels for the parts of a document in order: main text, footnotes, headers, macros, comments, endnotes, text boxes of the
main text, text boxes of headers."""
_NOT_MAIN = (1, 2, 4, 5, 6, 7)
_FIELD_CODE = re.compile("\x13[^\x13-\x15]*(?:\x14|(?=\x15))")
_PARAGRAPH = re.compile("[\r\x07\x0b\x0c]+")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f]")
_COMPRESSED = 0x40000000
_CONTAINER, _TAG_BLOB, _COMMENT, _STRING = 0xF, 0x138B, 0x2EE0, 0x0FBA


def of_document(word: bytes, tables: dict[str, bytes]) -> Iterator[tuple[str, str]]:
    """Yield label and text of each paragraph of a .doc outside the main text. `tables` are the streams 0table and 1table.

    Raises struct.error or IndexError if the file is damaged.
    """
    (flags,) = struct.unpack_from("<H", word, _FLAGS)
    table = tables.get("1table" if flags & _TABLE_FLAG else "0table", b"")
    counts = struct.unpack_from("<8I", word, _COUNTS)
    start, length = struct.unpack_from("<II", word, _CLX)
    text = "".join(_pieces(word, table[start : start + length]))
    at = 0
    for number, count in enumerate(counts):
        part, at = text[at : at + count], at + count
        if number in _NOT_MAIN:
            for paragraph in _PARAGRAPH.split(_without_codes(part)):
                yield _LABELS[number], " ".join(_CONTROLS.sub("", paragraph).split())


def of_slides(stream: bytes) -> Iterator[str]:
    """Yield the comments of a .ppt."""
    at, comment_end = 0, 0
    while at + 8 <= len(stream):
        version, kind, length = struct.unpack_from("<HHI", stream, at)
        at += 8
        if kind == _COMMENT:
            comment_end = at + length
        elif kind == _STRING and version >> 4 == 1 and at < comment_end:
            yield " ".join(stream[at : at + length].decode("utf-16-le", "replace").split())
        if version & _CONTAINER != _CONTAINER and kind != _TAG_BLOB:
            at += length


def _without_codes(text: str) -> str:
    """Remove field codes but keep the results of the fields."""
    while (shorter := _FIELD_CODE.sub("", text)) != text:
        text = shorter
    return text


def _pieces(word: bytes, clx: bytes) -> Iterator[str]:
    """Yield the pieces of the text in the order of the document."""
    at = 0
    while clx[at] == 1:  # skip the formatting of pieces
        at += 3 + struct.unpack_from("<H", clx, at + 1)[0]
    (size,) = struct.unpack_from("<I", clx, at + 1)
    plan = clx[at + 5 : at + 5 + size]
    number = (len(plan) - 4) // 12
    ends = struct.unpack_from(f"<{number + 1}I", plan)
    for index in range(number):
        (place,) = struct.unpack_from("<I", plan, 4 * (number + 1) + 8 * index + 2)
        length = max(ends[index + 1] - ends[index], 0)
        if place & _COMPRESSED:
            start = (place & ~_COMPRESSED) // 2
            yield word[start : start + length].decode("cp1252", "replace")
        else:
            yield word[place : place + 2 * length].decode("utf-16-le", "replace")
