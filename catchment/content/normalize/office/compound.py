"""Compound files (OLE2), the containers of old office files.

Detects encryption, corrects workbooks for xberg, and finds content that it omits.
Formats: [MS-CFB], [MS-XLS] 2.4, [MS-DOC] 2.5.2 and [MS-PPT] 2.3.2.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator
from itertools import islice
from typing import Any

from catchment.content.normalize.office import binary_texts
from catchment.content.normalize.office.workbooks import printed
from catchment.content.normalize.packages import LOCKED
from catchment.errors import ParseError

SIGNATURE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED = ("EncryptedPackage", "EncryptedSummary", "\x09DRMContent")
_SHIFT, _TABLES = 30, 44
_WORD_FLAGS, _WORD_IS_ENCRYPTED = 10, 0x0100
_USER_TOKEN, _USER_IS_ENCRYPTED = 12, 0xF3D1C4DF
_BOF = (0x0809, 0x0409, 0x0209)
_EOF, _FILEPASS, _CONTINUE, _IGNORED = 0x0A, 0x2F, 0x3C, 0x7FFF
_CELLS = (0x0201, 0x0203, 0x0204, 0x027E, 0x00BD, 0x00FD)
"""Cell records: BLANK, NUMBER, LABEL, RK, MULRK and LABELSST."""
_HEADER, _FOOTER, _TEXT_BOX, _CHART_TEXT, _LINK = 0x14, 0x15, 0x01B6, 0x100D, 0x01B8
_BIFF8 = 0x0600
_ADDRESS = bytes.fromhex("e0c9ea79f9bace118c8200aa004ba90b")
_MOST_LINES = 10_000


def prepared(data: bytes, media_type: str) -> tuple[bytes, list[tuple[str, str]]]:
    """Return the file corrected for xberg, and pairs of label and line for text that xberg may omit.

    Raises ParseError for an encrypted file.
    """
    import olefile

    try:
        container = olefile.OleFileIO(io.BytesIO(data))
        names = {name.lower(): name for name in ("/".join(path) for path in container.listdir())}
    except Exception as error:  # olefile raises arbitrary errors for damaged files
        if _ENCRYPTED[0].encode("utf-16-le") in data:
            raise ParseError(LOCKED) from error
        return data, []
    if any(name.lower() in names for name in _ENCRYPTED) or _is_locked(container, names, media_type):
        raise ParseError(LOCKED)
    book = names.get("workbook") or names.get("book")
    if media_type != "application/vnd.ms-excel" or book is None:
        return data, _texts(container, names, media_type)
    stream = _stream(container, book)
    if any(kind == _FILEPASS for kind, _, _ in _records(stream)):
        raise ParseError(LOCKED)
    return _without_cells_of_charts(container, book, stream) or data, [("", line) for line in _lines(stream)]


def padded(data: bytes) -> bytes:
    """Return the file with empty sectors up to the end of its sector table, at most doubled; xberg refuses longer tables."""
    tables = _number(data, _TABLES, "I")
    sector = 4_096 if _number(data, _SHIFT, "H") == 12 else 512
    return data.ljust(min((1 + tables * sector // 4) * sector, 2 * len(data) + sector * sector // 4), b"\0")


def _is_locked(container: Any, names: dict[str, str], media_type: str) -> bool:
    if media_type == "application/msword" and "worddocument" in names:
        return bool(_number(_stream(container, names["worddocument"]), _WORD_FLAGS, "H") & _WORD_IS_ENCRYPTED)
    if media_type == "application/vnd.ms-powerpoint" and "current user" in names:
        return _number(_stream(container, names["current user"]), _USER_TOKEN, "I") == _USER_IS_ENCRYPTED
    return False


def _texts(container: Any, names: dict[str, str], media_type: str) -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    try:
        if media_type == "application/msword" and "worddocument" in names:
            tables: dict[str, bytes] = {
                name: _stream(container, names[name]) for name in ("0table", "1table") if name in names
            }
            lines.extend(
                islice(binary_texts.of_document(_stream(container, names["worddocument"]), tables), _MOST_LINES)
            )
        elif media_type == "application/vnd.ms-powerpoint" and "powerpoint document" in names:
            comments = binary_texts.of_slides(_stream(container, names["powerpoint document"]))
            lines.extend(("Comment: ", line) for line in islice(comments, _MOST_LINES))
    except (struct.error, IndexError):  # older than Word 97, or damaged: xberg reports it
        pass
    return [pair for pair in dict.fromkeys(lines) if pair[1]]


def _stream(container: Any, name: str) -> bytes:
    try:
        return bytes(container.openstream(name).read())
    except Exception:  # noqa: BLE001 - as above
        return b""


def _number(data: bytes, place: int, form: str) -> int:
    size = struct.calcsize(form)
    return int(struct.unpack_from(f"<{form}", data, place)[0]) if place + size <= len(data) else 0


def _records(stream: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield type, place and content of each record of a workbook."""
    place = 0
    while place + 4 <= len(stream):
        kind, length = struct.unpack_from("<HH", stream, place)
        yield kind, place, stream[place + 4 : place + 4 + length]
        place += 4 + length


def _without_cells_of_charts(container: Any, name: str, stream: bytes) -> bytes | None:
    """Return the file without the data of charts, which xberg reads as cells of the sheet; None without such data.

    The records keep their length and get a type that readers ignore.
    """
    depth, changed = 0, bytearray(stream)
    for kind, place, _ in _records(stream):
        depth += kind in _BOF
        if depth > 1 and kind in (*_BOF, _EOF, *_CELLS):
            struct.pack_into("<H", changed, place, _IGNORED)
        depth -= kind == _EOF
    if changed == stream:
        return None
    container.write_stream(name, bytes(changed))
    return bytes(container.fp.getvalue())


def _lines(stream: bytes) -> Iterator[str]:
    """Yield the text boxes, comments, chart texts, link targets and printed headers of a workbook."""
    if _number(stream, 4, "H") != _BIFF8:
        return
    box = 0
    yielded: set[str] = set()
    for kind, _, content in _records(stream):
        text = ""
        if kind == _CONTINUE and box:
            text = _characters(content, 0, box)
        elif kind == _CHART_TEXT:
            text = _characters(content, 3, _number(content, 2, "B"))
        elif kind in (_HEADER, _FOOTER):
            text = printed(_characters(content, 2, _number(content, 0, "H")))
        elif kind == _LINK and (at := content.find(_ADDRESS)) >= 0:
            size = _number(content, at + 16, "I")
            text = content[at + 20 : at + 20 + size].decode("utf-16-le", "replace").partition("\x00")[0]
        box = _number(content, 10, "H") if kind == _TEXT_BOX else 0
        line = " ".join(re.sub(r"[\x00-\x1f]", " ", text).split())
        if line and line not in yielded and len(yielded) < _MOST_LINES:
            yielded.add(line)
            yield line


def _characters(content: bytes, place: int, length: int) -> str:
    """Return a string that is preceded by a byte for its encoding."""
    is_wide = bool(_number(content, place, "B") & 1)
    raw = content[place + 1 : place + 1 + length * (2 if is_wide else 1)]
    return raw.decode("utf-16-le" if is_wide else "latin-1", "replace")
