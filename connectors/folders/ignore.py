"""Select the files of a tree by the patterns of the settings and by the ignore files in the tree.

Patterns have the syntax of `.gitignore`: `*.tmp` at any depth, `/build/` at the top, `docs/**`, `!keep.tmp`.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Annotated

from pydantic import AfterValidator

from connectors.folders.patterns import Patterns, parse_ignore_file, parse_patterns, split_lines

_MAX_BYTES = 200_000
_MAX_LINES = 5_000
"""An ignore file of this many patterns takes 0.3 s to compile and 20 µs for each path that is matched."""
_MAX_LINE_LENGTH = 4_096
"""The longest path on Linux. A pattern of 200 000 characters takes up to 3 s to compile."""
_TOO_LARGE = (
    f"file too large: more than {_MAX_LINES:,} lines, {_MAX_BYTES // 1_000} kB, "
    f"or {_MAX_LINE_LENGTH:,} characters in a line"
)
# Git's own data is never content, even if hidden files are included.
_NEVER = frozenset({".git"})
_TEMPORARY = re.compile(
    r"""
    (?: ~\$ | \.~lock\. | \.\# | \._ | \.nfs | \.fuse_hidden | \.goutputstream- | [.~]syncthing[.~] ) .*
    | ~ .* \.tmp | \# .+ \# | (?:eh)?thumbs\.db | desktop\.ini | \.ds_store
    | .+ (?: ~ | \. (?:
        crdownload | part | partial | download | opdownload | fdmdownload | filepart | dtapart | ffs_tmp | aria2 | ytdl | icloud
        | !ut | !qb | bc! | !bt | jc!
        | (?:kate-)?sw[nop] | sb-[0-9a-f]{8}-\w{6} | [a-z]\w{0,4} \.tmp (?:[.-]?\w+)?
    ))
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
"""Names of the lock files, swap files, half downloads and folder settings that other programs write beside documents. A plain
`.tmp`, `.bak` or `.orig` may be a document."""
_HALF_DOWNLOAD = ".download"
"""The end of the folders in which Safari collects a download. Other folders may have any name."""
NO_FILE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO})
"""Errors of `os.open` for a missing file, a link (not followed), or something other than a file."""


class UnknownRules(OSError):
    """An ignore file exists but cannot be read, so the files it excludes are unknown. `file` is its name."""

    def __init__(self, error: OSError, file: str) -> None:
        reason = _TOO_LARGE if error.errno == errno.EFBIG else os.strerror(error.errno or errno.EIO).lower()
        super().__init__(error.errno, reason)
        self.file = file

    def __str__(self) -> str:
        remedy = "shorten it" if self.errno == errno.EFBIG else "make it readable"
        return f"{self.file} cannot be read ({self.strerror}); {remedy}, or delete it"


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The file selection in a source's settings. `top` raises ValueError for an invalid pattern."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    ignore_files: tuple[str, ...] = ()
    hidden: bool = False

    def top(self) -> Layer:
        """Return the rules that apply to the root folder, before its ignore files are read."""
        rules = repr((self.include, self.exclude, self.hidden, _TEMPORARY.pattern))
        key = hashlib.blake2b(rules.encode(), digest_size=8).hexdigest()
        return Layer(self, key, parse_patterns(self.include), parse_patterns(self.exclude))


def _checked(patterns: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in patterns:
        try:
            IgnoreRules(exclude=(pattern,)).top()
        except ValueError:
            raise ValueError(f"{pattern!r}: not a pattern; write it as in a .gitignore") from None
    return patterns


PatternList = Annotated[tuple[str, ...], AfterValidator(_checked)]
"""The type of a setting with patterns."""


@dataclass(frozen=True, slots=True)
class Layer:
    """The rules that apply in one folder: the settings, and every ignore file from the root down to this folder.

    `key` changes whenever any of these rules changes.
    """

    rules: IgnoreRules
    key: str
    include: Patterns
    exclude: Patterns
    files: tuple[_IgnoreFile, ...] = field(default=())

    @property
    def has_patterns(self) -> bool:
        """Whether there are any patterns."""
        return bool(self.include or self.exclude or self.files)

    def enter(self, folder: str, path: str) -> Layer:
        """Return the rules inside a folder, given its `path` on disk and its path relative to the root (`folder`, ""
        for the root).

        Raises UnknownRules.
        """
        layer = self
        for name in self.rules.ignore_files:
            text = _text(f"{path}/{name}")
            if text is not None and (compiled := parse_ignore_file(split_lines(text))):
                file = _IgnoreFile(len(folder) + 1 if folder else 0, f"{folder}/{name}" if folder else name, compiled)
                key = hashlib.blake2b(f"{layer.key}\0{file.name}\0{text}".encode(errors="replace"), digest_size=8)
                layer = Layer(self.rules, key.hexdigest(), self.include, self.exclude, (file, *layer.files))
        return layer

    def hides(self, name: str) -> bool:
        """Return whether a file is excluded by its name alone: temporary, hidden, or Git's own data."""
        return self._is_hidden(name) or _TEMPORARY.fullmatch(name) is not None

    def _is_hidden(self, name: str) -> bool:
        return name.startswith(".") and (not self.rules.hidden or name in _NEVER)

    def why_not_below(self, path: str, folder: str = "") -> str | None:
        """Return why a path below a folder is excluded, by its name or that of a folder between; None if it is included."""
        steps = accumulate(path.split("/"), "{}/{}".format)
        reasons = (self.why_not(f"{folder}{step}", folder=step != path) for step in steps)
        return next(filter(None, reasons), None)

    def why_not(self, path: str, *, folder: bool) -> str | None:
        """Return why a path relative to the root is excluded, as a phrase for messages; None if it is included.

        Assumes that the folders above it are included. The settings override ignore files; deeper ignore files override
        others.
        """
        name = path.rpartition("/")[2]
        if _TEMPORARY.fullmatch(name) and (not folder or name.endswith(_HALF_DOWNLOAD)):
            return "a temporary file of another program"
        if self._is_hidden(name):
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
    """An ignore file: the length of the path prefix that its patterns do not see, its name, its patterns."""

    start: int
    name: str
    patterns: Patterns


def _text(path: str) -> str | None:
    """Return the text of an ignore file; None if there is none. Raises UnknownRules."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                return None
            if status.st_size > _MAX_BYTES:
                raise OSError(errno.EFBIG, _TOO_LARGE)
            text = os.read(handle, _MAX_BYTES).decode("utf-8-sig", "surrogateescape")
            if text.count("\n") > _MAX_LINES or max(map(len, text.split("\n"))) > _MAX_LINE_LENGTH:
                raise OSError(errno.EFBIG, _TOO_LARGE)
            return text
        finally:
            os.close(handle)
    except OSError as error:
        # Git ignores links and folders with this name too.
        if error.errno in NO_FILE:
            return None
        raise UnknownRules(error, path.rpartition("/")[2]) from error
