"""Compare a folder tree with its known items. `path_diff` compares only reported paths, `file_diff` the files.

Each listed folder gets a mark: the digest of its listing. A folder whose digest equals its mark is skipped without
reading its known items, so that a comparison without changes costs little more than the directory walk.

Files may move while folders are listed one after another. Folders that changed since their listing are therefore listed
again, until none has: then all listings are of one moment.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

from catchment.contracts import Known
from catchment.errors import AccessDenied, FetchFailed
from catchment.model import Change, Checkpoint, Failure, Item, KnownItem, Root, Tombstone
from connectors.folders.excluded import no_longer_listed, now_excluded
from connectors.folders.file import (
    has_change_times,
    item_error,
    let_clock_tick,
    to_locator,
)
from connectors.folders.file_diff import UNCHANGED_PER_CHECKPOINT, FileComparison
from connectors.folders.scan import FolderListing, Lister, ScannedFolder, Stamp, stamp
from connectors.folders.tree import FolderTree

_CHANGES_PER_CHECKPOINT = 1_000
_PAUSES = (0.0, 0.1, 0.5, 1.0)
"""Seconds before changed folders are listed again. A folder that changes all the time must not delay the sync for ever."""
EXCLUDED, _UNREADABLE = "excluded", "unreadable"
"""Why a folder was not listed; also the mark of an excluded folder."""
# Suffix of the mark of a mount point.
_MOUNTED = "@"
# Precedes the week number in a mark on file systems without change times; once a week the contents are compared.
_WEEK = "~"
_SECONDS_A_WEEK = 7 * 24 * 3_600
_ABSENT = (FileNotFoundError, NotADirectoryError)


class Comparison:
    """A comparison in progress. Use it once.

    Deletions precede new files, so that moves are recognised at once.
    """

    def __init__(self, tree: FolderTree, known: Known, *, deep: bool) -> None:
        self._tree = tree
        self._root = tree.identity()
        self._known = known
        self._deep = deep
        self._marks = dict(known.marks())
        self._new_marks: dict[str, str | None] = {}
        self._is_first = not self._marks and not self._containers
        self._listed: dict[str, tuple[ScannedFolder, Stamp | None]] = {}
        self._torn: dict[str, Stamp | None] = {}
        self._decides = True
        self._files = FileComparison(tree)
        self._pruned: dict[str, str] = {}
        self._has_change_times: dict[int, bool] = {}
        self._deferred: list[tuple[ScannedFolder, frozenset[str]]] = []
        self._mounts: list[tuple[ScannedFolder, int]] = []
        self._lister = Lister(Path(os.path.realpath(tree.root)), tree.follow_links)

    def changes(self) -> Iterator[Change]:
        """Yield the root and all changes as `Connector.changes` does, with checkpoints between them."""
        yield Root({"": self._root})
        for count, change in enumerate(self._run(), 1):
            yield change
            if count % _CHANGES_PER_CHECKPOINT == 0:
                yield self._checkpoint()
        yield self._checkpoint()

    def _checkpoint(self) -> Checkpoint:
        """Return a checkpoint with the marks of the folders completed since the last one."""
        marks, self._new_marks = self._new_marks, {}
        for key, value in marks.items():
            if value is None:
                self._marks.pop(key, None)
            else:
                self._marks[key] = value
        return Checkpoint(marks, is_torn=not self._decides)

    def _run(self) -> Iterator[Change]:
        """Yield all changes: first deletions and edits, then new files."""
        yield from self._walk(self._start_folders())
        self._tree.check_root(self._root)
        yield from self._report_later_unmounts()
        yield from self._removed_folders()
        yield from self._deferred_folders()
        yield from self._list_again()
        self._tree.check_root(self._root)

    def _walk(self, waiting: list[ScannedFolder]) -> Iterator[Change]:
        """Compare these folders, the last one first, and the folders below them, unless they are already listed."""
        while waiting:
            folder = waiting.pop()
            if folder.container in self._listed:
                continue
            try:
                listing = self._lister.list(folder)
            except OSError as error:
                yield from self._unreadable_folder(folder, error)
                continue
            if self._is_unmounted(folder, listing):
                yield from self._report_unmounted(folder.container)
                continue
            self._listed[folder.container] = folder, listing.stamp
            if _is_mounted(folder, listing):
                self._mounts.append((folder, listing.device))
            if len(self._listed) % UNCHANGED_PER_CHECKPOINT == 0:
                yield self._checkpoint()
            waiting.extend(self._subfolders(folder, listing))
            self._pruned.update((to_locator(folder.child(name)), EXCLUDED) for name in listing.pruned)
            yield from self._compare(folder, listing)

    # ── folders that changed since their listing ──────────────────────────────────────────────────────────────────────

    def _list_again(self) -> Iterator[Change]:
        """List folders that changed since their listing again, so that a file that moved meanwhile is not missed.

        If some change even during the last round, this leaves the deletions in them to the next sync.
        """
        self._is_first = self._deep = False
        for number in range(len(_PAUSES)):
            self._torn = {
                container: now
                for container, (folder, listed) in self._listed.items()
                if (now := _stamp_now(folder)) != listed
            }
            if not self._torn:
                return
            for now in self._torn.values():
                let_clock_tick(*(now or ())[1:])
            time.sleep(_PAUSES[number])
            self._decides = number < len(_PAUSES) - 1
            yield self._checkpoint()  # From here, the known items include all that was reported.
            # A changed folder above another one leads to it, if it is still there and was not replaced by a link.
            starts = [self._listed[container][0] for container in self._torn if not self._is_below_torn(container)]
            for container in self._torn:
                del self._listed[container]
            yield from self._walk(starts)
            if self._decides:
                yield from self._report_later_unmounts()
                yield from self._remove(self._torn.keys() - self._listed.keys())
            yield from self._deferred_folders()

    def _is_below_torn(self, container: str) -> bool:
        return container != "" and container.rpartition("/")[0] in self._torn

    @cached_property
    def _containers(self) -> frozenset[str]:
        return self._known.containers()

    def _start_folders(self) -> list[ScannedFolder]:
        """Return the folders where the listing starts, in reverse order."""
        return [self._lister.top(self._tree.rules)]

    def _subfolders(self, folder: ScannedFolder, listing: FolderListing) -> list[ScannedFolder]:
        """Return the subfolders to list, in reverse order."""
        return [folder.enter(name, listing) for name in reversed(listing.folders)]

    def _counts_as_removed(self, container: str) -> bool:  # noqa: ARG002 - used by the subclass
        """Return whether a folder that was not listed counts as deleted."""
        return True

    # ── comparing one folder ──────────────────────────────────────────────────────────────────────────────────────────

    def _compare(self, folder: ScannedFolder, listing: FolderListing) -> Iterator[Change]:
        digest = self._digest(folder, listing)
        key = mark_key(folder.container)
        if self._marks.get(key) == digest and not self._deep:
            if digest.endswith(_MOUNTED) and key in self._known.within(folder.container):
                yield Tombstone(key)  # The disk was missing and is mounted again, unchanged.
            return
        if self._is_first:
            yield from self._files.compare(folder, listing, {}, deep=False)
            self._new_marks[key] = digest
            return
        if not self._was_mounted(key) and key in self._marks:
            # A checkpoint may be taken before the folder is complete. Without a mark, the next sync compares the folder
            # again.
            self._new_marks[key] = None
        known_items = self._known.within(folder.container)
        names = listing.locators(folder)
        missing = frozenset(known_items.keys() - names)
        yield from self._missing_files(folder, listing, known_items, missing)
        if names <= known_items.keys():
            yield from self._files.compare(folder, listing, known_items, deep=self._compares_content(key, digest))
            self._complete(key, digest)
        else:
            self._deferred.append((folder, missing))

    def _deferred_folders(self) -> Iterator[Change]:
        """List the folders with new files again, now that all deletions are reported."""
        deferred, self._deferred = self._deferred, []
        for folder, reported in deferred:
            try:
                listing = self._lister.list(folder)
            except OSError:
                continue  # Changed again; without a mark the next sync lists it.
            if self._is_unmounted(folder, listing):
                yield from self._report_unmounted(folder.container)
                continue
            known_items = self._known.within(folder.container)
            missing = known_items.keys() - listing.locators(folder) - reported
            yield from self._missing_files(folder, listing, known_items, missing)
            key, digest = mark_key(folder.container), self._digest(folder, listing)
            yield from self._files.compare(folder, listing, known_items, deep=self._compares_content(key, digest))
            self._complete(key, digest)

    def _complete(self, key: str, digest: str) -> None:
        """Keep the mark of a compared folder, unless the next sync has to decide about its deletions."""
        if self._decides:
            self._new_marks[key] = digest

    def _digest(self, folder: ScannedFolder, listing: FolderListing) -> str:
        digest = listing.digest(self._tree.max_bytes)
        if listing.device not in self._has_change_times:
            self._has_change_times[listing.device] = has_change_times(folder.path)
        if not self._has_change_times[listing.device]:
            # Only the contents show an edit that kept size and time. They are compared weekly, and not on network file
            # systems, because comparing would transfer every file.
            digest = f"{digest}{_WEEK}{int(time.time() // _SECONDS_A_WEEK)}"
        return f"{digest}{_MOUNTED}" if _is_mounted(folder, listing) else digest

    def _compares_content(self, key: str, digest: str) -> bool:
        """Return whether to compare file contents: in a deep comparison, and when the mark is from another week."""
        return self._deep or _week(self._marks.get(key, "")) != _week(digest)

    def _missing_files(
        self,
        folder: ScannedFolder,
        listing: FolderListing,
        known_items: Mapping[str, KnownItem],
        missing: Iterable[str],
    ) -> Iterator[Change]:
        """Report known items that are no longer listed: deleted, or excluded since the rules changed."""
        if not self._decides:
            return
        excluded = {to_locator(folder.child(name)) for name in listing.excluded}
        for locator in sorted(missing):
            if locator in excluded:
                yield from now_excluded(locator, folder.container, known_items[locator])
            else:
                yield Tombstone(locator)

    # ── folders that were not listed ──────────────────────────────────────────────────────────────────────────────────

    def _unreadable_folder(self, folder: ScannedFolder, error: OSError) -> Iterator[Change]:
        """Report an unreadable folder as a failing item; the known items below it are kept."""
        if not folder.relative:
            raise self._tree.unavailable(error) from error
        if isinstance(error, _ABSENT):
            return
        container = folder.container
        self._pruned[container] = _UNREADABLE
        failure = item_error(error)
        # Only a denied access is remembered: other errors may not recur.
        mark = f"{_UNREADABLE}.{error.errno}" if isinstance(failure, AccessDenied) else None
        key = mark_key(container)
        if mark is None or self._marks.get(key) != mark:
            # A checkpoint may be taken after the Failure. Without a mark, the next sync compares the folder again.
            self._new_marks[key] = None
            yield Failure(Item(key, container, f"{_UNREADABLE}.{error.errno}"), failure)
            self._new_marks[key] = mark

    def _is_unmounted(self, folder: ScannedFolder, listing: FolderListing) -> bool:
        """Return whether a former mount point is now an empty folder on the parent's device."""
        was_mounted = self._was_mounted(mark_key(folder.container))
        return was_mounted and listing.is_empty and folder.device == listing.device

    def _was_mounted(self, key: str) -> bool:
        return self._marks.get(key, "").endswith(_MOUNTED)

    def _report_unmounted(self, container: str) -> Iterator[Change]:
        """Report a missing disk as a failing item; the known items below the mount point are kept."""
        self._pruned[container] = _UNREADABLE
        locator = mark_key(container)
        if locator not in self._known.within(container):
            error = FetchFailed(
                "disk not mounted; mount it, or delete the empty folder if the disk was removed for good"
            )
            yield Failure(Item(locator, container, "unmounted"), error)

    def _report_later_unmounts(self) -> Iterator[Change]:
        """Report disks unmounted since their folder was listed: their unlisted subfolders are not deleted."""
        for folder, device in self._mounts:
            try:
                still_mounted = self._lister.list(folder).device == device
            except OSError:
                still_mounted = False
            if not still_mounted:
                yield from self._report_unmounted(folder.container)

    def _removed_folders(self) -> Iterator[Change]:
        """Report the known items below folders that were deleted or are now excluded."""
        yield from self._remove(self._containers - self._listed.keys())
        for key in self._marks:
            container = key.removesuffix("/")
            not_listed = container not in self._listed and self._counts_as_removed(container)
            if not_listed and key not in self._new_marks and not self._pruned_by(container):
                self._new_marks[key] = None

    def _remove(self, containers: Iterable[str]) -> Iterator[Change]:
        for container in sorted(filter(self._counts_as_removed, containers)):
            pruned = self._pruned_by(container)
            key = mark_key(container)
            if pruned == _UNREADABLE or (pruned == EXCLUDED and self._marks.get(key) == EXCLUDED):
                continue
            # A checkpoint may be taken before the folder is complete. Without a mark, the folder is compared again if
            # it returns.
            self._new_marks[key] = None
            yield from no_longer_listed(self._known, container, is_deleted=not pruned)
            self._new_marks[key] = pruned

    def _pruned_by(self, container: str) -> str | None:
        """Return why a folder was not listed, if it or a folder above it was skipped."""
        while container:
            if reason := self._pruned.get(container):
                return reason
            container = container.rpartition("/")[0]
        return None


def mark_key(container: str) -> str:
    """Return the key of a folder's mark; also the locator of the folder itself when it is reported as an item."""
    return f"{container}/"


def _stamp_now(folder: ScannedFolder) -> Stamp | None:
    """Return the stamp of a folder now; None if it cannot be accessed."""
    try:
        status = os.stat(folder.path)  # noqa: PTH116 - a third of the time of a Path
    except OSError:
        return None
    return stamp(status)


def _is_mounted(folder: ScannedFolder, listing: FolderListing) -> bool:
    """Return whether a folder is on another device than its parent."""
    return folder.device not in (None, listing.device)


def _week(mark: str) -> str:
    return mark.removesuffix(_MOUNTED).partition(_WEEK)[2]
