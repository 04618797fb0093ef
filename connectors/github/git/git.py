"""Git, run so that nothing of a repository is executed, written or fetched by the way.

Objects are read through an empty repository of our own that borrows the other's store: whatever the other's configuration
says of hooks, filters, monitors and remotes, it is not even read.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from catchment.errors import BadInput, SourceUnavailable
from catchment.model import Reason
from connectors.folders.file import to_locator, to_path

SAFE: Mapping[str, str] = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_COUNT": "0",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_PROTOCOL_FROM_USER": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "LC_ALL": "C",
}
"""The environment of every git: no configuration but the repository's, no network, no question, no writing by the way."""

COMMAND = ("git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0")

WITH_US = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
"""Ends git with the thread that started it, even if this process is killed. Not for a git that outlives that thread."""

SECONDS = 60.0
"""Default limit of a query, and of the silence of a command that streams its output."""
_TIDY_SECONDS = 3_600.0
_END_SECONDS = 5.0
"""A killed process that waits for a disk that does not respond stays until the disk does; nobody waits for it."""

MOST_FILES = 1_000_000
"""No repository that people work with has as many; one of a few kilobytes can pretend to."""
_PIECE = 1 << 16
_COMMIT = re.compile(rb"\b(?:[0-9a-f]{64}|[0-9a-f]{40})\b")
_SHORT = 40
_LONGEST_COMMAND = 250_000
"""Of the names that a command line may hold; Linux takes 2 MB in all, macOS 1 MB."""
_PLAIN = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n"
_LONG = "[extensions]\n\tobjectFormat = sha256\n"
_NO_GIT = "git is not installed; install it (apt install git), and try again"


class Damaged(Exception):
    """What should be in a repository is missing there, or cannot be read."""


class Stalled(SourceUnavailable):
    """Git exceeded its time limit and was killed: a disk that does not respond, or a named pipe in place of a file."""

    reason = Reason.TIMEOUT

    @classmethod
    def after(cls, seconds: float) -> Stalled:
        """The error for a git that was given so many seconds."""
        return cls(
            f"git: no response from the repository within {seconds:g} s; check that its disk responds and that .git "
            "holds no named pipe"
        )


class TreeEntry(NamedTuple):
    """A file of a commit. `blob` is the hash of its content; `size` is None where the content is not here."""

    path: str
    mode: str
    blob: str
    size: int | None

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return self.mode == "120000"

    @property
    def is_submodule(self) -> bool:
        """Whether it is another repository."""
        return self.mode == "160000"


class Difference(NamedTuple):
    """What became of a file between two commits: `was` is where it is not any more, `entry` what is there now.

    `lost` is the hash of the content of a file that is in neither place.
    """

    was: str | None
    entry: TreeEntry | None
    lost: str = ""


def store_of(directory: Path, seconds: float = SECONDS) -> Path:
    """Where a repository keeps its objects: one of several work trees has them elsewhere. Raises as `commit_of` does."""
    return Path(
        os.fsdecode(
            _asked(directory, seconds, "rev-parse", "--path-format=absolute", "--git-path", "objects").rstrip(b"\n")
        )
    )


def commit_of(directory: Path, name: str, seconds: float = SECONDS) -> str | None:
    """The commit that a name stands for in the repository of this directory; None where there is none.

    Raises SourceUnavailable where there is no repository that can be read, and Stalled after so many seconds.
    """
    found = _COMMIT.search(
        _asked(directory, seconds, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    )
    return found[0].decode() if found else None


def make_empty(directory: Path, *, long_hashes: bool = False) -> None:
    """Make a repository of our own: without objects, hooks and templates. May be called again. Raises SourceUnavailable."""
    try:
        for folder in ("objects", "refs"):
            (directory / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, text in (("HEAD", "ref: refs/heads/none\n"), ("config", _PLAIN + _LONG * long_hashes)):
            if not (directory / name).exists() or (directory / name).read_text() != text:
                (directory / name).write_text(text)
    except (OSError, ValueError) as error:
        raise SourceUnavailable("Catchment's home cannot be written; free some space, or give the right to") from error


def tidy(directory: Path) -> None:
    """Put what is in many packs into one, and let go of what no name leads to; a repository of our own only."""
    _ran((*COMMAND, "gc", "--prune=now", "--quiet"), {"GIT_DIR": str(directory)}, _TIDY_SECONDS)


class Objects:
    """The objects in a store of git's. Safe for threads.

    `empty` is where a repository of our own is made, which borrows them. `seconds` limits a query, and the silence of a
    command that streams its output; every method raises Stalled after that.
    """

    def __init__(self, store: Path, empty: Path, seconds: float = SECONDS) -> None:
        self._environment = {"GIT_DIR": str(empty), "GIT_OBJECT_DIRECTORY": str(store)}
        self._empty = empty
        self._seconds = seconds
        self._lock = threading.Lock()
        self._reader: _Reader | None = None

    def files(self, commit: str) -> Iterator[TreeEntry]:
        """Every file of a commit, in git's order. Raises Damaged, and SourceUnavailable for more than a million."""
        self._prepare(commit)
        for record in self._records("ls-tree", "-r", "-l", "-z", "--full-tree", commit):
            about, _, path = record.partition(b"\t")
            mode, _, blob, size = about.decode("ascii").split()
            yield TreeEntry(_path(path), mode, blob, int(size) if size.isdecimal() else None)

    def differences(self, old: str, new: str) -> list[Difference]:
        """What became of the files between two commits, renames told by git. Raises as `files` does."""
        self._prepare(new)
        # Comparing keeps all that is different in memory, listing does not: a repository that pretends ends here.
        for _ in self._records("ls-tree", "-r", "-z", "--name-only", "--full-tree", new):
            pass
        try:
            found = self._differences(old, new, "-M", "-l2000")
        except (Damaged, Stalled) as error:
            # Git compares contents to find files that were renamed and edited: some may be missing, or they may be too many.
            exact = self._differences(old, new, "-M100%")
            found = exact if isinstance(error, Stalled) else self._without_missing(old, new, exact)
        sizes = self._sizes(one.entry.blob for one in found if one.entry is not None and not one.entry.is_submodule)
        return [
            one if one.entry is None else one._replace(entry=one.entry._replace(size=sizes.get(one.entry.blob)))
            for one in found
        ]

    def read(self, name: str, most: int, kind: bytes = b"blob") -> bytes | None:
        """The content of an object; None where it is not here, is of another kind, or has more than `most` bytes."""
        with self._lock:
            if self._reader is None:
                self._prepare(name)
                self._reader = _Reader(_opened((*COMMAND, "cat-file", "--batch"), self._environment), self._seconds)
            try:
                return self._reader.read(os.fsencode(name), most, kind)
            except Stalled:
                self._drop()
                raise
            except (Damaged, OSError):
                self._drop()
                return None

    def has(self, commit: str) -> bool:
        """Whether a commit is here."""
        return self.read(commit, _PIECE, b"commit") is not None

    def close(self) -> None:
        """End the process that reads; reading begins another."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _prepare(self, name: str) -> None:
        """Make the empty repository, which has to know how long hashes are."""
        make_empty(self._empty, long_hashes=len(name.partition(":")[0]) > _SHORT)

    def _without_missing(self, old: str, new: str, exact: list[Difference]) -> list[Difference]:
        """Compare contents again, without the files whose content is missing: `exact` says what became of those."""
        unmatched = {one: one.entry.blob if one.entry else one.lost for one in exact if not (one.was and one.entry)}
        present = self._sizes(unmatched.values())
        missing = [one for one, blob in unmatched.items() if blob not in present]
        excluded = [f":(exclude,literal){to_path(one.entry.path if one.entry else one.was or '')}" for one in missing]
        if not missing or sum(map(len, excluded)) > _LONGEST_COMMAND:
            return exact
        try:
            return [*self._differences(old, new, "-M", "-l2000", paths=excluded), *missing]
        except (Damaged, Stalled):
            return exact

    def _differences(self, old: str, new: str, *renames: str, paths: Sequence[str] = ()) -> list[Difference]:
        asked = ("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-ext-diff", *renames, old, new, "--", *paths)
        records = self._records(*asked)
        found = []
        for record in records:
            _, mode, before, blob, status = record.decode("ascii").split()
            path = _path(next(records))
            if status == "D":
                found.append(Difference(path, None, before))
            elif status.startswith("R"):
                found.append(Difference(path, TreeEntry(_path(next(records)), mode, blob, None)))
            else:
                found.append(Difference(None, TreeEntry(path, mode, blob, None)))
        return found

    def _sizes(self, blobs: Iterable[str]) -> dict[str, int]:
        """The sizes of those that are here."""
        asked = "".join(f"{blob}\n" for blob in blobs).encode()
        done = _ran((*COMMAND, "cat-file", "--batch-check"), self._environment, self._seconds, asked)
        said = done.stdout.decode("ascii", "replace")
        rows = (line.split() for line in said.splitlines())
        return {row[0]: int(row[2]) for row in rows if len(row) == 3}

    def _records(self, *arguments: str) -> Iterator[bytes]:
        """What git writes, cut at each NUL, as it comes."""
        process = _opened((*COMMAND, *arguments), self._environment)
        try:
            yield from _cut(_Output(process, self._seconds))
            if process.wait():
                raise Damaged(arguments[0])
        finally:
            _end(process)


class _Output:
    """The standard output of a process, read as it comes. Raises Stalled when nothing comes for so many seconds."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        assert process.stdout is not None
        self._stream = process.stdout
        self._ready = select.poll()
        self._ready.register(self._stream, select.POLLIN | select.POLLHUP)
        self._seconds = seconds
        self._buffer = bytearray()

    def piece(self) -> bytes:
        """The next bytes, b"" at the end."""
        if self._buffer:
            data, self._buffer = bytes(self._buffer), bytearray()
            return data
        return self._next()

    def line(self) -> bytes:
        """The bytes up to and with the next line feed; fewer at the end."""
        while (end := self._buffer.find(b"\n")) < 0 and (data := self._next()):
            self._buffer += data
        return self._take(end + 1 if end >= 0 else len(self._buffer))

    def exactly(self, size: int) -> bytes:
        """So many bytes. Raises Damaged at an earlier end."""
        while len(self._buffer) < size:
            if not (data := self._next()):
                raise Damaged("cut short")
            self._buffer += data
        return self._take(size)

    def _take(self, size: int) -> bytes:
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def _next(self) -> bytes:
        if not self._ready.poll(self._seconds * 1_000):
            raise Stalled.after(self._seconds)
        return os.read(self._stream.fileno(), _PIECE)


class _Reader:
    """Asks one `git cat-file --batch` for one object after the other."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        assert process.stdin is not None
        self._ask = process.stdin
        self._output = _Output(process, seconds)
        # Nobody has to close a connector that was only asked for a file.
        self.close = weakref.finalize(self, _end, process)

    def read(self, name: bytes, most: int, kind: bytes) -> bytes | None:
        """As `Objects.read`. Raises Damaged or OSError when git ended."""
        if b"\n" in name:
            return None
        self._ask.write(name + b"\n")
        self._ask.flush()
        head = self._output.line().rsplit(maxsplit=2)
        if len(head) == 3 and head[2].isdigit():
            size = int(head[2])
            fits = size <= most
            data = self._output.exactly(size) if fits else self._past(size)
            self._output.exactly(1)
            return data if fits and head[1] == kind else None
        if not head:
            raise Damaged("cat-file")
        return None

    def _past(self, size: int) -> bytes:
        while size:
            size -= len(self._output.exactly(min(size, _PIECE)))
        return b""


def _cut(output: _Output) -> Iterator[bytes]:
    rest, count = b"", 0
    while piece := output.piece():
        *records, rest = (rest + piece).split(b"\0")
        count += len(records)
        if count > MOST_FILES:
            raise SourceUnavailable(f"the repository has more than {MOST_FILES} files; nothing was changed: remove it")
        yield from records
    if rest:
        raise Damaged("cut short")


def _path(name: bytes) -> str:
    return to_locator(os.fsdecode(name))


def _environment(added: Mapping[str, str]) -> dict[str, str]:
    """Nothing that was said to another git counts: this may run within a hook."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**mine, **SAFE, **added}


def _asked(directory: Path, seconds: float, *arguments: str) -> bytes:
    done = _ran((*COMMAND, *arguments), {"GIT_DIR": str(directory)}, seconds)
    if done.returncode and done.stderr:
        raise SourceUnavailable("git cannot read the repository; find out why with `git fsck`, or clone it anew")
    return done.stdout


def _ran(
    command: Sequence[str], added: Mapping[str, str], seconds: float, given: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    process = _opened((*WITH_US, *command), added, own_group=True)
    try:
        output, errors = process.communicate(given, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Stalled.after(seconds) from None
    finally:
        _end(process, own_group=True)
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _opened(command: Sequence[str], added: Mapping[str, str], *, own_group: bool = False) -> subprocess.Popen[bytes]:
    """Start git. Without a group of its own it starts no children, and is killed along with the group of this process."""
    try:
        return subprocess.Popen(
            command,
            env=_environment(added),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if own_group else subprocess.DEVNULL,
            start_new_session=own_group,
        )
    except FileNotFoundError:
        raise BadInput(_NO_GIT) from None


def _end(process: subprocess.Popen[bytes], *, own_group: bool = False) -> None:
    """Kill git, if it still runs; with all that it started where it has a group of its own."""
    if process.poll() is None:
        if own_group:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)
