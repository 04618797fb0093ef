"""A tree of folders compared with what is known of it, as a whole or where somebody saw something change.

A folder whose listing gives the same digest as last time is passed over without asking what is known of its files, so that a
comparison that finds nothing costs little more than the walk.
"""

from __future__ import annotations

import os
import stat
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from catchment.contracts import Known
from catchment.errors import AccessDenied, FetchFailed, ItemError, SourceUnavailable, Vanished
from catchment.model import Change, Checkpoint, Failure, Item, KnownItem, Skip, SkipReason, Tombstone, Upsert
from connectors.folders.excluded import now_excluded
from connectors.folders.file import FileEntry, identity, item_error, opened, sha256, tells_every_change, to_locator
from connectors.folders.scan import Lister, Listing, ScannedFolder

if TYPE_CHECKING:
    from connectors.folders.tree import FolderTree

_UNCHANGED_PER_CHECKPOINT = 100
"""Folders that were looked at, or files that were compared; where nothing has changed, the only sign that a listing gets on."""
_SKIPPED = frozenset(SkipReason)
_EXCLUDED, _UNREADABLE = "excluded", "unreadable"
# Ends the mark of a folder on which another disk is mounted.
_MOUNTED = "@"
# Begins what the mark of a folder says of the week, where the file system does not tell every change.
_WEEK = "~"
_SECONDS_A_WEEK = 7 * 24 * 3_600
_ABSENT = (FileNotFoundError, NotADirectoryError)


class Comparison:
    """One listing of a tree, under way."""

    def __init__(self, tree: FolderTree, known: Known, root: str, *, deep: bool) -> None:
        self._tree = tree
        self.root = root
        self._known = known
        self._deep = deep
        self._marks = known.marks()
        self._ready: dict[str, str | None] = {}
        self._visited: set[str] = set()
        self._compared = 0
        self._closed: dict[str, str] = {}
        self._telling: dict[int, bool] = {}
        self._late: list[tuple[ScannedFolder, frozenset[str]]] = []
        self._mounted: list[tuple[ScannedFolder, int]] = []
        self._lister = Lister(Path(os.path.realpath(tree.root)), tree.follow_links)

    def checkpoint(self) -> Checkpoint:
        """The marks of the folders that are finished."""
        marks, self._ready = self._ready, {}
        return Checkpoint(marks)

    def run(self) -> Iterator[Change]:
        """Say every change: first what is gone or changed, then what is new."""
        waiting = self._starts()
        while waiting:
            folder = waiting.pop()
            if folder.container in self._visited:
                continue
            try:
                listing = self._lister.list(folder)
            except OSError as error:
                yield from self._unlisted(folder, error)
                continue
            if self._lost_its_disk(folder, listing):
                yield from self._unmounted(folder.container)
                continue
            self._visited.add(folder.container)
            if _is_mounted(folder, listing):
                self._mounted.append((folder, listing.device))
            if len(self._visited) % _UNCHANGED_PER_CHECKPOINT == 0:
                yield self.checkpoint()
            waiting.extend(self._below(folder, listing))
            self._closed.update((to_locator(folder.child(name)), _EXCLUDED) for name in listing.closed)
            yield from self._if_changed(folder, listing)
        self._hold_to_root()
        yield from self._unmounted_meanwhile()
        yield from self._gone_folders()
        if self._late:
            yield from self._late_comers()
            self._hold_to_root()

    def _hold_to_root(self) -> None:
        if self._tree.identity() != self.root:
            raise SourceUnavailable(f"the folder {self._tree.name!r} was replaced while it was listed; sync again")

    @cached_property
    def _containers(self) -> frozenset[str]:
        return self._known.containers()

    def _starts(self) -> list[ScannedFolder]:
        """Where the listing begins, the last first."""
        return [self._lister.top(self._tree.rules)]

    def _below(self, folder: ScannedFolder, listing: Listing) -> list[ScannedFolder]:
        """The folders in a folder that are to be listed, the last first."""
        return [folder.enter(name, listing) for name in reversed(listing.folders)]

    def _concerns(self, container: str) -> bool:  # noqa: ARG002 - for a listing of a part
        """Whether a folder that was not listed is to be missed."""
        return True

    # ── comparing one folder ──────────────────────────────────────────────────────────────────────────────────────────

    def _if_changed(self, folder: ScannedFolder, listing: Listing) -> Iterator[Change]:
        digest = self._digest(folder, listing)
        key = _mark(folder.container)
        if self._marks.get(key) == digest and not self._deep:
            if digest.endswith(_MOUNTED) and key in self._known.within(folder.container):
                yield Tombstone(key)  # Its disk was away, and is back as it was.
            return
        if not self._marks and not self._containers:
            yield from self._present(folder, listing, {}, deep=False)
            self._ready[key] = digest
            return
        if not self._was_mounted(key) and key in self._marks:
            # A checkpoint may come before all is told: what it has of the folder must not be passed over if all is as it was.
            self._ready[key] = None
        here = self._known.within(folder.container)
        names = listing.locators(folder)
        left = frozenset(here.keys() - names)
        yield from self._departed(folder, listing, here, left)
        if names <= here.keys():
            yield from self._present(folder, listing, here, deep=self._is_due(key, digest))
            self._ready[key] = digest
        else:
            self._late.append((folder, left))

    def _late_comers(self) -> Iterator[Change]:
        """The folders with new files, listed once more now that all deletions are said."""
        for folder, said in self._late:
            try:
                listing = self._lister.list(folder)
            except OSError:
                continue  # It goes on changing; without a mark the next sync looks again.
            if self._lost_its_disk(folder, listing):
                yield from self._unmounted(folder.container)
                continue
            here = self._known.within(folder.container)
            left = here.keys() - listing.locators(folder) - said
            yield from self._departed(folder, listing, here, left)
            key, digest = _mark(folder.container), self._digest(folder, listing)
            yield from self._present(folder, listing, here, deep=self._is_due(key, digest))
            self._ready[key] = digest

    def _digest(self, folder: ScannedFolder, listing: Listing) -> str:
        digest = listing.digest(self._tree.max_bytes)
        if listing.device not in self._telling:
            self._telling[listing.device] = tells_every_change(folder.path)
        if not self._telling[listing.device]:
            digest = f"{digest}{_WEEK}{int(time.time() // _SECONDS_A_WEEK)}"
        return f"{digest}{_MOUNTED}" if _is_mounted(folder, listing) else digest

    def _is_due(self, key: str, digest: str) -> bool:
        """Whether the contents of a folder are compared: if that is asked for, or in a week that its mark is not of."""
        return self._deep or _week(self._marks.get(key, "")) != _week(digest)

    def _present(
        self, folder: ScannedFolder, listing: Listing, here: Mapping[str, KnownItem], *, deep: bool
    ) -> Iterator[Change]:
        container = folder.container
        for file in map(FileEntry._make, listing.files):
            locator = to_locator(folder.child(file.name))
            old = here.get(locator)
            reason = self._unwanted(file)
            version = f"{file.fingerprint}+{reason}" if reason else file.fingerprint
            if old and _stands(old, file.fingerprint, reason):
                if deep and not reason:
                    yield from self._compare_content(locator, container, file, old)
                    self._compared += 1
                    if self._compared % _UNCHANGED_PER_CHECKPOINT == 0:
                        yield Checkpoint()
                continue
            item = Item(
                locator=locator,
                container=container,
                version=version,
                identity=None if reason else identity(file, f"{folder.path}/{file.name}"),
                size=file.size,
                modified=file.modified,
                attributes={"type": _type_name(file.mode)} if reason and not stat.S_ISREG(file.mode) else {},
            )
            yield Skip(item, reason) if reason else Upsert(item)
        for name, error in sorted(listing.unseen.items()):
            locator = to_locator(folder.child(name))
            version = f"unseen.{error.errno}"
            if locator not in here or here[locator].version != version:
                yield Failure(Item(locator, container, version), item_error(error))

    def _departed(
        self, folder: ScannedFolder, listing: Listing, here: Mapping[str, KnownItem], left: Iterable[str]
    ) -> Iterator[Change]:
        """Known items that are not listed any more: gone, or still there and not wanted since a rule changed."""
        passed_over = {to_locator(folder.child(name)) for name in listing.passed_over}
        for locator in sorted(left):
            if locator in passed_over:
                yield from now_excluded(locator, folder.container, here[locator])
            else:
                yield Tombstone(locator)

    def _unwanted(self, file: FileEntry) -> SkipReason | None:
        if stat.S_ISREG(file.mode):
            return SkipReason.TOO_LARGE if file.size > self._tree.max_bytes else None
        return SkipReason.EXCLUDED if stat.S_ISLNK(file.mode) else SkipReason.UNSUPPORTED

    def _compare_content(self, locator: str, container: str, file: FileEntry, old: KnownItem) -> Iterator[Change]:
        """Read a file that looks unchanged, and say so if its content is not what it was."""
        if old.content_hash is None:
            return
        item = Item(locator, container, old.version, old.identity, file.size, file.modified)
        try:
            with opened(self._tree.root, locator, file.fingerprint, follow_links=self._tree.follow_links) as (
                handle,
                _,
            ):
                content = sha256(handle)
        except Vanished:
            return
        except ItemError as error:
            yield Failure(item, error)
            return
        version = f"{file.fingerprint}+{content[:16]}"
        if content != old.content_hash and version != old.version:
            yield Upsert(replace(item, version=version))

    # ── folders that were not listed ──────────────────────────────────────────────────────────────────────────────────

    def _unlisted(self, folder: ScannedFolder, error: OSError) -> Iterator[Change]:
        """A folder that cannot be listed keeps what is known below it, and stands as a failed item of its own."""
        if not folder.relative:
            raise self._tree.unavailable(error) from error
        if isinstance(error, _ABSENT):
            return
        container = folder.container
        self._closed[container] = _UNREADABLE
        failure = item_error(error)
        # Only a refusal is remembered: anything else may be different next time.
        mark = f"{_UNREADABLE}.{error.errno}" if isinstance(failure, AccessDenied) else None
        key = _mark(container)
        if mark is None or self._marks.get(key) != mark:
            # A checkpoint may come in between: what it has of the folder must not be passed over when that can be read again.
            self._ready[key] = None
            yield Failure(Item(key, container, f"{_UNREADABLE}.{error.errno}"), failure)
            self._ready[key] = mark

    def _lost_its_disk(self, folder: ScannedFolder, listing: Listing) -> bool:
        """Whether a disk was mounted here last time, and now there is only the empty folder for it."""
        was_mounted = self._was_mounted(_mark(folder.container))
        return was_mounted and listing.is_empty and folder.device == listing.device

    def _was_mounted(self, key: str) -> bool:
        return self._marks.get(key, "").endswith(_MOUNTED)

    def _unmounted(self, container: str) -> Iterator[Change]:
        """A folder without its disk keeps what is known below it; it stands as a failed item until the disk is back."""
        self._closed[container] = _UNREADABLE
        locator = _mark(container)
        if locator not in self._known.within(container):
            error = FetchFailed(
                "its disk is not mounted; mount it, or delete the empty folder if the disk is gone for good"
            )
            yield Failure(Item(locator, container, "unmounted"), error)

    def _unmounted_meanwhile(self) -> Iterator[Change]:
        """The folders that lost their disk after they were listed: what was below them and not listed yet is not gone."""
        for folder, device in self._mounted:
            try:
                is_there = self._lister.list(folder).device == device
            except OSError:
                is_there = False
            if not is_there:
                yield from self._unmounted(folder.container)

    def _gone_folders(self) -> Iterator[Change]:
        """What is known below folders that are not there any more, or that a rule has closed since."""
        for container in sorted(filter(self._concerns, self._containers - self._visited)):
            closed = self._closed_above(container)
            key = _mark(container)
            if closed == _UNREADABLE or (closed == _EXCLUDED and self._marks.get(key) == _EXCLUDED):
                continue
            # A checkpoint may come in between: what it has of the folder must not be passed over when that comes back.
            self._ready[key] = None
            for locator, old in sorted(self._known.within(container).items()):
                if closed:
                    yield from now_excluded(locator, container, old)
                else:
                    yield Tombstone(locator)
            self._ready[key] = closed
        for key in self._marks:
            container = key.removesuffix("/")
            unseen = container not in self._visited and self._concerns(container)
            if unseen and key not in self._ready and not self._closed_above(container):
                self._ready[key] = None

    def _closed_above(self, container: str) -> str | None:
        """Why a folder was not listed, if it or one above it is closed."""
        while container:
            if reason := self._closed.get(container):
                return reason
            container = container.rpartition("/")[0]
        return None


class ComparisonAt(Comparison):
    """A listing of what somebody saw change: what is at these paths now with all below it, and the folders that they are in.

    A folder is missed where the one that it was in is listed and does not have it any more.
    """

    def __init__(self, tree: FolderTree, known: Known, root: str, paths: Collection[str]) -> None:
        super().__init__(tree, known, root, deep=False)
        self._paths = paths
        self._alone: set[str] = set()
        self._missed: set[str] = set()

    def _starts(self) -> list[ScannedFolder]:
        top = self._lister.top(self._tree.rules)
        whole = [folder for path in self._paths if (folder := self._lister.at(path, top))]
        within = {folder.container for folder in whole}
        inside = {folder.container: folder for path in self._paths for folder in (self._around(path, top),)}
        self._alone = {container for container in inside if not _is_below(container, within)}
        # Those that are listed with all below come first: the others need not be listed again then.
        return [inside[container] for container in self._alone] + whole

    def _around(self, path: str, top: ScannedFolder) -> ScannedFolder:
        """The folder that a path is in; where that is gone too, the nearest above."""
        while path:
            path = path.rpartition("/")[0]
            if folder := self._lister.at(path, top):
                return folder
        return top

    def _below(self, folder: ScannedFolder, listing: Listing) -> list[ScannedFolder]:
        below = super()._below(folder, listing)
        self._missed |= self._children[folder.container] - {one.container for one in below}
        if folder.container not in self._alone:
            return below
        return [one for one in below if self._marks.get(_mark(one.container), _EXCLUDED) == _EXCLUDED]

    @cached_property
    def _children(self) -> Mapping[str, set[str]]:
        """By folder, the folders that were in it at the last listing."""
        children: defaultdict[str, set[str]] = defaultdict(set)
        for key in self._marks:
            if container := key.removesuffix("/"):
                children[container.rpartition("/")[0]].add(container)
        return children

    def _gone_folders(self) -> Iterator[Change]:
        if self._missed:
            yield from super()._gone_folders()

    def _concerns(self, container: str) -> bool:
        """Whether it, or a folder above it, is missed."""
        return _is_below(container, self._missed)


def _is_below(container: str, folders: Collection[str]) -> bool:
    """Whether a folder, or one above it, is among these."""
    while container not in folders:
        if not container:
            return False
        container = container.rpartition("/")[0]
    return True


def _mark(container: str) -> str:
    """The mark of a folder, which is also the locator of the folder itself where it stands as an item."""
    return f"{container}/"


def _is_mounted(folder: ScannedFolder, listing: Listing) -> bool:
    """Whether another disk is mounted on a folder than on the one that it is in."""
    return folder.device not in (None, listing.device)


def _week(mark: str) -> str:
    return mark.removesuffix(_MOUNTED).partition(_WEEK)[2]


def _stands(old: KnownItem, fingerprint: str, reason: SkipReason | None) -> bool:
    """Whether what is known still holds. What follows the plus is why it was skipped, or a deep listing's content hash."""
    known, _, tail = old.version.partition("+")
    return known == fingerprint and (tail == reason if reason else tail not in _SKIPPED)


def _type_name(mode: int) -> str:
    for is_type, name in ((stat.S_ISLNK, "link"), (stat.S_ISFIFO, "pipe"), (stat.S_ISSOCK, "socket")):
        if is_type(mode):
            return name
    return "device"
