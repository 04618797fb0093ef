"""Single files below a root: locators, fingerprints, identities, and reading without leaving the root.

Comparing whole trees is in `connectors.folders.diff`.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from catchment.errors import AccessDenied, FetchFailed, ItemError, SourceUnavailable, StillChanging, Vanished
from catchment.runtime.files_below import open_below, open_folder
from catchment.runtime.system.linux import birth_time, file_system, is_open_for_writing
from connectors.folders.ignore import NO_FILE, UnknownRules

_READ_SIZE = 1 << 20
_STILL_WRITING = 2_000_000_000
"""Nanoseconds after its last write during which a file that is open for writing counts as incomplete."""
_TICK, _LONGEST_TICK = 20_000_000, 2_000_000_000
_REFUSED = (errno.EACCES, errno.EPERM)

# A byte that is not UTF-8 becomes U+FFFD and two hexadecimal digits, so that a locator is valid Unicode, readable and
# reversible. A real U+FFFD in a name is doubled.
_MARK = "\ufffd"
_UNSTORABLE = re.compile("[\udc80-\udcff\ufffd]")
_ESCAPED = re.compile("\ufffd(\ufffd|[0-9a-f]{2})")


class FileEntry(NamedTuple):
    """The result of one stat call on a file. `mode` includes the file type."""

    name: str
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    mode: int

    @property
    def fingerprint(self) -> str:
        """A string that differs after every change that the file system records."""
        return f"{self.inode:x}.{self.size:x}.{self.mtime_ns:x}.{self.ctime_ns:x}"

    @property
    def modified(self) -> datetime | None:
        """The time of the last write; None if it is outside the range of `datetime`."""
        try:
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self.mtime_ns // 1000)
        except OverflowError:
            return None

    @classmethod
    def of(cls, name: str, status: os.stat_result) -> FileEntry:
        return cls(name, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode)


def to_locator(path: str) -> str:
    """Return the locator for a path relative to the root, as spelled by `os`."""
    if path.isascii():
        return path
    return _UNSTORABLE.sub(lambda match: _MARK + (_MARK if match[0] == _MARK else f"{ord(match[0]) - 0xDC00:x}"), path)


def to_path(locator: str) -> str:
    """Return the path for a locator; the inverse of `to_locator`."""
    if locator.isascii():
        return locator
    return _ESCAPED.sub(lambda match: _MARK if match[1] == _MARK else chr(0xDC00 + int(match[1], 16)), locator)


def identity(entry: FileEntry, path: str) -> str | None:
    """Return a string that survives a move or rename and differs for every other file; None if it is no longer there.

    An inode number alone is reused for the next new file after a deletion; the birth time distinguishes the two. Size
    and modification time are included so that a file that was moved *and* edited is read again. The device is left out:
    its number changes with every remount.
    """
    born = birth_time(path, entry.inode)
    if not born and _inode(path) != entry.inode:
        return None
    return f"{entry.inode:x}.{entry.size:x}.{entry.mtime_ns:x}.{born:x}"


def is_at(path: str, identity: str) -> bool:
    """Return whether the file of this identity is at a path, possibly edited since."""
    inode, _, _, born = identity.split(".")
    present = _inode(path)
    return present is not None and f"{present:x}" == inode and f"{birth_time(path, present):x}" == born


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino  # noqa: PTH116 - half the time of a Path
    except OSError:
        return None


def item_error(error: OSError) -> ItemError:
    """Convert an error of the operating system to the ItemError for one item."""
    if isinstance(error, UnknownRules):
        # A file over the size limit fails until it is edited: retrying is useless.
        return (AccessDenied if error.errno in (*_REFUSED, errno.EFBIG) else FetchFailed)(str(error))
    what = os.strerror(error.errno or errno.EIO).lower()
    if error.errno in _REFUSED:
        return AccessDenied(f"{what}; change its mode or owner, then sync again")
    if error.errno == errno.EEXIST:
        return AccessDenied("its files would have the addresses of those inside of the archive beside it; rename it")
    if error.errno in NO_FILE:
        return Vanished("removed before it was read; the next sync checks whether it was moved or deleted")
    if error.errno == errno.ENAMETOOLONG:
        return FetchFailed("the path is too long for the system; shorten the names of its folders")
    return FetchFailed(f"read error ({what}); check the disk if it persists")


@contextmanager
def opened(root: Path, locator: str, fingerprint: str, *, follow_links: bool) -> Iterator[tuple[int, FileEntry]]:
    """Open a regular file for reading and verify its fingerprint before and after the body runs.

    Symbolic links cannot lead out of the root, even if a folder is replaced by a link at the same time. Raises
    Vanished, AccessDenied, FetchFailed, StillChanging if the fingerprint differs or a program is writing the file, and
    SourceUnavailable if the root is missing.
    """
    name = locator.rpartition("/")[2]
    try:
        handle = _open_below(root, to_path(locator), follow_links=follow_links)
    except OSError as error:
        raise item_error(error) from error
    try:
        entry = FileEntry.of(name, os.fstat(handle))
        if entry.fingerprint != fingerprint:
            raise StillChanging("changed since it was listed; the next sync reads the new version")
        let_clock_tick(entry.mtime_ns, entry.ctime_ns)
        if _is_being_written(handle, entry):
            raise StillChanging("still being written by a program; a later sync reads it")
        yield handle, entry
        if FileEntry.of(name, os.fstat(handle)).fingerprint != fingerprint:
            raise StillChanging("changed while it was read; it will be retried")
    except OSError as error:
        raise item_error(error) from error
    finally:
        os.close(handle)


def read_all(handle: int, size: int) -> bytes:
    """Return the content of an open file: at most `size` + 1 bytes, even if the file has grown or is endless."""
    parts: list[bytes] = []
    left = size + 1
    while left > 0 and (part := os.read(handle, min(left, _READ_SIZE))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def sha256(handle: int) -> str:
    """Return the hexadecimal SHA-256 of an open file."""
    digest = hashlib.sha256()
    while part := os.read(handle, _READ_SIZE):
        digest.update(part)
    return digest.hexdigest()


def _open_below(root: Path, path: str, *, follow_links: bool) -> int:
    """Open a regular file below the root, folder by folder, so that no component of the path can be a link."""
    if follow_links:
        root = Path(os.path.realpath(root))
        real = Path(os.path.realpath(root / path))
        if not real.is_relative_to(root):
            raise OSError(errno.ELOOP, "leads out of the root")
        path = str(real.relative_to(root))
    try:
        folder = open_folder(root)
    except OSError as error:
        raise SourceUnavailable(missing_root(to_locator(root.name))) from error
    return open_below(folder, path)


def missing_root(name: str) -> str:
    """Return the message for a missing root."""
    return f"folder {name!r}: not found; mount its disk, or move it back; else correct `root` in sources.yaml"


def let_clock_tick(*times: int) -> None:
    """Wait until any later change of a file or folder is sure to change these times of it."""
    if left := until_tick(*times):
        time.sleep(left / 1e9)


def until_tick(*times: int) -> int:
    """Return the nanoseconds until any later change of a file or folder is sure to change these times of it.

    File systems round times to their last clock tick: at most 10 ms on common ones, 1 or 2 s where times are whole
    seconds. A file that is read in the same tick as its last write could be written again without any change of its
    times. Times far in the future are ignored: waiting would not help.
    """
    now = time.time_ns()
    near = [moment for moment in times if now - moment > -_LONGEST_TICK]
    ends = [moment + (_TICK if moment % 1_000_000_000 else _LONGEST_TICK) for moment in near]
    return min(max([now, *ends]) - now, _LONGEST_TICK)


def _is_being_written(handle: int, entry: FileEntry) -> bool:
    """Return whether a program has the file open for writing and wrote recently.

    An idle log file that is open does not count.
    """
    return abs(time.time_ns() - entry.mtime_ns) <= _STILL_WRITING and is_open_for_writing(handle)


_FAT, _EXFAT = 0x4D44, 0x2011BAB0


def has_change_times(path: str | Path) -> bool:
    """Return whether the file system of a path records change times (ctime), which programs cannot set back."""
    return file_system(path) not in (_FAT, _EXFAT)
