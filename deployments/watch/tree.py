"""The inotify watches on the folders of one source: those that its rules include, and new folders when they appear.

Uses watchdog's inotify descriptor and not its observer. The observer delays every rename by half a second, reports reads,
watches excluded folders, and does not report that a system limit is reached.
"""

from __future__ import annotations

import errno
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Protocol

from watchdog.observers.inotify_c import (
    CallbackId,
    InotifyConstants,
    InotifyEvent,
    Mask,
    WatchCallback,
    WatchDescriptor,
)

_MASK = Mask(
    InotifyConstants.IN_CREATE
    | InotifyConstants.IN_MODIFY
    | InotifyConstants.IN_CLOSE_WRITE
    | InotifyConstants.IN_ATTRIB
    | InotifyConstants.IN_DELETE
    | InotifyConstants.IN_DELETE_SELF
    | InotifyConstants.IN_MOVE
    | InotifyConstants.IN_MOVE_SELF
    | InotifyConstants.IN_ONLYDIR
)
_OF_ITSELF = InotifyConstants.IN_DELETE_SELF | InotifyConstants.IN_MOVE_SELF | InotifyConstants.IN_UNMOUNT
_ids = itertools.count(1)


class Descriptor(Protocol):
    """An inotify instance, shared by all trees."""

    def add_callback(self, path: bytes, mask: Mask, callback: WatchCallback, id_: CallbackId) -> WatchDescriptor: ...

    def remove_callbacks(self, callbacks: list[tuple[WatchDescriptor, CallbackId]]) -> None: ...


class RemovedFolder(str):
    """The path of a removed folder that was watched. Afterwards no rule can distinguish it from a file."""

    __slots__ = ()


class WatchEvent(Enum):
    """Events of a tree that have no path."""

    LOST = "events were lost"
    ROOT = "the root was deleted or unmounted"


class WatchTree(WatchCallback):
    """Watches a root and the included folders below it from `start` until `stop`.

    `notify` is called from another thread, with a `WatchEvent`, or with the path of a change relative to the root ("" for the
    root). `includes` returns whether to watch a folder. Links to folders are not followed.
    """

    def __init__(
        self,
        descriptor: Descriptor,
        root: Path,
        includes: Callable[[str], bool],
        notify: Callable[[str | WatchEvent], None],
    ) -> None:
        self._descriptor = descriptor
        self._root = os.fsencode(root)
        self._includes = includes
        self._notify = notify
        self._lock = threading.RLock()
        self._folders: dict[bytes, tuple[WatchDescriptor, CallbackId]] = {}
        self._paths: dict[WatchDescriptor, bytes] = {}
        self.exhausted = False
        """Whether a system limit left folders unwatched."""
        self.unreadable = 0
        """Number of folders without read permission, which are not watched."""

    @property
    def folders(self) -> int:
        """Number of watched folders."""
        return len(self._folders)

    def start(self) -> None:
        """Watch all folders that are not watched yet. Idempotent. Raises OSError if the root cannot be watched."""
        with self._lock:
            self.exhausted, self.unreadable = False, 0
            if b"" not in self._folders and not self._watch(b"") and not self.exhausted:
                raise PermissionError(errno.EACCES, "the root is not readable")
            self._watch_below(b"")

    def stop(self) -> None:
        """Remove all watches. Idempotent."""
        with self._lock:
            self._forget(b"")

    def on_event(self, event: InotifyEvent) -> None:
        """Report the change, and adjust the watches if a folder was added or removed."""
        left = False
        with self._lock:
            folder = self._paths.get(event.wd)
            if folder is None:
                return
            if event.name:
                path = folder + b"/" + event.name if folder else event.name
                if event.is_directory:
                    left = self._follow(event, path)
            elif folder == b"" and event.mask & _OF_ITSELF:
                self._notify(WatchEvent.ROOT)
                return
            elif event.mask & InotifyConstants.IN_UNMOUNT:
                path = folder
            else:
                # The parent folder reports the same event, with the name.
                return
        changed = os.fsdecode(path)
        self._notify(RemovedFolder(changed) if left else changed)

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:
        """Drop a watch that the kernel removed."""
        with self._lock:
            folder = self._paths.pop(wd, None)
            if folder is not None and self._folders.get(folder, (None,))[0] == wd:
                del self._folders[folder]

    def on_queue_overflow(self) -> None:
        """Report lost events: the kernel dropped some, perhaps those of new folders."""
        self._notify(WatchEvent.LOST)

    def _follow(self, event: InotifyEvent, path: bytes) -> bool:
        """Adjust the watches to a folder event. Returns whether a watched folder was removed."""
        if event.is_delete or event.is_moved_from:
            was_watched = path in self._folders
            self._forget(path)
            return was_watched
        if event.is_create or event.is_moved_to:
            # A folder that was moved onto an empty one replaces it without an event for the replaced folder.
            self._forget(path)
        # A change of attributes may have made a folder readable.
        if path not in self._folders and self._includes(os.fsdecode(path)) and self._watch(path):
            self._watch_below(path)
        return False

    def _watch_below(self, top: bytes) -> None:
        """Watch each folder before listing it, so that files added meanwhile are reported."""
        waiting = [top]
        while waiting:
            for path in self._children(waiting.pop()):
                if path in self._folders or self._watch(path):
                    waiting.append(path)

    def _children(self, folder: bytes) -> Iterator[bytes]:
        """The included folders in a folder; empty if it was removed or may not be read."""
        try:
            with os.scandir(self._on_disk(folder)) as entries:
                names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return
        for name in names:
            path = folder + b"/" + name if folder else name
            if self._includes(os.fsdecode(path)):
                yield path

    def _watch(self, path: bytes) -> bool:
        # The root may be a link. A folder below it that was replaced by a link is not followed.
        mask = Mask(_MASK | InotifyConstants.IN_DONT_FOLLOW) if path else _MASK
        id_ = CallbackId(next(_ids))
        try:
            wd = self._descriptor.add_callback(self._on_disk(path), mask, self, id_)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.ENOMEM):
                self.exhausted = True
            elif not path:
                raise
            # Otherwise the folder was removed meanwhile, and its parent reports that.
            return False
        if wd == -1:
            # watchdog returns -1 if access is refused, and would keep the callback forever.
            self._descriptor.remove_callbacks([(wd, id_)])
            self.unreadable += 1
            return False
        self._folders[path] = (wd, id_)
        self._paths[wd] = path
        return True

    def _forget(self, top: bytes) -> None:
        """Remove the watches of a folder and of all folders below it."""
        below = top + b"/" if top else b""
        if top and top not in self._folders:
            return
        removed = [path for path in self._folders if path == top or path.startswith(below)]
        watches = [self._folders.pop(path) for path in removed]
        for wd, _ in watches:
            self._paths.pop(wd, None)
        self._descriptor.remove_callbacks(watches)

    def _on_disk(self, path: bytes) -> bytes:
        return self._root + b"/" + path if path else self._root
