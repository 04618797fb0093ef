"""Files that are the truth: after a power cut, a full disk or a kill each is whole, the old one or the new, under its name.

The order makes it so: the bytes reach the disk before the name leads to them, and the name does before anything relies on it.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from catchment.errors import HomeUnavailable

_FULL = "The disk is full, so nothing was written; make room and try again"
_WORN = "The disk that holds Catchment's state fails; check it, and try again"
_READ_ONLY = "The disk that holds Catchment's state is read-only; mount it for writing and try again"
_MEANINGS = {errno.ENOSPC: _FULL, errno.EDQUOT: _FULL, errno.EIO: _WORN, errno.EROFS: _READ_ONLY}


def write(path: Path, data: bytes) -> None:
    """Replace a file as a whole, mode 0600. Raises OSError; the old one is there then."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    fresh = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        put(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)


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
