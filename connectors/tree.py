"""A tree of folders compared with what is known of it: which files are new, changed, gone, or not wanted.

A folder whose listing gives the same digest as last time is passed over without asking what is known of its files, so that a
sync with no change costs little more than the walk. How one folder is listed is `connectors.listing`, how one file is named
and read is `connectors.files`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from catchment.contracts import Known
from catchment.errors import (
    AccessDenied,
    BadInput,
    FetchFailed,
    ItemError,
    LoginFailed,
    Skipped,
    SourceUnavailable,
    Vanished,
)
from catchment.model import Change, Checkpoint, Failure, Item, KnownItem, Root, Skip, SkipReason, Tombstone, Upsert
from connectors.files import Entry, gone, identity, item_error, opened, read_all, sha256, to_locator
from connectors.ignore import Rules
from connectors.listing import Folder, Lister, Listing

_CHANGES_PER_CHECKPOINT = 1_000
_SKIPPED = frozenset(SkipReason)
_EXCLUDED, _UNREADABLE = "excluded", "unreadable"
# Ends the mark of a folder on which another disk is mounted.
_MOUNTED = "@"
_ABSENT = (FileNotFoundError, NotADirectoryError)


@dataclass(frozen=True, slots=True)
class Tree:
    """A folder with all below it, and what of it is wanted. `max_bytes` is the size up to which a file is."""

    root: Path
    rules: Rules
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
        """Which root this is: its file system and its inode, so that an empty mount point is not taken for the disk."""
        try:
            return f"{os.statvfs(self.root).f_fsid:x}.{self.root.stat().st_ino:x}"
        except OSError as error:
            raise self.unavailable(error) from error

    def changes(self, known: Known, *, deep: bool) -> Iterator[Change]:
        """As `Connector.changes`. Deletions come before new files, so that a move is seen as one."""
        root = self.identity()
        yield Root(root)
        comparison = _Comparison(self, known, root, deep=deep)
        for said, change in enumerate(comparison.run(), 1):
            yield change
            if said % _CHANGES_PER_CHECKPOINT == 0:
                yield comparison.checkpoint()
        yield comparison.checkpoint()

    def read(self, item: Item) -> tuple[bytes, Entry]:
        """The content of a listed file. Raises ItemError, or SourceUnavailable when the root is gone; may be repeated."""
        if item.locator.endswith("/"):
            raise FetchFailed("the folder could not be listed; the next sync that can list it clears this entry")
        # A deep listing's version is the fingerprint, a plus, and the beginning of the content's hash.
        fingerprint = item.version.partition("+")[0]
        with opened(self.root, item.locator, fingerprint, follow_links=self.follow_links) as (handle, file):
            if file.size > self.max_bytes:
                raise Skipped(SkipReason.TOO_LARGE)
            return read_all(handle, file.size), file

    def why_not(self, path: str) -> str | None:
        """Why a path relative to the root is not listed, for a person; None if the rules have nothing against it."""
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


class _Comparison:
    """One listing of a tree, under way."""

    def __init__(self, tree: Tree, known: Known, root: str, *, deep: bool) -> None:
        self._tree = tree
        self._known = known
        self._root = root
        self._deep = deep
        self._marks = known.marks()
        self._containers = known.containers()
        self._ready: dict[str, str | None] = {}
        self._visited: set[str] = set()
        self._closed: dict[str, str] = {}
        self._late: list[tuple[Folder, frozenset[str]]] = []
        self._lister = Lister(Path(os.path.realpath(tree.root)), tree.follow_links)

    def checkpoint(self) -> Checkpoint:
        """The marks of the folders that are finished."""
        marks, self._ready = self._ready, {}
        return Checkpoint(marks)

    def run(self) -> Iterator[Change]:
        """Say every change: first what is gone or changed, then what is new."""
        waiting = [self._lister.top(self._tree.rules)]
        while waiting:
            folder = waiting.pop()
            try:
                listing = self._lister.list(folder)
            except OSError as error:
                yield from self._unlisted(folder, error)
                continue
            if self._lost_its_disk(folder, listing):
                yield from self._unmounted(folder.container)
                continue
            self._visited.add(folder.container)
            waiting.extend(folder.enter(name, listing) for name in reversed(listing.folders))
            self._closed.update((to_locator(folder.child(name)), _EXCLUDED) for name in listing.closed)
            yield from self._if_changed(folder, listing)
        if self._tree.identity() != self._root:
            raise SourceUnavailable(f"the folder {self._tree.name!r} was replaced while it was listed; sync again")
        yield from self._gone_folders()
        yield from self._late_comers()

    # ── comparing one folder ──────────────────────────────────────────────────────────────────────────────────────────

    def _if_changed(self, folder: Folder, listing: Listing) -> Iterator[Change]:
        digest = self._digest(folder, listing)
        key = _mark(folder.container)
        if self._marks.get(key) == digest and not self._deep:
            return
        if not self._containers:
            yield from self._present(folder, listing, {})
            self._ready[key] = digest
            return
        here = self._known.within(folder.container)
        names = listing.locators(folder)
        left = frozenset(here.keys() - names)
        yield from self._departed(folder, listing, here, left)
        if names <= here.keys():
            yield from self._present(folder, listing, here)
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
            here = self._known.within(folder.container)
            left = here.keys() - listing.locators(folder) - said
            yield from self._departed(folder, listing, here, left)
            yield from self._present(folder, listing, here)
            self._ready[_mark(folder.container)] = self._digest(folder, listing)

    def _digest(self, folder: Folder, listing: Listing) -> str:
        digest = listing.digest(self._tree.max_bytes)
        return f"{digest}{_MOUNTED}" if folder.device not in (None, listing.device) else digest

    def _present(self, folder: Folder, listing: Listing, here: Mapping[str, KnownItem]) -> Iterator[Change]:
        container = folder.container
        for file in map(Entry._make, listing.files):
            locator = to_locator(folder.child(file.name))
            old = here.get(locator)
            reason = self._unwanted(file)
            version = f"{file.fingerprint}+{reason}" if reason else file.fingerprint
            if old and _stands(old, file.fingerprint, reason):
                if self._deep and not reason:
                    yield from self._compare_content(locator, container, file, old)
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
        self, folder: Folder, listing: Listing, here: Mapping[str, KnownItem], left: Iterable[str]
    ) -> Iterator[Change]:
        """Known items that are not listed any more: gone, or still there and not wanted since a rule changed."""
        passed_over = {to_locator(folder.child(name)) for name in listing.passed_over}
        for locator in sorted(left):
            if locator in passed_over:
                yield from _now_excluded(locator, folder.container, here[locator])
            else:
                yield Tombstone(locator)

    def _unwanted(self, file: Entry) -> SkipReason | None:
        if stat.S_ISREG(file.mode):
            return SkipReason.TOO_LARGE if file.size > self._tree.max_bytes else None
        return SkipReason.EXCLUDED if stat.S_ISLNK(file.mode) else SkipReason.UNSUPPORTED

    def _compare_content(self, locator: str, container: str, file: Entry, old: KnownItem) -> Iterator[Change]:
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

    def _unlisted(self, folder: Folder, error: OSError) -> Iterator[Change]:
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
        if mark is None or self._marks.get(_mark(container)) != mark:
            yield Failure(Item(_mark(container), container, f"{_UNREADABLE}.{error.errno}"), failure)
            self._ready[_mark(container)] = mark

    def _lost_its_disk(self, folder: Folder, listing: Listing) -> bool:
        """Whether a disk was mounted here last time, and now there is only the empty folder for it."""
        was_mounted = self._marks.get(_mark(folder.container), "").endswith(_MOUNTED)
        return was_mounted and listing.is_empty and folder.device == listing.device

    def _unmounted(self, container: str) -> Iterator[Change]:
        """A folder without its disk keeps what is known below it; it stands as a failed item until the disk is back."""
        self._closed[container] = _UNREADABLE
        locator = _mark(container)
        if locator not in self._known.within(container):
            error = FetchFailed(
                "its disk is not mounted; mount it, or delete the empty folder if the disk is gone for good"
            )
            yield Failure(Item(locator, container, "unmounted"), error)

    def _gone_folders(self) -> Iterator[Change]:
        """What is known below folders that are not there any more, or that a rule has closed since."""
        for container in sorted(self._containers - self._visited):
            closed = self._closed_above(container)
            key = _mark(container)
            if closed == _UNREADABLE or (closed == _EXCLUDED and self._marks.get(key) == _EXCLUDED):
                continue
            for locator, old in sorted(self._known.within(container).items()):
                if closed:
                    yield from _now_excluded(locator, container, old)
                else:
                    yield Tombstone(locator)
            self._ready[key] = closed
        for key in self._marks:
            container = key.removesuffix("/")
            if container not in self._visited and key not in self._ready and not self._closed_above(container):
                self._ready[key] = None

    def _closed_above(self, container: str) -> str | None:
        """Why a folder was not listed, if it or one above it is closed."""
        while container:
            if reason := self._closed.get(container):
                return reason
            container = container.rpartition("/")[0]
        return None


def _mark(container: str) -> str:
    """The mark of a folder, which is also the locator of the folder itself where it stands as an item."""
    return f"{container}/"


def _stands(old: KnownItem, fingerprint: str, reason: SkipReason | None) -> bool:
    """Whether what is known still holds. What follows the plus is why it was skipped, or a deep listing's content hash."""
    known, _, tail = old.version.partition("+")
    return known == fingerprint and (tail == reason if reason else tail not in _SKIPPED)


def _now_excluded(locator: str, container: str, old: KnownItem) -> Iterator[Change]:
    """Like every skipped item it has no identity: moved to where it is wanted, it is new and is read."""
    known, _, tail = old.version.partition("+")
    if tail != SkipReason.EXCLUDED:
        yield Skip(Item(locator, container, f"{known}+{SkipReason.EXCLUDED}"), SkipReason.EXCLUDED)


def _type_name(mode: int) -> str:
    for is_type, name in ((stat.S_ISLNK, "link"), (stat.S_ISFIFO, "pipe"), (stat.S_ISSOCK, "socket")):
        if is_type(mode):
            return name
    return "device"
