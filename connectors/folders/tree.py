"""A folder tree as a source: the operations of a connector on files.

Comparing is in `connectors.folders.diff`, listing in `connectors.folders.scan`, reading in `connectors.folders.file`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from catchment.content.parts.containers import MOST_BYTES, is_list
from catchment.errors import (
    FetchFailed,
    LoginFailed,
    Skipped,
    SkipReason,
    SourceError,
    SourceInvalid,
    SourceUnavailable,
)
from catchment.model import PARTS, Item, fingerprint
from catchment.runtime.system.linux import birth_time
from connectors.folders.file import FileEntry, is_at, missing_root, opened, to_locator, to_path
from connectors.folders.ignore import IgnoreRules, Layer, UnknownRules
from connectors.folders.patterns import parse_patterns


@dataclass(frozen=True, slots=True)
class FolderTree:
    """A folder with everything below it, and the rules that select files. Larger files than `max_bytes` are skipped."""

    root: Path
    rules: IgnoreRules
    max_bytes: int
    follow_links: bool = False

    @property
    def name(self) -> str:
        """The root's name for messages, which must not contain full paths."""
        return to_locator(self.root.name) or "/"

    def probe(self) -> int:
        """Return the number of entries at the top. Raises SourceError."""
        try:
            with os.scandir(self.root) as entries:
                return sum(1 for _ in entries)
        except OSError as error:
            raise self.unavailable(error) from error

    def identity(self) -> str:
        """Return a string that identifies the root, to detect an empty mount point or a recreated folder.

        It combines file system, inode and birth time, because an inode number is reused after a deletion.
        """
        try:
            inode = self.root.stat().st_ino
            return f"{os.statvfs(self.root).f_fsid:x}.{inode:x}.{birth_time(os.path.realpath(self.root), inode):x}"
        except OSError as error:
            raise self.unavailable(error) from error

    def check_root(self, root: str) -> None:
        """Raise SourceUnavailable if the identity of the root is not `root`."""
        if self.identity() != root:
            raise SourceUnavailable(f"folder {self.name!r}: replaced during the listing; sync again")

    def still_there(self, places: Mapping[str, str], roots: Mapping[str, str]) -> set[str]:
        """Return the locators that still hold the file of this identity, as `Movable.still_there` does."""
        top = os.path.realpath(self.root)
        present = {place for place, of in places.items() if is_at(f"{top}/{to_path(place)}", of)}
        self.check_root(roots[""])
        return present

    def fits(self, file: FileEntry) -> bool:
        """Return whether a file is small enough to be read. Of a container, each part is."""
        if file.size <= self.max_bytes:
            return True
        return file.size <= MOST_BYTES and is_list(file.name)

    @contextmanager
    def opened(self, item: Item) -> Iterator[tuple[int, FileEntry]]:
        """Open a listed file for reading.

        Raises ItemError, or SourceUnavailable if the root is missing. May be repeated.
        """
        if item.locator.endswith("/"):
            raise FetchFailed("folder could not be listed; this entry clears once a sync can list it")
        version = fingerprint(item.version)
        with opened(self.root, item.locator, version, follow_links=self.follow_links) as (handle, file):
            if not self.fits(file):
                raise Skipped(SkipReason.TOO_LARGE)
            yield handle, file

    def why_not(self, path: str) -> str | None:
        """Return why a path relative to the root is excluded, as a phrase for messages; None if it is included.

        Raises OSError if an ignore file, or a folder above the path, cannot be read.
        """
        for depth, (layer, step) in enumerate(self._steps(path)):
            if reason := layer.why_not(step, folder=depth < path.count("/") or (self.root / step).is_dir()):
                return reason
        return None

    def why_not_inside(self, item: Item) -> Callable[[str], str | None]:
        """Return a function that tells why a file inside of a listed file is excluded, by its address there.

        Patterns see the file as a folder whose name ends with `!`. `include` selects files of folders only. Raises SourceError.
        """
        path = to_path(item.locator)
        try:
            *_, (layer, _) = self._steps(path)
        except OSError as error:
            raise self.unavailable(error) from error
        layer = replace(layer, include=parse_patterns(()))

        def why_not(address: str) -> str | None:
            return layer.why_not_below(address, f"{path}{PARTS}")

        return why_not

    def _steps(self, path: str) -> Iterator[tuple[Layer, str]]:
        """Yield the folders above a path and the path itself, each with the rules that apply to it. Raises OSError."""
        layer, step = self.rules.top(), ""
        for name in path.split("/"):
            layer = layer.enter(step, str(self.root / step))
            step = f"{step}/{name}" if step else name
            yield layer, step

    def unavailable(self, error: OSError) -> SourceError:
        """Convert an error on the root itself to a SourceError with the remedy."""
        name = self.name
        if isinstance(error, UnknownRules):
            return SourceUnavailable(f"folder {name!r}: {error}")
        if isinstance(error, PermissionError):
            return LoginFailed(f"folder {name!r}: permission denied; grant read access to the user that runs Catchment")
        if isinstance(error, NotADirectoryError):
            return SourceInvalid(f"{name!r}: not a folder; set `root` to the folder that contains it")
        if isinstance(error, FileNotFoundError):
            return SourceUnavailable(missing_root(self.name))
        return SourceUnavailable(f"folder {name!r}: read error ({os.strerror(error.errno or 0)}); check its disk")
