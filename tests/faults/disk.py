"""Inject disk faults into other processes with a preloaded C library, compiled at test time."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

_SOURCE = Path(__file__).with_name("disk.c")
_NUMBERS = struct.Struct("8q")
_FOLDER, _WORD, _NOTES = 512, 64, 1 << 20
_BYTES = _NUMBERS.size + _FOLDER + _WORD + _NOTES
_FOR_EVER = 1 << 40


@dataclass(frozen=True, slots=True)
class Fault:
    """From operation number `at` on (0: never), `many` operations fail with `error`.

    With `half`, the first of them, if it is a write, writes only half. Reads fail if the path contains `unreadable`.
    """

    at: int = 0
    many: int = _FOR_EVER
    error: int = errno.ENOSPC
    half: bool = False
    unreadable: str = ""

    @classmethod
    def full(cls, at: int) -> Fault:
        """The disk fills up: one write is cut in half, and all later writes fail."""
        return cls(at, half=True)

    @classmethod
    def broken_once(cls, at: int) -> Fault:
        """One operation fails with an I/O error."""
        return cls(at, many=1, error=errno.EIO)

    @classmethod
    def broken(cls, at: int) -> Fault:
        """All operations fail with I/O errors from now on."""
        return cls(at, error=errno.EIO)

    @classmethod
    def unreadable_at(cls, word: str) -> Fault:
        """Reads of files with this word in their path fail with I/O errors."""
        return cls(error=errno.EIO, unreadable=word)


@dataclass(frozen=True, slots=True)
class Note:
    """One operation on a file below the folder: `open` to write, `write`, `cut`, `flush`, `rename`, `link` or `mkdir`."""

    what: str
    file: str


class BadDisk:
    """The disk below `folder`, for all processes started with `variables`, and for their children."""

    def __init__(self, orders: Path, library: Path | None = None) -> None:
        handle = os.open(orders, os.O_RDWR)
        try:
            self._shared = mmap.mmap(handle, _BYTES)
        finally:
            os.close(handle)
        self.variables = {"BAD_DISK_ORDERS": str(orders), "LD_PRELOAD": str(library or "")}

    @classmethod
    def make(cls, folder: Path) -> BadDisk:
        """Return a disk without faults and put its files into `folder`. Needs a C compiler."""
        compiler = shutil.which("cc")
        assert compiler, "the disk is a small library in C; install gcc and libc6-dev"
        library, orders = folder / "disk.so", folder / "orders"
        subprocess.run([compiler, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, _SOURCE], check=True)
        orders.write_bytes(bytes(_BYTES))
        return cls(orders, library)

    def order(self, folder: Path, fault: Fault) -> None:
        """Reset the counter and inject this fault below this folder."""
        path, word = f"{folder}/".encode(), fault.unreadable.encode()
        assert len(path) < _FOLDER and len(word) < _WORD
        # Suspend counting while the orders change.
        self._put(False, 0, 0, 0, False)
        self._shared[_NUMBERS.size :] = path.ljust(_FOLDER, b"\0") + word.ljust(_WORD, b"\0") + bytes(_NOTES)
        self._put(True, fault.at, fault.many, fault.error, fault.half)

    def heal(self) -> None:
        """Stop injecting faults; the counts remain."""
        self._shared[: _NUMBERS.size] = _NUMBERS.pack(*[0] * 5, *self._numbers()[5:])

    @property
    def struck(self) -> int:
        """Return the number of failed operations since the last order."""
        return int(self._numbers()[6])

    @property
    def notes(self) -> list[Note]:
        """Return the operations since the last order."""
        noted = self._numbers()[7]
        assert noted < _NOTES, "more was done than can be noted; do less at a time"
        begin = _NUMBERS.size + _FOLDER + _WORD
        lines = self._shared[begin : begin + noted].decode("utf-8", "replace").splitlines()
        return [Note(what, file) for what, _, file in (line.partition(" ") for line in lines)]

    def _numbers(self) -> tuple[int, ...]:
        return _NUMBERS.unpack(self._shared[: _NUMBERS.size])

    def _put(self, *orders: int) -> None:
        self._shared[: _NUMBERS.size] = _NUMBERS.pack(*orders, 0, 0, 0)
