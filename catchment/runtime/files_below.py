"""Open files below a folder without leaving it: no part of a path may be a link, even one that was put there meanwhile.

Apart from both users, the connectors of folders and the web process, which may not import each other.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from catchment.runtime.system.linux import PATH_ONLY

_WAY = PATH_ONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""A FIFO that took the place of the file must not block the open."""


def open_folder(path: Path) -> int:
    """Return a handle of a folder, for `open_below`. Raises OSError."""
    return os.open(path, _WAY)


def open_below(folder: int, path: str) -> int:
    """Open a regular file for reading, folder by folder, and close `folder`. Raises OSError."""
    *folders, name = parts = path.split("/")
    try:
        if not {"", ".", ".."}.isdisjoint(parts):
            raise OSError(errno.ENOENT, "not a path below the folder")
        for part in folders:
            deeper = os.open(part, _WAY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = deeper
        handle = os.open(name, _FILE, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.ENXIO, "not a regular file")
    return handle
