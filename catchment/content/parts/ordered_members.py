"""The members of 7z and rar archives and others that libarchive reads. It has one entry at a time, in their order."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ctypes import c_char, c_int, c_void_p
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import IO, Any

from catchment.content.parts.archive_members import IS_DAMAGED, IS_ENCRYPTED
from catchment.content.parts.containers import Member
from catchment.errors import ParseError

_SEVEN, _HEADER = "application/x-7z-compressed", 32
FORMATS = {
    _SEVEN: ("7zip", "none"),
    "application/vnd.rar": ("rar", "none"),
    "application/zstd": ("tar", "zstd"),
    "application/x-lzip": ("tar", "lzip"),
    "application/vnd.ms-cab-compressed": ("cab", "none"),
    "application/x-cpio": ("cpio", "none"),
}
"""Format and compression by type. One each: among all formats are some that name other files of the machine."""
_RAR5 = b"Rar!\x1a\x07\x01"
_MISSING = (
    'libarchive is not installed; run: pip install "catchment[archives]", and on Debian: apt install libarchive13'
)
_BLOCK = 1 << 16


def ordered_members(file: IO[bytes], kind: str) -> Iterator[Member]:
    """Yield the files of an archive. Raises ParseError if it is damaged or encrypted, or if libarchive is missing."""
    archive = _Archive(file, kind)
    for number in count():
        if (entry := archive.go_to(number)) is None:
            if number == 0 and kind == _SEVEN and file.seek(0, os.SEEK_END) > _HEADER:
                raise ParseError(IS_DAMAGED)  # its writing was interrupted: the header is written last
            return
        if entry.isreg and not entry.islnk:
            name = entry.pathname or ""
            name = name.decode("utf-8", "replace") if isinstance(name, bytes) else name
            modified = datetime.fromtimestamp(entry.mtime, UTC) if 0 < (entry.mtime or 0) < 1 << 33 else None
            problem = IS_ENCRYPTED if archive.is_encrypted(entry) else ""
            yield Member(name, entry.size or 0, modified, "", problem, partial(archive.content, number))


class _Archive:
    """An archive with one current entry. It is opened again for an earlier entry, and for one that was read."""

    def __init__(self, file: IO[bytes], kind: str) -> None:
        try:
            import libarchive
        except (
            ImportError,
            OSError,
            AttributeError,
            TypeError,
        ) as error:  # the latter two: without the system's library
            raise ParseError(_MISSING) from error
        logging.getLogger("libarchive").setLevel(logging.ERROR)
        self._libarchive: Any = libarchive
        self._has_encrypted = libarchive.ffi.ffi("read_has_encrypted_entries", [c_void_p], c_int)
        self._is_encrypted = libarchive.ffi.ffi("entry_is_encrypted", [c_void_p], c_int)
        self._file, self._kind = file, kind
        self._opened, self._next = ExitStack(), 0
        self._entry: Any = None
        self._pointer: Any = None
        self._entries: Iterator[Any] = iter(())
        self._open()

    def go_to(self, number: int) -> Any:
        """Return an entry by its number; None after the last one."""
        if number < self._next - (self._entry is not None):
            self._open()
        while self._next <= number:
            with self._readable():
                self._entry = next(self._entries, None)
            self._next += 1
        return self._entry

    def content(self, number: int) -> IO[bytes]:
        """Open the content of an entry."""
        self.go_to(number)
        self._entry = None
        return io.BufferedReader(_Content(self.read), _BLOCK)

    def read(self, buffer: Any) -> int:
        """Read the next bytes of the current entry."""
        with self._readable():
            size = len(buffer)
            return int(self._libarchive.ffi.read_data(self._pointer, (c_char * size).from_buffer(buffer), size))

    def is_encrypted(self, entry: Any) -> bool:
        """Return whether the content of an entry is encrypted."""
        return bool(self._is_encrypted(entry._entry_p))

    def _open(self) -> None:
        self._opened.close()
        self._file.seek(0)
        layout, compression = FORMATS[self._kind]
        layout += "5" if self._file.read(len(_RAR5)) == _RAR5 else ""
        self._file.seek(0)
        self._next, self._entry, self._pointer = 0, None, None
        with self._readable():
            archive = self._opened.enter_context(
                self._libarchive.stream_reader(self._file, layout, compression, _BLOCK)
            )
        self._entries, self._pointer = iter(archive), archive._pointer

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except self._libarchive.ArchiveError as error:
            is_encrypted = self._pointer is not None and self._has_encrypted(self._pointer) == 1
            raise ParseError(IS_ENCRYPTED if is_encrypted else IS_DAMAGED) from error


class _Content(io.RawIOBase):
    def __init__(self, read: Any) -> None:
        self._read = read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return int(self._read(buffer))
