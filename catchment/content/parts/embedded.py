"""The files embedded in office documents (OOXML) and attached to PDF documents."""

from __future__ import annotations

import io
import posixpath
import struct
from collections.abc import Iterator
from functools import partial
from typing import IO

from catchment.content.parts.archive_members import zip_members
from catchment.content.parts.containers import Member
from catchment.errors import ParseError

_PACKAGED = "\x01Ole10Native"


def office_members(file: IO[bytes]) -> Iterator[Member]:
    """Yield the files embedded in a package of OOXML: documents as they are, other files without their OLE wrapping."""
    for member in zip_members(file):
        folder, name = posixpath.split(member.name)
        if folder.endswith("embeddings"):
            yield _unwrapped(member) if name.endswith(".bin") else member._replace(name=name)


def pdf_members(file: IO[bytes]) -> Iterator[Member]:
    """Yield the files attached to a PDF."""
    from pypdfium2 import PdfDocument, PdfiumError

    file.seek(0)
    try:
        document = PdfDocument(file.read())
        for number in range(document.count_attachments()):
            attachment = document.get_attachment(number)
            data = bytes(attachment.get_data())
            yield Member(
                attachment.get_name() or f"file-{number + 1}", len(data), None, "", "", partial(io.BytesIO, data)
            )
    except PdfiumError as error:
        raise ParseError("the attached files of the PDF are damaged") from error


def _unwrapped(member: Member) -> Member:
    """Return a file that was embedded as an OLE object, under its own name; the object itself if it is of another kind."""
    import olefile

    name = posixpath.basename(member.name)
    try:
        with member.open() as content, olefile.OleFileIO(io.BytesIO(content.read())) as held:
            if not held.exists(_PACKAGED):
                return member._replace(name=name)
            own_name, data = _packaged(held.openstream(_PACKAGED).read())
    except Exception:  # noqa: BLE001 - olefile raises arbitrary errors for damaged files; the part itself reports them
        return member._replace(name=name)
    return Member(own_name or name, len(data), member.modified, "", "", partial(io.BytesIO, data))


def _packaged(stream: bytes) -> tuple[str, bytes]:
    """Return name and content of a packaged file (MS-OLEDS, 2.3.6): two names, a path, and the data after its size."""
    at = 6
    label, at = _text(stream, at)
    _, at = _text(stream, at)
    at += 8
    _, at = _text(stream, at)
    (size,) = struct.unpack_from("<I", stream, at)
    return posixpath.basename(label.replace("\\", "/")), stream[at + 4 : at + 4 + size]


def _text(stream: bytes, at: int) -> tuple[str, int]:
    end = stream.index(b"\0", at)
    return stream[at:end].decode("cp1252", "replace"), end + 1
