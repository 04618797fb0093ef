"""The files below a folder, each reached from its root without following a link. Names are relative, with `/`."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ)
"""A name has no file, or a link or file is in the place of its folder, or no file can have the name."""
_UNFINISHED = re.compile(r"[0-9]+\.unfinished\Z")


class SinkTree:
    """A folder that stays open, and a folder of unfinished files below it. Raises OSError."""

    def __init__(self, root: Path, unfinished: str) -> None:
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._unfinished = os.open(unfinished, _FOLDER, dir_fd=self._root)
        except BaseException:
            os.close(self._root)
            raise
        self._longest = os.fpathconf(self._root, "PC_PATH_MAX") - len(os.fsencode(root.absolute())) - 2
        """Bytes of a name. Other programs cannot open a longer path."""

    def close(self) -> None:
        os.close(self._unfinished)
        os.close(self._root)

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of a file, folder or link; None if there is none."""
        try:
            with self._parent(name) as (folder, last):
                return os.stat(last, dir_fd=folder, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _ABSENT:
                raise
            return None

    @contextmanager
    def reading(self, name: str) -> Iterator[BinaryIO]:
        """Open a regular file."""
        with self._parent(name) as (folder, last):
            # A pipe would be waited for.
            handle = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            with os.fdopen(handle, "rb") as file:
                yield file

    def files(self, ending: str) -> Iterator[str]:
        """Yield the names of the regular files with an ending, without those of hidden folders."""
        for path, folders, names, handle in os.fwalk(".", dir_fd=self._root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in names:
                if name.endswith(ending) and stat.S_ISREG(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode):
                    yield os.path.normpath(f"{path}/{name}")

    def prepare(self, number: int, content: bytes, moment: float | None, *, flushed: bool) -> os.stat_result:
        """Write the unfinished file with this number, and return its status."""
        name = _named(number)
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._unfinished)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, 0o600, dir_fd=self._unfinished), "wb") as file:
            file.write(content)
            file.flush()
            if moment is not None:
                os.utime(file.fileno(), (moment, moment))
            if flushed:
                os.fsync(file.fileno())
            return os.fstat(file.fileno())

    def take(self, name: str, number: int) -> bool:
        """Make a regular file the unfinished file with this number. Return whether there was one."""
        status = self.status(name)
        if status is None or not stat.S_ISREG(status.st_mode):
            return False
        with self._parent(name) as (folder, last):
            os.rename(last, _named(number), src_dir_fd=folder, dst_dir_fd=self._unfinished)
        return True

    def give(self, number: int, name: str, *, flushed: bool) -> None:
        """Give the unfinished file with this number its name, in place of another file, whose mode it gets, or of a link."""
        if len(os.fsencode(name)) > self._longest:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        with self._parent(name, create=True) as (folder, last):
            with suppress(FileNotFoundError):
                if stat.S_ISREG(mode := os.stat(last, dir_fd=folder, follow_symlinks=False).st_mode):
                    os.chmod(_named(number), mode & 0o777, dir_fd=self._unfinished)
            os.rename(_named(number), last, src_dir_fd=self._unfinished, dst_dir_fd=folder)
            if flushed:
                _flush(folder)

    def remove(self, name: str) -> None:
        """Remove a file or a link, if there is one."""
        status = self.status(name)
        if status is not None and not stat.S_ISDIR(status.st_mode):
            with self._parent(name) as (folder, last):
                os.unlink(last, dir_fd=folder)

    def remove_empty(self, name: str) -> None:
        """Remove the folders of a removed file that have become empty."""
        while name := name.rpartition("/")[0]:
            try:
                with self._parent(name) as (folder, last):
                    os.rmdir(last, dir_fd=folder)
            except OSError:
                return

    def sweep(self) -> None:
        """Remove the unfinished files of a killed process."""
        with os.scandir(self._unfinished) as entries:
            names = [entry.name for entry in entries if _UNFINISHED.match(entry.name)]
        for name in names:
            os.unlink(name, dir_fd=self._unfinished)

    @contextmanager
    def _parent(self, name: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        """Open the folder of a name, and yield it with the last part of the name."""
        *folders, last = name.split("/")
        handle = os.dup(self._root)
        try:
            for part in folders:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, 0o700, dir_fd=handle)
                inner = os.open(part, _FOLDER, dir_fd=handle)
                os.close(handle)
                handle = inner
            yield handle, last
        finally:
            os.close(handle)


def _named(number: int) -> str:
    return f"{number}.unfinished"


def _flush(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        # Some network file systems do not support it on a folder.
        if error.errno != errno.EINVAL:
            raise
