"""A folder of Markdown files, one for each document, in a folder for each source.

Files are named as people know the documents: a file of a folder or vault by its path, others by date and title. The database
`.catchment/index.db` has the file of each document. A file is ours if the database has it, or, after a loss of the database, if
it contains an ID of ours. Other files are not touched, and no link is followed.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from catchment.errors import DocumentRefused, Refused, SinkUnavailable
from catchment.model import DocumentCopy
from catchment.runtime import atomic_files
from sinks.folder_index import FolderIndex, NamePlan, WrittenFile
from sinks.folder_tree import SinkTree
from sinks.markdown import ENDING, file_name, identity, markdown

MARK = ".catchment"
"""A folder without it is not a sink: its disk may be missing."""
_IGNORE = ".catchmentignore"
"""A source of files above would read the copies, and have them copied again, endlessly."""
_INDEX = "index.db"
_STAMP = "stamp"
_ALTERED = " altered"
"""Follows the stamp of a folder that has to be compared."""
_BAD_NAMES = (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ)
_OCCUPIED = (errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EEXIST, errno.ENOTEMPTY)
_FORBIDDEN = (errno.EACCES, errno.EPERM)
_FEW = 20
_LATEST = 9_223_372_036.0
"""Latest time of a file, in the year 2262: a disk and the index count nanoseconds in 64 bits."""


class Folder:
    """A folder with a Markdown file for each document."""

    batch = 500
    wants_vectors = False
    is_folder = True

    def __init__(self, place: str, _password: str = "", *, create: bool = False) -> None:
        self._root = Path(place)
        with self._translated():
            prepare(self._root, create=create)
            self._tree = SinkTree(self._root, MARK)
            try:
                self._index = self._opened_index()
            except BaseException:
                self._tree.close()
                raise

    def close(self) -> None:
        self._index.close()
        self._tree.close()

    def write(self, changed: Sequence[DocumentCopy], removed: Collection[int]) -> None:
        refused: DocumentRefused | None = None
        flushed = len(changed) <= _FEW
        with self._translated():
            self._tree.sweep()
            plan = self._index.plan({each.id: file_name(each) for each in changed}, removed, self._is_foreign)
            ready = {number: each.written for number, each in plan.moves.items() if self._tree.take(each.old, number)}
            ready |= {document.id: self._prepared(document, flushed) for document in changed}
            for name in plan.freed:
                self._tree.remove(name)
            for number in tuple(ready):
                try:
                    self._give(number, plan, flushed)
                except DocumentRefused as error:
                    refused = error
                    del ready[number]
            for name in (*plan.freed, *(each.old for each in plan.moves.values())):
                self._tree.remove_empty(name)
            if not flushed:
                os.sync()
            self._index.finish(ready)
        if refused is not None:
            raise refused

    def versions(self, after: int, last: int) -> Mapping[int, str]:
        with self._translated():
            return {
                number: written.version if written and self._is_as_written(name, written) else "altered"
                for number, name, written in self._index.files(after, last)
            }

    def mark(self, stamp: str) -> None:
        write_stamp(self._root, stamp)

    def stamp(self) -> str | None:
        with self._translated():
            stamp = read_stamp(self._root)
            return stamp if stamp is None or self._index.is_complete else stamp + _ALTERED

    def _opened_index(self) -> FolderIndex:
        path = self._root / MARK / _INDEX
        if path.is_symlink():
            path.unlink()
        index = FolderIndex(path)
        try:
            if not index.is_present:
                if stamp := read_stamp(self._root):
                    write_stamp(self._root, stamp.removesuffix(_ALTERED) + _ALTERED)
                index.fill(self._copies())
        except BaseException:
            index.close()
            raise
        return index

    def _copies(self) -> Iterator[tuple[int, str]]:
        """Yield ID and name of each file that is a copy of a document by its frontmatter."""
        # A person's copy of a copy has a longer name.
        for name in sorted(self._tree.files(ENDING), key=lambda name: (len(name), name)):
            if (number := self._identity(name)) is not None:
                yield number, name

    def _identity(self, name: str) -> int | None:
        with self._tree.reading(name) as file:
            return identity(file)

    def _is_foreign(self, name: str, number: int) -> bool:
        status = self._tree.status(name)
        if status is None:
            return False
        if stat.S_ISDIR(status.st_mode):
            return True
        return not self._index.is_outdated(name) and (
            not stat.S_ISREG(status.st_mode) or self._identity(name) != number
        )

    def _is_as_written(self, name: str, written: WrittenFile) -> bool:
        status = self._tree.status(name)
        if status is None or not stat.S_ISREG(status.st_mode):
            return False
        return (status.st_size, status.st_mtime_ns) == (written.size, written.modified)

    def _prepared(self, document: DocumentCopy, flushed: bool) -> WrittenFile:
        moment = None if document.modified is None else min(max(0.0, document.modified.timestamp()), _LATEST)
        status = self._tree.prepare(document.id, markdown(document), moment, flushed=flushed)
        return WrittenFile(document.version, status.st_size, status.st_mtime_ns)

    def _give(self, number: int, plan: NamePlan, flushed: bool) -> None:
        """Give a written file its name. Raises DocumentRefused if the disk does not allow it."""
        name = plan.moves[number].new if number in plan.moves else plan.names[number]
        try:
            self._tree.give(number, name, flushed=flushed)
        except OSError as error:
            if error.errno in _BAD_NAMES:
                reason = "its name is not possible on this disk"
            elif error.errno in _OCCUPIED:
                reason = "a file or link of another program has the place of its file or folder; move it away"
            elif error.errno in _FORBIDDEN and os.access(self._root, os.W_OK):
                reason = "its folder cannot be written; change its mode"
            else:
                raise
            if self._index.is_outdated(name):
                self._tree.remove(name)
            raise DocumentRefused(reason) from error

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Translate errors of disk and index. A damaged index is removed, so that the next use makes it anew."""
        try:
            with translated():
                yield
        except SinkUnavailable as error:
            if type(error.__cause__) is sqlite3.DatabaseError:
                for path in (self._root / MARK).glob(f"{_INDEX}*"):
                    path.unlink()
            raise


def prepare(root: Path, *, create: bool) -> None:
    """Check that a folder is a sink, or make one of an empty or new folder, for its owner only. May be repeated after a kill.

    Raises Refused if a new one has files, SinkUnavailable if the folder is no sink.
    """
    if create:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if {entry.name for entry in root.iterdir()} - {MARK, _IGNORE}:
            raise Refused(f"{root.name}: the folder is not empty; choose an empty or a new one")
        # FAT and some network file systems have no modes.
        with suppress(PermissionError):
            root.chmod(0o700)
        if (root / MARK).is_symlink():
            (root / MARK).unlink()
        shutil.rmtree(root / MARK, ignore_errors=True)
        atomic_files.write(root / _IGNORE, b"*\n")
        (root / MARK).mkdir(mode=0o700)
    if not (root / MARK).is_dir() or (root / MARK).is_symlink():
        raise SinkUnavailable("the folder or its disk is missing; connect it, or remove the sink")


def write_stamp(root: Path, stamp: str) -> None:
    """Store the stamp of a folder. Raises SinkUnavailable."""
    with translated():
        atomic_files.write(root / MARK / _STAMP, stamp.encode())


def read_stamp(root: Path) -> str | None:
    """Return the stamp of a folder; None if it has none. Raises SinkUnavailable."""
    with translated(), suppress(FileNotFoundError):
        return (root / MARK / _STAMP).read_text(encoding="utf-8", errors="replace")
    return None


def release(root: Path) -> None:
    """Make a sink an ordinary folder, which a source reads."""
    (root / _IGNORE).unlink()
    shutil.rmtree(root / MARK)


@contextmanager
def translated() -> Iterator[None]:
    """Translate errors of disk and index."""
    try:
        yield
    except sqlite3.Error as error:
        raise SinkUnavailable(f"the folder's index cannot be used ({type(error).__name__}); check the disk") from error
    except OSError as error:
        raise SinkUnavailable(f"the folder cannot be written: {error.strerror}; check its disk") from error
