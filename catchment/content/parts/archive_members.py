"""The members of zip and tar files. Nothing is unpacked to disk under a name of the archive."""

from __future__ import annotations

import io
import os
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from tarfile import BLOCKSIZE, EmptyHeaderError, EOFHeaderError, HeaderError, ReadError  # type: ignore[attr-defined]
from typing import IO, Self

from catchment.content.normalize.decode import decode
from catchment.content.parts.containers import Member
from catchment.errors import ParseError

_NAME_SIZE = 26
_ENCRYPTED, _UTF8, _FOLDER = 0x1, 0x800, 0x10
_UNSURE = 0.1
_DOS_LETTERS = re.compile(rb"[\x80-\xa7]")
"""Bytes that are letters with accents in the code pages of DOS, in which Windows names files in archives; in cp1252 signs."""
IS_ENCRYPTED = "encrypted; unpack it with its password"
IS_DAMAGED = "the archive is damaged or of an unknown kind; fetch or save it again"
_DAMAGE = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, ValueError, EOFError, NotImplementedError, OSError, RuntimeError
)  # fmt: skip


def zip_members(file: IO[bytes]) -> Iterator[Member]:
    """Yield the files of a zip file. Raises ParseError if it is damaged."""
    with readable():
        held = zipfile.ZipFile(file)
    infos = [
        info
        for info in held.infolist()
        if not info.is_dir() and not (info.external_attr & _FOLDER and not info.file_size)
    ]
    for info, name in zip(infos, _names(infos), strict=True):
        mark = f"{info.CRC:08x}.{info.file_size:x}"
        problem = IS_ENCRYPTED if info.flag_bits & _ENCRYPTED else ""
        yield Member(
            name, info.file_size, _moment(info.date_time), mark, problem, partial(_zip_content, held, info, file)
        )


def tar_members(file: IO[bytes]) -> Iterator[Member]:
    """Yield the files of a tar file, also of a compressed one. Raises ParseError if it is damaged."""
    file.seek(0)
    with readable():
        # Its members are read later.
        held = tarfile.open(fileobj=file, mode="r:*", tarinfo=_TarHeader)  # noqa: SIM115
    while True:
        with readable():
            info = held.next()
        if info is None:
            return
        if info.isfile():
            modified = datetime.fromtimestamp(info.mtime, UTC) if 0 < info.mtime < 1 << 33 else None
            yield Member(info.name, info.size, modified, "", "", partial(_tar_content, held, info))


class _TarHeader(tarfile.TarInfo):
    """The header of a file in a tar file. `tarfile` takes a damaged one, and a single block of zeros, for the end."""

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile)
        except EmptyHeaderError:  # some programs write no end mark
            raise
        except EOFHeaderError as error:
            if any(tarfile.fileobj.read(BLOCKSIZE)):
                raise ReadError(str(error)) from error
            raise
        except HeaderError as error:
            raise ReadError(str(error)) from error


@contextmanager
def readable() -> Iterator[None]:
    """Turn the errors of damaged archives into a ParseError."""
    try:
        yield
    except NotImplementedError as error:
        raise ParseError("compressed with a method that is not supported; unpack it") from error
    except _DAMAGE as error:
        raise ParseError(IS_DAMAGED) from error


def _zip_content(held: zipfile.ZipFile, info: zipfile.ZipInfo, file: IO[bytes]) -> IO[bytes]:
    """Open a file, also if its name before the content is not that in the directory, which `zipfile` refuses."""
    file.seek(info.header_offset + _NAME_SIZE)
    size = int.from_bytes(file.read(2), "little")
    file.seek(2, os.SEEK_CUR)
    info.orig_filename = file.read(size).decode("utf-8" if info.flag_bits & _UTF8 else "cp437")
    return held.open(info)


def _tar_content(held: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    return held.extractfile(info) or io.BytesIO()


def _names(infos: Sequence[zipfile.ZipInfo]) -> Sequence[str]:
    """Return the names. Those without the flag for UTF-8 are decoded together."""
    raw = [info.orig_filename.encode("cp437", "replace") for info in infos if not info.flag_bits & _UTF8]
    if not raw or all(map(bytes.isascii, raw)):
        return [info.filename for info in infos]
    names = b"\n".join(name.replace(b"\n", b"_") for name in raw)
    guess = decode(names)
    if guess.properties.get("encoding-confidence", 1) < _UNSURE:
        text = names.decode("cp850" if _DOS_LETTERS.search(names) else "cp1252", "replace")
    else:
        text = guess.text
    decoded = iter(text.split("\n"))
    return [info.filename if info.flag_bits & _UTF8 else next(decoded, info.filename) for info in infos]


def _moment(written: tuple[int, int, int, int, int, int]) -> datetime | None:
    """Return a time of a zip file, which is local without a zone; 1980 stands for none."""
    try:
        return datetime(*written, tzinfo=UTC) if written[0] > 1980 else None
    except ValueError:
        return None
