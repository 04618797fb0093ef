"""Read the objects of a repository: the files of a commit, differences between commits, and contents.

They are read through an empty repository of our own that borrows the other's object store. The other's configuration
(hooks, filters, monitors, remotes) is never loaded.
"""

from __future__ import annotations

import io
import os
import select
import subprocess
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from catchment.errors import SourceUnavailable
from connectors.child_end import end
from connectors.folders.file import to_locator, to_path
from connectors.github.git.git import COMMAND, SECONDS, Stalled, create_empty, run, start

MAX_FILES = 1_000_000
"""No repository in real use has as many; a malicious one of a few kilobytes can claim to."""
_CHUNK = 1 << 16
_SHORT = 40
_MAX_COMMAND_BYTES = 250_000
"""Bytes of paths in a command line. Linux allows 2 MB in total, macOS 1 MB."""


class Damaged(Exception):
    """An object is missing or unreadable."""


class TreeEntry(NamedTuple):
    """A file of a commit. `blob` is the hash of its content; `size` is None if this repository lacks the content."""

    path: str
    mode: str
    blob: str
    size: int | None

    @property
    def is_link(self) -> bool:
        """Whether this is a symbolic link."""
        return self.mode == "120000"

    @property
    def is_submodule(self) -> bool:
        """Whether this is another repository."""
        return self.mode == "160000"


class Difference(NamedTuple):
    """A file that differs between two commits: `was` is its previous path if no file has it now, `entry` the current file.

    `lost` is the content hash of a deleted file.
    """

    was: str | None
    entry: TreeEntry | None
    lost: str = ""


class Objects:
    """The objects in a git object store. Thread-safe.

    `empty` is where our borrowing repository is created. `seconds` limits a query, and the time without output of a
    streaming command; every method raises Stalled after that.
    """

    def __init__(self, store: Path, empty: Path, seconds: float = SECONDS) -> None:
        self._environment = {"GIT_DIR": str(empty), "GIT_OBJECT_DIRECTORY": str(store)}
        self._empty = empty
        self._seconds = seconds
        self._lock = threading.Lock()
        self._reader: _Reader | None = None

    def files(self, commit: str) -> Iterator[TreeEntry]:
        """Yield every file of a commit in git's order.

        Raises Damaged, or SourceUnavailable for more than a million files.
        """
        self._prepare(commit)
        for record in self._records("ls-tree", "-r", "-l", "-z", "--full-tree", commit):
            metadata, _, path = record.partition(b"\t")
            mode, _, blob, size = metadata.decode("ascii").split()
            yield TreeEntry(_path(path), mode, blob, int(size) if size.isdecimal() else None)

    def differences(self, old: str, new: str) -> list[Difference]:
        """Return the differences between two commits, with renames detected by git. Raises as `files` does."""
        self._prepare(new)
        # diff-tree holds all differences in memory, ls-tree does not: an oversized repository is rejected here.
        for _ in self._records("ls-tree", "-r", "-z", "--name-only", "--full-tree", new):
            pass
        try:
            differences = self._differences(old, new, "-M", "-l2000")
        except (Damaged, Stalled) as error:
            # Detecting edited renames compares contents, some of which may be missing, or too many.
            exact = self._differences(old, new, "-M100%")
            differences = exact if isinstance(error, Stalled) else self._without_missing(old, new, exact)
        sizes = self._sizes(
            diff.entry.blob for diff in differences if diff.entry is not None and not diff.entry.is_submodule
        )
        return [
            diff if diff.entry is None else diff._replace(entry=diff.entry._replace(size=sizes.get(diff.entry.blob)))
            for diff in differences
        ]

    def read(self, name: str, max_bytes: int, kind: bytes = b"blob") -> bytes | None:
        """Return the content of an object; None if it is missing, of another type, or larger than `max_bytes`."""
        with self._lock:
            if self._reader is None:
                self._prepare(name)
                self._reader = _Reader(start((*COMMAND, "cat-file", "--batch"), self._environment), self._seconds)
            try:
                return self._reader.read(os.fsencode(name), max_bytes, kind)
            except Stalled:
                self._end_reader()
                raise
            except (Damaged, OSError):
                self._end_reader()
                return None

    def has(self, commit: str) -> bool:
        """Return whether a commit is stored here."""
        return self.read(commit, _CHUNK, b"commit") is not None

    def close(self) -> None:
        """End the reading process; `read` starts another."""
        with self._lock:
            self._end_reader()

    def _end_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _prepare(self, name: str) -> None:
        """Create the empty repository. Its format depends on the length of hashes."""
        create_empty(self._empty, long_hashes=len(name.partition(":")[0]) > _SHORT)

    def _without_missing(self, old: str, new: str, exact: list[Difference]) -> list[Difference]:
        """Detect renames again without the files that lack content; these keep their result from `exact`."""
        unmatched = {
            diff: diff.entry.blob if diff.entry else diff.lost for diff in exact if not (diff.was and diff.entry)
        }
        present = self._sizes(unmatched.values())
        missing = [diff for diff, blob in unmatched.items() if blob not in present]
        excluded = [
            f":(exclude,literal){to_path(diff.entry.path if diff.entry else diff.was or '')}" for diff in missing
        ]
        if not missing or sum(map(len, excluded)) > _MAX_COMMAND_BYTES:
            return exact
        try:
            return [*self._differences(old, new, "-M", "-l2000", paths=excluded), *missing]
        except (Damaged, Stalled):
            return exact

    def _differences(self, old: str, new: str, *renames: str, paths: Sequence[str] = ()) -> list[Difference]:
        arguments = ("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-ext-diff", *renames, old, new, "--", *paths)
        records = self._records(*arguments)
        differences = []
        for record in records:
            _, mode, before, blob, status = record.decode("ascii").split()
            path = _path(next(records))
            if status == "D":
                differences.append(Difference(path, None, before))
            elif status.startswith("R"):
                differences.append(Difference(path, TreeEntry(_path(next(records)), mode, blob, None)))
            else:
                differences.append(Difference(None, TreeEntry(path, mode, blob, None)))
        return differences

    def _sizes(self, blobs: Iterable[str]) -> dict[str, int]:
        """Return the sizes of the blobs that are stored here."""
        arguments = "".join(f"{blob}\n" for blob in blobs).encode()
        completed = run((*COMMAND, "cat-file", "--batch-check"), self._environment, self._seconds, arguments)
        output = completed.stdout.decode("ascii", "replace")
        rows = (line.split() for line in output.splitlines())
        return {row[0]: int(row[2]) for row in rows if len(row) == 3}

    def _records(self, *arguments: str) -> Iterator[bytes]:
        """Run git and yield its output, split at NUL."""
        process = start((*COMMAND, *arguments), self._environment)
        try:
            yield from _split(_buffered(process, self._seconds))
            if process.wait():
                raise Damaged(arguments[0])
        finally:
            end(process)


class _Output(io.RawIOBase):
    """The standard output of a process. Raises Stalled after `seconds` without output."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        assert process.stdout is not None
        self._stream = process.stdout
        self._ready = select.poll()
        self._ready.register(self._stream, select.POLLIN | select.POLLHUP)
        self._seconds = seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._ready.poll(self._seconds * 1_000):
            raise Stalled.after(self._seconds)
        return os.readv(self._stream.fileno(), [buffer])


def _buffered(process: subprocess.Popen[bytes], seconds: float) -> io.BufferedReader:
    return io.BufferedReader(_Output(process, seconds), _CHUNK)


class _Reader:
    """Reads objects one at a time from a `git cat-file --batch` process."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        assert process.stdin is not None
        self._stdin = process.stdin
        self._output = _buffered(process, seconds)
        # End git when a connector is garbage-collected without `close`.
        self.close = weakref.finalize(self, end, process)

    def read(self, name: bytes, max_bytes: int, kind: bytes) -> bytes | None:
        """Return an object as `Objects.read` does. Raises Damaged or OSError if git has ended."""
        if b"\n" in name:
            return None
        self._stdin.write(name + b"\n")
        self._stdin.flush()
        head = self._output.readline().rsplit(maxsplit=2)
        if len(head) == 3 and head[2].isdigit():
            size = int(head[2])
            fits = size <= max_bytes
            data = self._exactly(size) if fits else self._skip(size)
            self._exactly(1)
            return data if fits and head[1] == kind else None
        if not head:
            raise Damaged("cat-file")
        return None

    def _skip(self, size: int) -> bytes:
        while size:
            size -= len(self._exactly(min(size, _CHUNK)))
        return b""

    def _exactly(self, size: int) -> bytes:
        """Return `size` bytes. Raises Damaged if the output ends earlier."""
        if len(data := self._output.read(size)) < size:
            raise Damaged("truncated output")
        return data


def _split(output: io.BufferedReader) -> Iterator[bytes]:
    rest, count = b"", 0
    while piece := output.read1():
        *records, rest = (rest + piece).split(b"\0")
        count += len(records)
        if count > MAX_FILES:
            raise SourceUnavailable(
                f"repository: more than {MAX_FILES} files, nothing was changed; remove it from the source"
            )
        yield from records
    if rest:
        raise Damaged("truncated output")


def _path(name: bytes) -> str:
    return to_locator(os.fsdecode(name))
