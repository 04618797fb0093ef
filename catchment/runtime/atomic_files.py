"""Crash-safe files: after a power cut, a full disk or a kill, a file has either its old or its new content.

The data reaches the disk before the rename, and the rename before anything relies on it. Until then the file has a temporary
name that identifies the process writing it, so that leftovers of killed processes can be found and removed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from catchment.errors import HomeUnavailable
from catchment.runtime import process

_FULL = "The disk is full, so nothing was written; make room and try again"
_WORN = "The disk that holds Catchment's state fails; check it, and try again"
_READ_ONLY = "The disk that holds Catchment's state is read-only; mount it for writing and try again"
_MEANINGS = {errno.ENOSPC: _FULL, errno.EDQUOT: _FULL, errno.EIO: _WORN, errno.EROFS: _READ_ONLY}
TEMPORARY = ".*~*~*.unfinished*"
"""Pattern of the names of temporary files."""
_MAKER = re.compile(r"~([^~]+)~\d+\.unfinished")
OPENING = "-opening"
"""Suffix of the file with the lock of `opening`."""
_ANOTHERS_SECONDS = 86_400
"""Age after which leftovers of another machine, a container or an earlier boot are removed, counted from the last write."""


def write(path: Path, data: bytes, *, flushed: bool = True) -> None:
    """Replace a file atomically, with mode 0600. Raises OSError as `put` does.

    Not `flushed`: a power cut may leave neither content.
    """
    write_all({path: data}, flushed=flushed)


def write_all(files: Mapping[Path, bytes], *, flushed: bool = True) -> None:
    """Replace files one after the other, once the data of all is on the disk: a full disk leaves all as they were.

    Raises OSError as `put` does.
    """
    fresh = {unfinished(path): path for path in files}
    try:
        for new, path in fresh.items():
            with open(new, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                file.write(files[path])
        for new in [*fresh][1:] if flushed else ():
            flush(new)  # `put` flushes the first one before its rename
        for new, path in fresh.items():
            if flushed:
                put(new, path)
            else:
                new.replace(path)
    finally:
        for new in fresh:
            new.unlink(missing_ok=True)


def unfinished(path: Path) -> Path:
    """Return an unused temporary name beside `path`, unique to this thread, for a file or folder to be renamed later.

    Also removes the temporary files that killed processes left in the folder. Raises OSError.
    """
    for left in path.parent.glob(TEMPORARY):
        # In a shared folder, each user can remove only their own files.
        with suppress(PermissionError):
            if _is_left(left):
                remove(left)
    return path.with_name(f".{path.name}~{process.identity()}~{threading.get_ident()}.unfinished")


def _is_left(file: Path) -> bool:
    named = _MAKER.search(file.name)
    if named is None or process.alive(named[1]):
        return False
    with suppress(FileNotFoundError):
        return process.is_local(named[1]) or time.time() - file.stat().st_mtime > _ANOTHERS_SECONDS
    return False


def remove(path: Path) -> None:
    """Remove a file or a folder tree. Idempotent. Raises OSError."""
    with suppress(FileNotFoundError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def put(fresh: Path, path: Path) -> None:
    """Flush `fresh` to disk and rename it to `path`, replacing any existing file.

    Raises OSError. There is no new file then; an old one is in place, or replaced if only the flush of its folder failed.
    """
    is_new = not path.exists()
    flush(fresh)
    fresh.replace(path)
    try:
        flush(path.parent)
    except OSError:
        if is_new:
            # Where a file must not exist, the next attempt would be refused.
            path.unlink()
        raise


def flush(path: Path) -> None:
    """Flush a file's data or a folder's entries to disk. Raises OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network file systems do not support fsync on a folder.
        if error.errno != errno.EINVAL or not path.is_dir():
            raise
    finally:
        os.close(handle)


@contextmanager
def explained() -> Iterator[None]:
    """Translate disk errors into HomeUnavailable with a remedy."""
    try:
        yield
    except OSError as error:
        if (meaning := _MEANINGS.get(error.errno or 0)) is None:
            raise
        raise HomeUnavailable(meaning) from error


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold an advisory lock on a folder for the duration of the block. Excludes other callers on this machine."""
    # Locking the folder itself leaves no lock file behind.
    with _locked(folder, os.O_RDONLY, fcntl.LOCK_EX):
        yield


@contextmanager
def opening(file: Path, *, alone: bool = False) -> Iterator[None]:
    """Hold the lock for opening a database file: shared, to open it, or `alone`, to replace it.

    SQLite finds the log of a database by its name. A process that opened the replaced file would create its log, and use it,
    beside the new one.
    """
    with _locked(
        file.with_name(file.name + OPENING), os.O_RDONLY | os.O_CREAT, fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    ):
        yield


@contextmanager
def _locked(path: Path, flags: int, kind: int) -> Iterator[None]:
    with ExitStack() as held:
        # Some network file systems have no locks, and a read-only disk needs none.
        with suppress(OSError):
            descriptor = os.open(path, flags, 0o600)
            held.callback(os.close, descriptor)
            fcntl.flock(descriptor, kind)
        yield
