"""Single files under a root: their names as locators, their fingerprints, and how they are read without leaving the root.

What changed in a whole tree is `connectors.folders.tree`.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import os
import re
import signal
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from catchment.errors import AccessDenied, FetchFailed, ItemError, SourceUnavailable, StillChanging, Vanished
from connectors.folders.ignore import NO_FILE, UnknownRules

_READ_SIZE = 1 << 20
_STILL_WRITING = 2_000_000_000
"""Nanoseconds after its last write in which a file that is open for writing is taken to be half-written."""
_REFUSED = (errno.EACCES, errno.EPERM)

# A byte that is not UTF-8 is written as the replacement character and two hexadecimal digits, so that a locator is valid
# Unicode, readable, and leads back to the file. A replacement character that really is in a name is written twice.
_MARK = "\ufffd"
_UNSTORABLE = re.compile("[\udc80-\udcff\ufffd]")
_ESCAPED = re.compile("\ufffd(\ufffd|[0-9a-f]{2})")


class FileEntry(NamedTuple):
    """What one stat call says of a file; `mode` has its type."""

    name: str
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    mode: int

    @property
    def fingerprint(self) -> str:
        """Differs after every change of the file that its file system can show."""
        return f"{self.inode:x}.{self.size:x}.{self.mtime_ns:x}.{self.ctime_ns:x}"

    @property
    def modified(self) -> datetime | None:
        """When the file was last written; None for a time that no calendar has."""
        try:
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self.mtime_ns // 1000)
        except OverflowError:
            return None

    @classmethod
    def of(cls, name: str, found: os.stat_result) -> FileEntry:
        return cls(name, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode)


def to_locator(path: str) -> str:
    """The locator of a path relative to the root, as `os` spells it."""
    if path.isascii():
        return path
    return _UNSTORABLE.sub(lambda found: _MARK + (_MARK if found[0] == _MARK else f"{ord(found[0]) - 0xDC00:x}"), path)


def to_path(locator: str) -> str:
    """The path that `to_locator` made a locator of."""
    if locator.isascii():
        return locator
    return _ESCAPED.sub(lambda found: _MARK if found[1] == _MARK else chr(0xDC00 + int(found[1], 16)), locator)


def identity(entry: FileEntry, path: str) -> str:
    """What stays the same when a file is moved or renamed, and differs for every other file.

    An inode number alone is not enough: it is given to the next new file as soon as the old one is deleted. The time of birth
    tells the two apart. Size and time of writing are part of it too, so that a file that was moved *and* edited is read again.
    The device is left out: its number changes with every remount.
    """
    return f"{entry.inode:x}.{entry.size:x}.{entry.mtime_ns:x}.{birth_time(path, entry.inode):x}"


def item_error(error: OSError) -> ItemError:
    """What an operating system's refusal means for one item."""
    if isinstance(error, UnknownRules):
        # One that is too long stays so: another try would only tell less.
        return (AccessDenied if error.errno in (*_REFUSED, errno.EFBIG) else FetchFailed)(str(error))
    what = os.strerror(error.errno or errno.EIO).lower()
    if error.errno in _REFUSED:
        return AccessDenied(f"it may not be read ({what}); change its mode or owner, and the next sync takes it up")
    if error.errno in NO_FILE:
        return Vanished("it went away before it was read; the next sync decides what that means")
    return FetchFailed(f"it could not be read ({what}); check the disk if this stays")


@contextmanager
def opened(root: Path, locator: str, fingerprint: str, *, follow_links: bool) -> Iterator[tuple[int, FileEntry]]:
    """Open a file for reading and hold it to its fingerprint, before the body runs and after.

    No link leads out of the root, whoever swaps a folder for one meanwhile. Raises Vanished, AccessDenied, FetchFailed,
    StillChanging when the fingerprint is another one or a program is writing it, and SourceUnavailable when the root is gone.
    """
    name = locator.rpartition("/")[2]
    try:
        handle = _open_below(root, to_path(locator), follow_links=follow_links)
    except OSError as error:
        raise item_error(error) from error
    try:
        entry = FileEntry.of(name, os.fstat(handle))
        if entry.fingerprint != fingerprint:
            raise StillChanging("it changed after it was listed; the next sync takes the new version")
        _let_clock_tick(entry)
        if _is_being_written(handle, entry):
            raise StillChanging("a program is writing it; the sync after that takes it")
        yield handle, entry
        if FileEntry.of(name, os.fstat(handle)).fingerprint != fingerprint:
            raise StillChanging("it changed while it was read; it is tried again when it is quiet")
    except OSError as error:
        raise item_error(error) from error
    finally:
        os.close(handle)


def read_all(handle: int, size: int) -> bytes:
    """The content of an open file; a byte more than `size` if it has grown, never all of an endless one."""
    parts: list[bytes] = []
    left = size + 1
    while left > 0 and (part := os.read(handle, min(left, _READ_SIZE))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def sha256(handle: int) -> str:
    """The hash of an open file's content, in hexadecimal."""
    digest = hashlib.sha256()
    while part := os.read(handle, _READ_SIZE):
        digest.update(part)
    return digest.hexdigest()


def _open_below(root: Path, path: str, *, follow_links: bool) -> int:
    """Open a regular file below the root, folder by folder, so that no part of the way can be a link."""
    if follow_links:
        root = Path(os.path.realpath(root))
        real = Path(os.path.realpath(root / path))
        if not real.is_relative_to(root):
            raise OSError(errno.ELOOP, "leads out of the root")
        path = str(real.relative_to(root))
    parts = path.split("/")
    if not {"", ".", ".."}.isdisjoint(parts):
        raise OSError(errno.ENOENT, "not a path below the root")
    way = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        folder = os.open(root, way & ~os.O_NOFOLLOW)
    except OSError as error:
        raise SourceUnavailable(gone(to_locator(root.name))) from error
    try:
        for part in parts[:-1]:
            deeper = os.open(part, way, dir_fd=folder)
            os.close(folder)
            folder = deeper
        # A FIFO that took the place of the file must not block the open.
        return _regular(os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder))
    finally:
        os.close(folder)


def gone(name: str) -> str:
    """The message for a root that is not there."""
    return f"the folder {name!r} is not there; mount its disk, or correct `root` of the source"


def _regular(handle: int) -> int:
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise OSError(errno.ENXIO, "not a regular file")


def _let_clock_tick(entry: FileEntry) -> None:
    """Wait until a later write is bound to show in the file's times.

    File systems stamp with the time of their last tick: 10 ms at most on the common ones, 1 or 2 s where times are whole
    seconds. A file that is read within the tick of its last write could be written again without a trace; read after it, it
    cannot. A time far ahead of the clock is left alone: no wait would help.
    """
    now = time.time_ns()
    for stamp in (entry.mtime_ns, entry.ctime_ns):
        tick = 20_000_000 if stamp % 1_000_000_000 else 2_000_000_000
        if -2_000_000_000 < now - stamp < tick:
            time.sleep(min(stamp + tick - now, 2_000_000_000) / 1e9)
            now = time.time_ns()


def _is_being_written(handle: int, entry: FileEntry) -> bool:
    """Whether a program has the file open for writing, and wrote only now; a log that is merely kept open is let through."""
    if not hasattr(fcntl, "F_SETLEASE") or abs(time.time_ns() - entry.mtime_ns) > _STILL_WRITING:
        return False
    try:
        # The system grants a lease for reading only while nobody has the file open for writing. Who opens it in the moment
        # that the lease is held waits for its end, and the signal that tells of them would kill by default.
        fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        # Another refusal means that it cannot be told: another's file, or a disk without leases.
        return error.errno == errno.EAGAIN
    return False


_STATX_SIZE = 256
_STATX_BTIME = 0x800
_AT_FDCWD = -100
_AT_SYMLINK_NOFOLLOW = 0x100
_libc = ctypes.CDLL(None)
_statx = getattr(_libc, "statx", None)
_STATFS_SIZE = 512
_FAT, _EXFAT = 0x4D44, 0x2011BAB0


def file_system(path: str | Path) -> int | None:
    """The number that Linux has for the file system that a path is on (statfs(2)); None if the system cannot tell."""
    if not sys.platform.startswith("linux"):
        return None
    answer = ctypes.create_string_buffer(_STATFS_SIZE)
    if _libc.statfs(os.fsencode(path), answer):
        return None
    # The first field is a long on every common Linux.
    return ctypes.c_long.from_buffer(answer).value & 0xFFFFFFFF


def tells_every_change(path: str | Path) -> bool:
    """Whether the file system under a path notes when a file was last changed, so that nobody can set that back."""
    return file_system(path) not in (_FAT, _EXFAT)


def birth_time(path: str, inode: int) -> int:
    """When the file was made, in nanoseconds; 0 where the system cannot tell. Python's own stat leaves it out on Linux."""
    if _statx is None:
        try:
            return int(getattr(os.lstat(path), "st_birthtime", 0) * 1_000_000_000)
        except OSError:
            return 0
    answer = ctypes.create_string_buffer(_STATX_SIZE)
    if _statx(_AT_FDCWD, os.fsencode(path), _AT_SYMLINK_NOFOLLOW, _STATX_BTIME, answer):
        return 0
    raw = memoryview(answer).cast("B")
    mask, found = int.from_bytes(raw[0:4], "little"), int.from_bytes(raw[32:40], "little")
    if not mask & _STATX_BTIME or found != inode:
        return 0
    seconds, nanoseconds = int.from_bytes(raw[80:88], "little", signed=True), int.from_bytes(raw[88:92], "little")
    return seconds * 1_000_000_000 + nanoseconds
