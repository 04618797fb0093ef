"""List single folders: the stat results of their selected files, and their subfolders."""

from __future__ import annotations

import errno
import hashlib
import marshal
import os
import stat
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from catchment.content.parts.containers import kind_of_container
from catchment.settings import Home
from connectors.folders.file import FileEntry, to_locator, until_tick
from connectors.folders.ignore import IgnoreRules, Layer

Stamp = tuple[int, int, int]
"""The inode and the times of a folder, which change when an entry is added, removed or renamed."""


class ScannedFolder(NamedTuple):
    """A folder to list: its path on disk, its path relative to the root, and the rules and device of its parent."""

    path: str
    relative: str
    above: Layer
    device: int | None = None

    @property
    def container(self) -> str:
        """The folder's locator; "" for the root."""
        return to_locator(self.relative)

    def child(self, name: str) -> str:
        """Return the path of an entry relative to the root."""
        return f"{self.relative}/{name}" if self.relative else name

    def enter(self, name: str, listing: FolderListing) -> ScannedFolder:
        """Return a subfolder, given the listing of this folder."""
        return ScannedFolder(f"{self.path}/{name}", self.child(name), listing.layer, listing.device)


@dataclass(slots=True)
class FolderListing:
    """The entries of one folder.

    `files` are the selected files, sorted, as plain tuples with the fields of `FileEntry`. `stat_errors` are files whose
    stat failed. `excluded` are the names of excluded files. `folders` are to be listed next; `pruned` are excluded
    subfolders. `stamp` is the folder's stamp before it was listed; None if it is so recent that a later change might not
    show in it.
    """

    layer: Layer
    device: int
    stamp: Stamp | None = None
    files: list[tuple[str, int, int, int, int, int]] = field(default_factory=list)
    stat_errors: dict[str, OSError] = field(default_factory=dict)
    excluded: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    pruned: list[str] = field(default_factory=list)

    def digest(self, max_bytes: int) -> str:
        """Return a digest that changes with the folder's files and with the rules.

        Excluded names are included, because a known item that was excluded may now be deleted.
        """
        stat_errors = [(name, error.errno) for name, error in self.stat_errors.items()]
        # marshal is the fastest stable encoding of plain tuples. If a newer Python changes it, each folder is compared
        # once more.
        content = marshal.dumps((self.layer.key, max_bytes, self.files, stat_errors, sorted(self.excluded)), 2)
        return hashlib.sha256(content).hexdigest()[:24]

    @property
    def is_empty(self) -> bool:
        """Whether the folder has no entries, excluded ones included."""
        return not (self.files or self.stat_errors or self.excluded or self.folders or self.pruned)

    def locators(self, folder: ScannedFolder) -> set[str]:
        """Return the locators of the selected files, including the files with a failed stat."""
        locators = {to_locator(folder.child(file[0])) for file in self.files}
        locators.update(to_locator(folder.child(name)) for name in self.stat_errors)
        return locators


def stamp(status: os.stat_result) -> Stamp:
    """Return the stamp of a folder, given its stat result."""
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns


class Lister:
    """Lists the folders of one tree. `root` is its real path."""

    def __init__(self, root: Path, follow_links: bool) -> None:
        self._root = root
        self._follow = follow_links
        self._followed: dict[str, str] = {}
        home = os.path.realpath(Home.default().path)
        self._home = home if Path(home).is_relative_to(root) else ""

    def top(self, rules: IgnoreRules) -> ScannedFolder:
        """Return the root folder."""
        return ScannedFolder(str(self._root), "", rules.top())

    def at(self, relative: str, top: ScannedFolder) -> ScannedFolder | None:
        """Return the folder at a path relative to the root; None if it does not exist or is excluded."""
        folder = top
        for name in relative.split("/") if relative else ():
            path, inner = f"{folder.path}/{name}", folder.child(name)
            try:
                layer = folder.above.enter(folder.relative, folder.path)
                device, status = os.stat(folder.path).st_dev, os.lstat(path)  # noqa: PTH116 - as in `list`
            except OSError:
                return None
            if not stat.S_ISDIR(status.st_mode) or self._is_home(path) or layer.why_not(inner, folder=True):
                return None
            folder = ScannedFolder(path, inner, layer, device)
        return folder

    def list(self, folder: ScannedFolder) -> FolderListing:
        """List a folder, with one stat call for each file. Raises OSError if it or its ignore file cannot be read.

        So does a folder whose files would have the addresses of those inside of an archive beside it.
        """
        archive = folder.path.removesuffix("!")
        if archive != folder.path and kind_of_container(archive) and os.path.isfile(archive):  # noqa: PTH113 - as below
            raise FileExistsError(errno.EEXIST, "")
        # Scanning by descriptor saves resolving the folder's path for each file.
        handle = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            layer = folder.above.enter(folder.relative, folder.path)
            status = os.fstat(handle)
            listing = FolderListing(layer, status.st_dev, stamp(status))
            if until_tick(status.st_mtime_ns, status.st_ctime_ns):
                listing.stamp = None
            self._scan(folder, listing, handle)
        finally:
            os.close(handle)
        # The order of directory entries is not stable.
        listing.files.sort(key=itemgetter(0))
        if self._follow:
            self._follow_links(folder, listing)
        listing.folders.sort()
        return listing

    def _scan(self, folder: ScannedFolder, listing: FolderListing, handle: int) -> None:
        layer, append = listing.layer, listing.files.append
        has_patterns = layer.has_patterns
        with os.scandir(handle) as entries:
            for entry in entries:
                name = entry.name
                if entry.is_dir(follow_symlinks=False):
                    self._add_folder(folder, listing, name)
                    continue
                if layer.hides(name) or (has_patterns and layer.why_not(folder.child(name), folder=False)):
                    listing.excluded.append(name)
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    listing.stat_errors[name] = error
                    continue
                append((name, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode))

    def _add_folder(self, folder: ScannedFolder, listing: FolderListing, name: str) -> None:
        is_read = listing.layer.why_not(folder.child(name), folder=True) is None
        if is_read and not self._is_home(f"{folder.path}/{name}"):
            listing.folders.append(name)
        else:
            listing.pruned.append(name)

    def _is_home(self, path: str) -> bool:
        """Return whether the path is CATCHMENT_HOME: reading it would change it, endlessly."""
        return bool(self._home) and (os.path.realpath(path) if self._follow else path) == self._home

    def _follow_links(self, folder: ScannedFolder, listing: FolderListing) -> None:
        """Replace links by their targets if these are inside the root and do not form a cycle."""
        files = []
        for file in listing.files:
            path = f"{folder.path}/{file[0]}"
            target = self._target(path) if stat.S_ISLNK(file[5]) else None
            if target is None:
                files.append(file)
            elif not stat.S_ISDIR(target.st_mode):
                files.append((*FileEntry.of(file[0], target),))
            elif self._is_followed(folder.path, path):
                listing.folders.append(file[0])
            else:
                files.append(file)
        listing.files = files

    def _target(self, path: str) -> os.stat_result | None:
        """Return the stat result of a link's target; None if it is missing, outside the root or in CATCHMENT_HOME."""
        real = Path(os.path.realpath(path))
        try:
            return real.stat() if real.is_relative_to(self._root) and not real.is_relative_to(self._home) else None
        except OSError:
            return None

    def _is_followed(self, folder: str, path: str) -> bool:
        """Return whether to follow a link: not to a folder above it, and not where another link already led."""
        real = os.path.realpath(path)
        return not Path(os.path.realpath(folder)).is_relative_to(real) and self._followed.setdefault(real, path) == path
