"""Compare the files of one listed folder with its known items."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace

from catchment.content.parts.containers import kind_of_container
from catchment.errors import ItemError, SkipReason, Vanished
from catchment.model import Change, Checkpoint, Failure, Item, KnownItem, Skip, Upsert
from connectors.folders.file import FileEntry, identity, item_error, opened, sha256, to_locator
from connectors.folders.scan import FolderListing, ScannedFolder
from connectors.folders.tree import FolderTree

UNCHANGED_PER_CHECKPOINT = 100
"""Folders listed, or files compared by content, between two checkpoints.

Without changes, checkpoints are the only progress.
"""
_SKIPPED = frozenset(SkipReason)


class FileComparison:
    """Comparison of the files of a tree, folder by folder."""

    def __init__(self, tree: FolderTree) -> None:
        self._tree = tree
        self._compared = 0

    def compare(
        self, folder: ScannedFolder, listing: FolderListing, known_items: Mapping[str, KnownItem], *, deep: bool
    ) -> Iterator[Change]:
        """Yield the changes of the listed files. `deep`: also compare the contents of files that look unchanged."""
        container = folder.container
        # What is inside of a file is selected by the rules of its folder, and read again when they change.
        rules = f"{listing.layer.key}.{self._tree.max_bytes:x}"
        for file in map(FileEntry._make, listing.files):
            locator = to_locator(folder.child(file.name))
            old = known_items.get(locator)
            reason = self._skip_reason(file)
            mark = reason or (rules if kind_of_container(file.name) else None)
            version = f"{file.fingerprint}+{mark}" if mark else file.fingerprint
            if old and _is_unchanged(old, file.fingerprint, mark):
                if deep and not reason:
                    yield from self._compare_content(locator, container, file, old)
                    self._compared += 1
                    if self._compared % UNCHANGED_PER_CHECKPOINT == 0:
                        yield Checkpoint()
                continue
            own = None if reason else identity(file, f"{folder.path}/{file.name}")
            if own is None and not reason:
                continue  # It has left since the listing, so that the folder is listed again.
            item = Item(
                locator=locator,
                container=container,
                version=version,
                identity=own,
                size=file.size,
                modified=file.modified,
                attributes={"type": _type_name(file.mode)} if reason and not stat.S_ISREG(file.mode) else {},
            )
            yield Skip(item, reason) if reason else Upsert(item)
        for name, error in sorted(listing.stat_errors.items()):
            locator = to_locator(folder.child(name))
            version = f"unseen.{error.errno}"
            if locator not in known_items or known_items[locator].version != version:
                yield Failure(Item(locator, container, version), item_error(error))

    def _skip_reason(self, file: FileEntry) -> SkipReason | None:
        if stat.S_ISREG(file.mode):
            return None if self._tree.fits(file) else SkipReason.TOO_LARGE
        return SkipReason.EXCLUDED if stat.S_ISLNK(file.mode) else SkipReason.UNSUPPORTED

    def _compare_content(self, locator: str, container: str, file: FileEntry, old: KnownItem) -> Iterator[Change]:
        """Hash a file that looks unchanged; report it if its content differs."""
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


def _is_unchanged(old: KnownItem, fingerprint: str, mark: str | None) -> bool:
    """Return whether a known item is unchanged.

    A version is the fingerprint, followed by `+` and the skip reason, the rules for the files inside of it, or, after a deep
    comparison, a content hash.
    """
    known, _, tail = old.version.partition("+")
    return known == fingerprint and (tail == mark if mark else tail not in _SKIPPED)


def _type_name(mode: int) -> str:
    for is_type, name in ((stat.S_ISLNK, "link"), (stat.S_ISFIFO, "pipe"), (stat.S_ISSOCK, "socket")):
        if is_type(mode):
            return name
    return "device"
