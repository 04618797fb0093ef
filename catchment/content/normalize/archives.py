"""Open zip packages within fixed limits, and decompress gzip files."""

from __future__ import annotations

import io
import zipfile
import zlib

from catchment.content.normalize.decode import is_text
from catchment.errors import ParseError, ResourceExhausted

MAX_MEMBERS = 10_000
MAX_BYTES = 512 * 1024 * 1024
MAX_INFLATED = 64 * 1024 * 1024
_RATIO, _RATIO_FROM = 200, 10 * 1024 * 1024
_DIRECTORY_ENTRY = 46
_GZIP = b"\x1f\x8b"
_PIECE = 65_536
_TOO_LARGE = (
    f"the file unpacks to more than {_RATIO} times its size or to more than {MAX_BYTES >> 20} MB (fixed limits); "
    "if you trust it, unpack it or save a smaller copy"
)
_TOO_LONG = f"the file unpacks to more than {MAX_INFLATED >> 20} MB (a fixed limit); if you trust it, unpack it"


def refuse_bomb(data: bytes) -> None:
    """Raise ResourceExhausted if a zip file would unpack to more than the limits, ParseError if it is damaged."""
    members = opened(data).infolist()
    total = sum(member.file_size for member in members)
    if total > MAX_BYTES or (total > _RATIO_FROM and total > _RATIO * len(data)):
        raise ResourceExhausted(_TOO_LARGE)


def inflated(data: bytes) -> bytes:
    """Return the content of a gzip file, of all its members (RFC 1952, 2.2).

    Raises ResourceExhausted beyond 64 MB or 10 000 members, and ParseError for a damaged file.
    """
    parts: list[bytes] = []
    room, at, members = MAX_INFLATED, 0, 0
    while not members or data.startswith(_GZIP, at):
        members += 1
        if members > MAX_MEMBERS:
            raise ResourceExhausted(
                f"the file has more than {MAX_MEMBERS:,} members (a fixed limit); if you trust it, unpack it"
            )
        machine = zlib.decompressobj(wbits=31)
        while not machine.eof:
            # In pieces, because zlib copies all data that follows a member.
            if not (piece := data[at : at + _PIECE]):
                raise ParseError("the compressed file is truncated; fetch it again")
            try:
                parts.append(machine.decompress(piece, room + 1))
            except zlib.error as error:
                raise ParseError("the compressed file is damaged; fetch it again") from error
            room -= len(parts[-1])
            if room < 0:
                raise ResourceExhausted(_TOO_LONG)
            at += len(piece) - len(machine.unused_data)
    return b"".join(parts)


def opened(data: bytes) -> zipfile.ZipFile:
    """Open a zip file. The number of its entries is checked before they are read into memory.

    Raises ParseError for a damaged file, ResourceExhausted for more than 10 000 entries.
    """
    end = data.rfind(b"PK\x05\x06")
    declared = int.from_bytes(data[end + 12 : end + 16], "little") if end >= 0 else 0
    if declared // _DIRECTORY_ENTRY > MAX_MEMBERS:
        named = data.count(b"PK\x01\x02", 0, end)
        if named > MAX_MEMBERS:
            raise ResourceExhausted(
                f"the archive has more than {MAX_MEMBERS:,} files (a fixed limit); to have them read, unpack it"
            )
    try:
        return zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, UnicodeDecodeError) as error:
        if is_text(data):
            raise ParseError("the file is text and not a zip package; change its extension to .txt") from error
        raise ParseError("the zip file is damaged; fetch or save it again") from error
