"""Run git without executing, writing or fetching anything that a repository asks for.

Objects are read through an empty repository of our own that borrows the other's object store. The other's configuration
(hooks, filters, monitors, remotes) is never loaded.
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

from catchment.errors import SourceInvalid, SourceUnavailable
from catchment.model import Reason
from connectors.folders.file import to_locator, to_path

ENVIRONMENT: Mapping[str, str] = {
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
"""Environment of every git command: no external configuration, network, prompts or optional writes."""

COMMAND = ("git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0")

KILLED_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
"""Kills git when the thread that started it ends, even if this process is killed.

Not for a git that outlives the thread.
"""

SECONDS = 60.0
"""Default time limit of a query, and limit without output of a streaming command."""
_TIDY_SECONDS = 3_600.0
_END_SECONDS = 5.0
"""Wait for a killed process. A process blocked by an unresponsive disk remains until the disk responds."""

MAX_FILES = 1_000_000
"""No repository in real use has as many; a malicious one of a few kilobytes can claim to."""
_CHUNK = 1 << 16
_COMMIT = re.compile(rb"\b(?:[0-9a-f]{64}|[0-9a-f]{40})\b")
_SHORT = 40
_MAX_COMMAND_BYTES = 250_000
"""Bytes of paths in a command line. Linux allows 2 MB in total, macOS 1 MB."""
_CONFIG = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n"
_SHA256_CONFIG = "[extensions]\n\tobjectFormat = sha256\n"
_NO_GIT = "git: not installed; install it (apt install git) and try again"


class Damaged(Exception):
    """An object is missing or unreadable."""


class Stalled(SourceUnavailable):
    """Git exceeded its time limit and was killed: an unresponsive disk, or a named pipe in place of a file."""

    reason = Reason.TIMEOUT

    @classmethod
    def after(cls, seconds: float) -> Stalled:
        """Return the error for this time limit."""
        return cls(
            f"git: no response from the repository within {seconds:g} s; check that its disk responds and that .git "
            "contains no named pipe"
        )


class TreeEntry(NamedTuple):
    """A file of a commit. `blob` is the hash of its content; `size` is None if the content is not stored here."""

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
    """A file that differs between two commits: `was` is its previous path if that is gone, `entry` the current file.

    `lost` is the content hash of a deleted file.
    """

    was: str | None
    entry: TreeEntry | None
    lost: str = ""


def object_store(directory: Path, seconds: float = SECONDS) -> Path:
    """Return the object store of a repository, which linked work trees share. Raises as `resolve_commit` does."""
    return Path(
        os.fsdecode(
            _query(directory, seconds, "rev-parse", "--path-format=absolute", "--git-path", "objects").rstrip(b"\n")
        )
    )


def resolve_commit(directory: Path, name: str, seconds: float = SECONDS) -> str | None:
    """Resolve a name to a commit in the repository of this directory; return None if it does not exist.

    Raises SourceUnavailable if there is no readable repository, and Stalled after `seconds`.
    """
    found = _COMMIT.search(
        _query(directory, seconds, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    )
    return found[0].decode() if found else None


def share_history(directory: Path, old: str, new: str, seconds: float = SECONDS) -> bool:
    """Return whether two commits are known to have a common ancestor, as far as this repository goes back."""
    try:
        return _run((*COMMAND, "merge-base", old, new), {"GIT_DIR": str(directory)}, seconds).returncode == 0
    except Stalled:
        return False


def create_empty(directory: Path, *, long_hashes: bool = False) -> None:
    """Create a repository without objects, hooks or templates. May be called again. Raises SourceUnavailable."""
    try:
        for folder in ("objects", "refs"):
            (directory / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, text in (("HEAD", "ref: refs/heads/none\n"), ("config", _CONFIG + _SHA256_CONFIG * long_hashes)):
            if not (directory / name).exists() or (directory / name).read_text() != text:
                (directory / name).write_text(text)
    except (OSError, ValueError) as error:
        raise SourceUnavailable("CATCHMENT_HOME: not writable; free some space, or grant write access") from error


def collect_garbage(directory: Path) -> None:
    """Merge the packs of a repository of ours and delete unreachable objects."""
    _run((*COMMAND, "gc", "--prune=now", "--quiet"), {"GIT_DIR": str(directory)}, _TIDY_SECONDS)


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
            found = self._differences(old, new, "-M", "-l2000")
        except (Damaged, Stalled) as error:
            # Detecting edited renames compares contents, some of which may be missing, or too many.
            exact = self._differences(old, new, "-M100%")
            found = exact if isinstance(error, Stalled) else self._without_missing(old, new, exact)
        sizes = self._sizes(diff.entry.blob for diff in found if diff.entry is not None and not diff.entry.is_submodule)
        return [
            diff if diff.entry is None else diff._replace(entry=diff.entry._replace(size=sizes.get(diff.entry.blob)))
            for diff in found
        ]

    def read(self, name: str, max_bytes: int, kind: bytes = b"blob") -> bytes | None:
        """Return the content of an object; None if it is missing, of another type, or larger than `max_bytes`."""
        with self._lock:
            if self._reader is None:
                self._prepare(name)
                self._reader = _Reader(_start((*COMMAND, "cat-file", "--batch"), self._environment), self._seconds)
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
        """Detect renames again without the files whose content is missing; these keep their result from `exact`."""
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
        """Return the sizes of the blobs that are stored here."""
        arguments = "".join(f"{blob}\n" for blob in blobs).encode()
        done = _run((*COMMAND, "cat-file", "--batch-check"), self._environment, self._seconds, arguments)
        output = done.stdout.decode("ascii", "replace")
        rows = (line.split() for line in output.splitlines())
        return {row[0]: int(row[2]) for row in rows if len(row) == 3}

    def _records(self, *arguments: str) -> Iterator[bytes]:
        """Run git and yield its output, split at NUL."""
        process = _start((*COMMAND, *arguments), self._environment)
        try:
            yield from _split(_Output(process, self._seconds))
            if process.wait():
                raise Damaged(arguments[0])
        finally:
            _end(process)


class _Output:
    """The standard output of a process, read incrementally. Raises Stalled after `seconds` without output."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        assert process.stdout is not None
        self._stream = process.stdout
        self._ready = select.poll()
        self._ready.register(self._stream, select.POLLIN | select.POLLHUP)
        self._seconds = seconds
        self._buffer = bytearray()

    def piece(self) -> bytes:
        """Return the next bytes; b"" at the end."""
        if self._buffer:
            data, self._buffer = bytes(self._buffer), bytearray()
            return data
        return self._next()

    def line(self) -> bytes:
        """Return the bytes up to and including the next line feed; fewer at the end."""
        while (end := self._buffer.find(b"\n")) < 0 and (data := self._next()):
            self._buffer += data
        return self._take(end + 1 if end >= 0 else len(self._buffer))

    def exactly(self, size: int) -> bytes:
        """Return `size` bytes. Raises Damaged if the output ends earlier."""
        while len(self._buffer) < size:
            if not (data := self._next()):
                raise Damaged("truncated output")
            self._buffer += data
        return self._take(size)

    def _take(self, size: int) -> bytes:
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def _next(self) -> bytes:
        if not self._ready.poll(self._seconds * 1_000):
            raise Stalled.after(self._seconds)
        return os.read(self._stream.fileno(), _CHUNK)


class _Reader:
    """Reads objects one at a time from a `git cat-file --batch` process."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        assert process.stdin is not None
        self._stdin = process.stdin
        self._output = _Output(process, seconds)
        # End git when a connector is garbage-collected without `close`.
        self.close = weakref.finalize(self, _end, process)

    def read(self, name: bytes, max_bytes: int, kind: bytes) -> bytes | None:
        """Return an object as `Objects.read` does. Raises Damaged or OSError if git has ended."""
        if b"\n" in name:
            return None
        self._stdin.write(name + b"\n")
        self._stdin.flush()
        head = self._output.line().rsplit(maxsplit=2)
        if len(head) == 3 and head[2].isdigit():
            size = int(head[2])
            fits = size <= max_bytes
            data = self._output.exactly(size) if fits else self._skip(size)
            self._output.exactly(1)
            return data if fits and head[1] == kind else None
        if not head:
            raise Damaged("cat-file")
        return None

    def _skip(self, size: int) -> bytes:
        while size:
            size -= len(self._output.exactly(min(size, _CHUNK)))
        return b""


def _split(output: _Output) -> Iterator[bytes]:
    rest, count = b"", 0
    while piece := output.piece():
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


def _environment(added: Mapping[str, str]) -> dict[str, str]:
    """Drop git's variables from the environment: this process may run inside a hook."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**inherited, **ENVIRONMENT, **added}


def _query(directory: Path, seconds: float, *arguments: str) -> bytes:
    done = _run((*COMMAND, *arguments), {"GIT_DIR": str(directory)}, seconds)
    if done.returncode and done.stderr:
        raise SourceUnavailable("repository: not readable by git; examine it with `git fsck`, or clone it again")
    return done.stdout


def _run(
    command: Sequence[str], added: Mapping[str, str], seconds: float, input_data: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    process = _start((*KILLED_WITH_PARENT, *command), added, own_group=True)
    try:
        output, errors = process.communicate(input_data, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Stalled.after(seconds) from None
    finally:
        _end(process, own_group=True)
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _start(command: Sequence[str], added: Mapping[str, str], *, own_group: bool = False) -> subprocess.Popen[bytes]:
    """Start git. Without its own process group it starts no children, and is killed with our group."""
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
        raise SourceInvalid(_NO_GIT) from None


def _end(process: subprocess.Popen[bytes], *, own_group: bool = False) -> None:
    """Kill git if it is running; with its children if it has its own process group."""
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
