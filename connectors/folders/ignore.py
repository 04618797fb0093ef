"""Which files of a tree are wanted: the patterns of the settings, and the ignore files found in the tree.

Patterns are written and matched as in a `.gitignore`: `*.tmp` at any depth, `/build/` at the top, `docs/**`, `!keep.tmp`.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field

from connectors.folders import patterns
from connectors.folders.patterns import Patterns

_LARGEST_IGNORE_FILE = 200_000
_MOST_LINES = 5_000
"""An ignore file of this many patterns takes 0.3 s to compile, and 20 µs for each path that is matched against it."""
_LONGEST_LINE = 4_096
"""No path is longer on Linux; a pattern of 200 000 characters takes up to 3 s to compile."""
_TOO_LARGE = (
    f"file too large: more than {_MOST_LINES:,} lines, {_LARGEST_IGNORE_FILE // 1_000} kB, "
    f"or {_LONGEST_LINE:,} characters in a line"
)
# Git's own store is never content, even where hidden files are wanted.
_NEVER = frozenset({".git"})
NO_FILE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO})
"""What opening says where there is nothing, a link that is not followed, or what is no file."""


class UnknownRules(OSError):
    """An ignore file is there and cannot be read: nobody knows what of its folder is wanted. `file` is its name."""

    def __init__(self, error: OSError, file: str) -> None:
        reason = _TOO_LARGE if error.errno == errno.EFBIG else os.strerror(error.errno or errno.EIO).lower()
        super().__init__(error.errno, reason)
        self.file = file

    def __str__(self) -> str:
        remedy = "shorten it" if self.errno == errno.EFBIG else "make it readable"
        said = f"{self.file} cannot be read ({self.strerror}), so that nobody knows what it leaves out"
        return f"{said}; {remedy}, or delete it"


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """What a source's settings say about which files are wanted. Raises ValueError for a pattern that is not one."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    ignore_files: tuple[str, ...] = ()
    hidden: bool = False

    def top(self) -> Layer:
        """The rules as they stand above the root folder."""
        key = hashlib.blake2b(repr((self.include, self.exclude, self.hidden)).encode(), digest_size=8).hexdigest()
        return Layer(self, key, _compiled(self.include), _compiled(self.exclude))


@dataclass(frozen=True, slots=True)
class Layer:
    """The rules that hold in one folder: those of the settings, and of every ignore file from the root down to it.

    `key` differs whenever any of them does.
    """

    rules: IgnoreRules
    key: str
    include: Patterns | None
    exclude: Patterns | None
    files: tuple[_IgnoreFile, ...] = field(default=())

    @property
    def tests(self) -> bool:
        """Whether there is anything to test a name against besides being hidden."""
        return bool(self.include or self.exclude or self.files)

    def enter(self, folder: str, path: str) -> Layer:
        """The rules inside a folder, given as `path` on disk and as `folder` relative to the root ("" for the root).

        Raises UnknownRules.
        """
        layer = self
        for name in self.rules.ignore_files:
            text = _text(f"{path}/{name}")
            if text is not None and (found := _compiled(patterns.lines_of(text), lenient=True)):
                file = _IgnoreFile(len(folder) + 1 if folder else 0, f"{folder}/{name}" if folder else name, found)
                key = hashlib.blake2b(f"{layer.key}\0{file.name}\0{text}".encode(errors="replace"), digest_size=8)
                layer = Layer(self.rules, key.hexdigest(), self.include, self.exclude, (file, *layer.files))
        return layer

    def hides(self, name: str) -> bool:
        """Whether a name alone says that it is not wanted."""
        return name[0] == "." and (not self.rules.hidden or name in _NEVER)

    def why_not(self, path: str, *, folder: bool) -> str | None:
        """Why a path relative to the root is not wanted, for a person; None if it is.

        The folders above it are taken to be wanted. The settings go before ignore files, deeper ignore files before others.
        """
        if self.hides(path.rpartition("/")[2]):
            return "hidden"
        if self.exclude and self.exclude.decides(path, folder=folder):
            return "excluded by the source's settings"
        for file in self.files:
            decision = file.patterns.decides(path[file.start :], folder=folder)
            if decision:
                return f"excluded by {file.name}"
            if decision is False:
                break
        if self.include and not folder and not self.include.covers(path):
            return "not included by the source's settings"
        return None


@dataclass(frozen=True, slots=True)
class _IgnoreFile:
    """An ignore file: where the paths that it sees begin, its name, and its patterns."""

    start: int
    name: str
    patterns: Patterns


def _compiled(lines: Iterable[str], *, lenient: bool = False) -> Patterns | None:
    """The patterns, None if there are none. Lenient leaves out a line that is no pattern, as git does."""
    return (patterns.those_in if lenient else patterns.compiled)(lines) or None


def _text(path: str) -> str | None:
    """What an ignore file says; None where there is none. Raises UnknownRules."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        # What else has the name, such as a link, which git does not follow either, holds no patterns.
        if error.errno in NO_FILE:
            return None
        raise UnknownRules(error, path.rpartition("/")[2]) from error
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            return None
        if found.st_size > _LARGEST_IGNORE_FILE:
            raise OSError(errno.EFBIG, _TOO_LARGE)
        text = os.read(handle, _LARGEST_IGNORE_FILE).decode("utf-8-sig", "surrogateescape")
        if text.count("\n") > _MOST_LINES or max(map(len, text.split("\n"))) > _LONGEST_LINE:
            raise OSError(errno.EFBIG, _TOO_LARGE)
        return text
    except OSError as error:
        raise UnknownRules(error, path.rpartition("/")[2]) from error
    finally:
        os.close(handle)
