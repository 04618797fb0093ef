"""Files that are the truth: after a power cut, a full disk or a kill each is whole, the old one or the new, under its name.

The order makes it so: the bytes reach the disk before the name leads to them, and the name does before anything relies on it.
Until then a file has a name that tells which process makes it, so that what a killed process left is known and removed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from catchment.errors import HomeUnavailable
from catchment.runtime import process

_FULL = "The disk is full, so nothing was written; make room and try again"
_WORN = "The disk that holds Catchment's state fails; check it, and try again"
_READ_ONLY = "The disk that holds Catchment's state is read-only; mount it for writing and try again"
_MEANINGS = {errno.ENOSPC: _FULL, errno.EDQUOT: _FULL, errno.EIO: _WORN, errno.EROFS: _READ_ONLY}
_MAKER = re.compile(r"~([^~]+)~\d+\.unfinished")
_ANOTHERS_SECONDS = 86_400
"""What a process of another machine, or of an earlier boot, makes is let be for so long after it was last written."""


def write(path: Path, data: bytes) -> None:
    """Replace a file as a whole, mode 0600. Raises OSError; the old one is there then."""
    fresh = unfinished(path)
    try:
        with open(fresh, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(data)
        put(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)


def unfinished(path: Path) -> Path:
    """A name beside a file, or a folder, for what is to become it: this thread's own, with nothing there yet.

    What killed processes left behind in the folder by such names is removed. Raises OSError.
    """
    for left in path.parent.glob(".*~*~*.unfinished*"):
        # In a folder of several people each clears away what is theirs.
        with suppress(PermissionError):
            if _is_left(left):
                remove(left)
    return path.with_name(f".{path.name}~{process.identity()}~{threading.get_ident()}.unfinished")


def _is_left(found: Path) -> bool:
    named = _MAKER.search(found.name)
    if named is None or process.alive(named[1]):
        return False
    with suppress(FileNotFoundError):
        return process.is_of_this_boot(named[1]) or time.time() - found.stat().st_mtime > _ANOTHERS_SECONDS
    return False


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that is in it; may be called again. Raises OSError."""
    with suppress(FileNotFoundError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def put(fresh: Path, path: Path) -> None:
    """Have a finished file take the name of another one, which may be there, in the same folder or another. Raises OSError."""
    flush(fresh)
    fresh.replace(path)
    flush(path.parent)


def flush(path: Path) -> None:
    """Wait until a file's bytes, or the names in a folder, are on the disk. Raises OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network disks cannot do so for a folder.
        if error.errno != errno.EINVAL or not path.is_dir():
            raise
    finally:
        os.close(handle)


@contextmanager
def explained() -> Iterator[None]:
    """Raise HomeUnavailable, with the remedy, in place of what the disk refuses."""
    try:
        yield
    except OSError as error:
        if (said := _MEANINGS.get(error.errno or 0)) is None:
            raise
        raise HomeUnavailable(said) from error


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Within this block nobody else on this machine who asks for it too changes what is in a folder."""
    with ExitStack() as held:
        # Some network disks know no such locks. A folder is there already, and nothing is left behind in it.
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY)
            held.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
