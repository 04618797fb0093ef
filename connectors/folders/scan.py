"""One folder as it is on disk: its wanted files with what one stat call says of each, and the folders below it."""

from __future__ import annotations

import hashlib
import marshal
import os
import stat
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from catchment.settings import Home
from connectors.folders.file import FileEntry, to_locator
from connectors.folders.ignore import IgnoreRules, Layer


class ScannedFolder(NamedTuple):
    """A folder to list: its path on disk, its path relative to the root, and what holds above it: rules and device."""

    path: str
    relative: str
    above: Layer
    device: int | None = None

    @property
    def container(self) -> str:
        """The folder's own locator; "" for the root."""
        return to_locator(self.relative)

    def child(self, name: str) -> str:
        """The path of something in the folder, relative to the root."""
        return f"{self.relative}/{name}" if self.relative else name

    def enter(self, name: str, listing: Listing) -> ScannedFolder:
        """A folder in this one, of which `listing` is the listing."""
        return ScannedFolder(f"{self.path}/{name}", self.child(name), listing.layer, listing.device)


@dataclass(slots=True)
class Listing:
    """What was found in a folder.

    `files` are wanted (plain tuples in the shape of `FileEntry`, sorted), `unseen` are files that could not be looked at,
    `passed_over` are names of files that the rules leave out, `folders` are to be listed next, `closed` are not.
    """

    layer: Layer
    device: int
    files: list[tuple[str, int, int, int, int, int]] = field(default_factory=list)
    unseen: dict[str, OSError] = field(default_factory=dict)
    passed_over: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)

    def digest(self, max_bytes: int) -> str:
        """Differs whenever something about the folder's files, or about which are wanted, does.

        The names passed over count, because an item that was excluded may now be gone.
        """
        unseen = [(name, error.errno) for name, error in self.unseen.items()]
        # marshal is the fastest stable form of plain tuples; a newer Python that writes it differently costs one closer look.
        said = marshal.dumps((self.layer.key, max_bytes, self.files, unseen, sorted(self.passed_over)), 2)
        return hashlib.sha256(said).hexdigest()[:24]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in the folder, wanted or not."""
        return not (self.files or self.unseen or self.passed_over or self.folders or self.closed)

    def locators(self, folder: ScannedFolder) -> set[str]:
        """The locators of the files, seen and unseen."""
        found = {to_locator(folder.child(file[0])) for file in self.files}
        found.update(to_locator(folder.child(name)) for name in self.unseen)
        return found


class Lister:
    """Lists the folders of one tree, of which `root` is the real path."""

    def __init__(self, root: Path, follow_links: bool) -> None:
        self._root = root
        self._follow = follow_links
        self._followed: dict[str, str] = {}
        own = os.path.realpath(Home.default().path)
        self._own_state = own if Path(own).is_relative_to(root) else ""

    def top(self, rules: IgnoreRules) -> ScannedFolder:
        """The root as the first folder to list."""
        return ScannedFolder(str(self._root), "", rules.top())

    def at(self, relative: str, top: ScannedFolder) -> ScannedFolder | None:
        """The folder at a path relative to the root; None where there is none, or none that is wanted."""
        folder = top
        for name in relative.split("/") if relative else ():
            path, inner = f"{folder.path}/{name}", folder.child(name)
            try:
                layer = folder.above.enter(folder.relative, folder.path)
                device, found = os.stat(folder.path).st_dev, os.lstat(path)  # noqa: PTH116 - as in `list`
            except OSError:
                return None
            if not stat.S_ISDIR(found.st_mode) or self._is_own(path) or layer.why_not(inner, folder=True):
                return None
            folder = ScannedFolder(path, inner, layer, device)
        return folder

    def list(self, folder: ScannedFolder) -> Listing:
        """Look at every file of a folder once. Raises OSError when the folder, or what its rules are, cannot be read."""
        # By its handle: the system then need not find the way to the folder again for each file.
        handle = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            layer = folder.above.enter(folder.relative, folder.path)
            listing = Listing(layer, os.fstat(handle).st_dev)
            self._look(folder, listing, handle)
        finally:
            os.close(handle)
        # The order of a folder on disk may differ from one time to the next.
        listing.files.sort(key=itemgetter(0))
        if self._follow:
            self._follow_links(folder, listing)
        listing.folders.sort()
        return listing

    def _look(self, folder: ScannedFolder, listing: Listing, handle: int) -> None:
        layer, keep = listing.layer, listing.files.append
        tests = layer.tests
        with os.scandir(handle) as entries:
            for entry in entries:
                name = entry.name
                if entry.is_dir(follow_symlinks=False):
                    self._sort_folder(folder, listing, name)
                    continue
                if (name[0] == "." and layer.hides(name)) or (
                    tests and layer.why_not(folder.child(name), folder=False)
                ):
                    listing.passed_over.append(name)
                    continue
                try:
                    found = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    listing.unseen[name] = error
                    continue
                keep((name, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode))

    def _sort_folder(self, folder: ScannedFolder, listing: Listing, name: str) -> None:
        wanted = listing.layer.why_not(folder.child(name), folder=True) is None
        if wanted and not self._is_own(f"{folder.path}/{name}"):
            listing.folders.append(name)
        else:
            listing.closed.append(name)

    def _is_own(self, path: str) -> bool:
        """Whether it is our own state, which would be changed by being read, without end."""
        return bool(self._own_state) and (os.path.realpath(path) if self._follow else path) == self._own_state

    def _follow_links(self, folder: ScannedFolder, listing: Listing) -> None:
        """Put what links lead to in their place, where that is inside the root and does not go round in circles."""
        files = []
        for file in listing.files:
            path = f"{folder.path}/{file[0]}"
            found = self._target(path) if stat.S_ISLNK(file[5]) else None
            if found is None:
                files.append(file)
            elif not stat.S_ISDIR(found.st_mode):
                files.append((*FileEntry.of(file[0], found),))
            elif self._leads_on(folder.path, path):
                listing.folders.append(file[0])
            else:
                files.append(file)
        listing.files = files

    def _target(self, path: str) -> os.stat_result | None:
        """What a link leads to; None if that is nothing, outside of the root, or in our own state."""
        real = Path(os.path.realpath(path))
        try:
            return real.stat() if real.is_relative_to(self._root) and not real.is_relative_to(self._own_state) else None
        except OSError:
            return None

    def _leads_on(self, folder: str, path: str) -> bool:
        """Whether a link to a folder leads neither upwards nor where another link has led: both could go on without end."""
        real = os.path.realpath(path)
        return not Path(os.path.realpath(folder)).is_relative_to(real) and self._followed.setdefault(real, path) == path
