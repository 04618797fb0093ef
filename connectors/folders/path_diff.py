"""Compare a folder tree with its known items only at paths where a change was reported."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property

from catchment.contracts import Known
from catchment.model import Change
from connectors.folders.diff import EXCLUDED, Comparison, mark_key
from connectors.folders.scan import FolderListing, ScannedFolder
from connectors.folders.tree import FolderTree


class PathComparison(Comparison):
    """A comparison of the reported paths: everything at or below them, and the files beside them.

    A subfolder counts as deleted if its parent is listed and no longer contains it.
    """

    def __init__(self, tree: FolderTree, known: Known, paths: Collection[str]) -> None:
        super().__init__(tree, known, deep=False)
        self._paths = paths
        self._without_subfolders: set[str] = set()
        self._removed: set[str] = set()

    def _start_folders(self) -> list[ScannedFolder]:
        top = self._lister.top(self._tree.rules)
        whole = [folder for path in self._paths if (folder := self._lister.at(path, top))]
        within = {folder.container for folder in whole}
        inside = {folder.container: folder for path in self._paths for folder in (self._nearest_folder(path, top),)}
        self._without_subfolders = {container for container in inside if not _is_below(container, within)}
        # Start with the complete folders (the list is reversed): their contents then need not be listed twice.
        return [inside[container] for container in self._without_subfolders] + whole

    def _nearest_folder(self, path: str, top: ScannedFolder) -> ScannedFolder:
        """Return the parent folder of a path or, if that was deleted, the nearest existing folder above it."""
        while path:
            path = path.rpartition("/")[0]
            if folder := self._lister.at(path, top):
                return folder
        return top

    def _subfolders(self, folder: ScannedFolder, listing: FolderListing) -> list[ScannedFolder]:
        below = super()._subfolders(folder, listing)
        self._removed |= self._children[folder.container] - {subfolder.container for subfolder in below}
        if folder.container not in self._without_subfolders:
            return below
        return [
            subfolder
            for subfolder in below
            if subfolder.container in self._torn or self._marks.get(mark_key(subfolder.container), EXCLUDED) == EXCLUDED
        ]

    @cached_property
    def _children(self) -> Mapping[str, set[str]]:
        """The subfolders of each folder at the last listing."""
        children: defaultdict[str, set[str]] = defaultdict(set)
        for key in self._marks:
            if container := key.removesuffix("/"):
                children[container.rpartition("/")[0]].add(container)
        return children

    def _removed_folders(self) -> Iterator[Change]:
        if self._removed:
            yield from super()._removed_folders()

    def _counts_as_removed(self, container: str) -> bool:
        return _is_below(container, self._removed)


def _is_below(container: str, folders: Collection[str]) -> bool:
    """Return whether a folder, or a folder above it, is in `folders`."""
    while container not in folders:
        if not container:
            return False
        container = container.rpartition("/")[0]
    return True
