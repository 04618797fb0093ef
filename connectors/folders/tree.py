"""A tree of folders as a source: which files are new, changed, gone, or not wanted, and what is in one of them.

`connectors.folders.diff` compares a tree with the known items, `connectors.folders.scan` lists one folder, and
`connectors.folders.file` names and reads one file.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from catchment.contracts import Known
from catchment.errors import (
    BadInput,
    FetchFailed,
    LoginFailed,
    Skipped,
    SourceUnavailable,
)
from catchment.model import Change, Item, Root, SkipReason, fingerprint
from connectors.folders.diff import Comparison, ComparisonAt
from connectors.folders.file import FileEntry, birth_time, gone, opened, read_all, to_locator
from connectors.folders.ignore import IgnoreRules, UnknownRules

_CHANGES_PER_CHECKPOINT = 1_000


@dataclass(frozen=True, slots=True)
class FolderTree:
    """A folder with all below it, and what of it is wanted. `max_bytes` is the size up to which a file is."""

    root: Path
    rules: IgnoreRules
    max_bytes: int
    follow_links: bool = False

    @property
    def name(self) -> str:
        """What to call the root in a message, which must not hold a full path."""
        return to_locator(self.root.name) or "/"

    def probe(self) -> int:
        """How many files and folders are at the top. Raises SourceUnavailable, LoginFailed or BadInput."""
        try:
            with os.scandir(self.root) as entries:
                return sum(1 for _ in entries)
        except OSError as error:
            raise self.unavailable(error) from error

    def identity(self) -> str:
        """Which root this is, so that an empty mount point, or a folder made anew, is not taken for the one that was.

        Its file system, its inode, and when it was made: an inode is given to the next folder as soon as it is free.
        """
        try:
            inode = self.root.stat().st_ino
            return f"{os.statvfs(self.root).f_fsid:x}.{inode:x}.{birth_time(os.path.realpath(self.root), inode):x}"
        except OSError as error:
            raise self.unavailable(error) from error

    def changes(self, known: Known, *, deep: bool) -> Iterator[Change]:
        """As `Connector.changes`. Deletions come before new files, so that a move is seen as one."""
        yield from self._compared(Comparison(self, known, self.identity(), deep=deep))

    def changes_at(self, known: Known, paths: Collection[str]) -> Iterator[Change]:
        """As `Watchable.changes_at`."""
        yield from self._compared(ComparisonAt(self, known, self.identity(), paths))

    def _compared(self, comparison: Comparison) -> Iterator[Change]:
        yield Root(comparison.root)
        for said, change in enumerate(comparison.run(), 1):
            yield change
            if said % _CHANGES_PER_CHECKPOINT == 0:
                yield comparison.checkpoint()
        yield comparison.checkpoint()

    def read(self, item: Item) -> tuple[bytes, FileEntry]:
        """The content of a listed file. Raises ItemError, or SourceUnavailable when the root is gone; may be repeated."""
        if item.locator.endswith("/"):
            raise FetchFailed("the folder could not be listed; the next sync that can list it clears this entry")
        version = fingerprint(item.version)
        with opened(self.root, item.locator, version, follow_links=self.follow_links) as (handle, file):
            if file.size > self.max_bytes:
                raise Skipped(SkipReason.TOO_LARGE)
            return read_all(handle, file.size), file

    def why_not(self, path: str) -> str | None:
        """Why a path relative to the root is not listed, for a person; None if the rules have nothing against it.

        Raises OSError where an ignore file, or a folder on the way, cannot be read.
        """
        layer, folder = self.rules.top(), ""
        parts = path.split("/")
        for depth, part in enumerate(parts, 1):
            layer = layer.enter(folder, str(self.root / folder))
            folder = f"{folder}/{part}" if folder else part
            if reason := layer.why_not(folder, folder=depth < len(parts) or (self.root / folder).is_dir()):
                return reason
        return None

    def unavailable(self, error: OSError) -> SourceUnavailable | LoginFailed | BadInput:
        """What it means that the root itself cannot be listed."""
        name = self.name
        if isinstance(error, UnknownRules):
            return SourceUnavailable(f"at the top of the folder {name!r}, {error}")
        if isinstance(error, PermissionError):
            return LoginFailed(
                f"the folder {name!r} may not be read; give the user that Catchment runs as the right to"
            )
        if isinstance(error, NotADirectoryError):
            return BadInput(f"{name!r} is not a folder; give the folder that holds it as `root`")
        if isinstance(error, FileNotFoundError):
            return SourceUnavailable(gone(self.name))
        return SourceUnavailable(
            f"the folder {name!r} cannot be read ({os.strerror(error.errno or 0)}); check its disk"
        )
