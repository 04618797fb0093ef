"""A watched folder source: its watches, its changed paths, its `Debounce`, and how well it is watched."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from catchment.runtime.system.disks import network_disk, same_disk
from catchment.runtime.watch_status import Watching, WatchState
from deployments.sources.sources_file import SourceEntry
from deployments.watch.changes import ChangedPaths
from deployments.watch.debounce import Debounce
from deployments.watch.rules import WatchRules
from deployments.watch.tree import Descriptor, RemovedFolder, WatchEvent, WatchTree

_ANSWERS_MISSED = 2
_JUDGED_KEPT = 10_000
_GONE = WatchState(
    Watching.GONE,
    "folder not found",
    "mount its disk, or move it back; else correct `root` in sources.yaml",
)
_REFUSED = WatchState(Watching.LIMITED, "folder not readable", "give the user of Catchment read permission")
_NO_INSTANCE = WatchState(
    Watching.LIMITED,
    "the limit of inotify instances is reached; nothing is watched",
    "sudo sysctl fs.inotify.max_user_instances=512; until then the schedule finds changes",
)
_ERRORS = {errno.EMFILE: _NO_INSTANCE, errno.EACCES: _REFUSED, errno.EPERM: _REFUSED}

Notify = Callable[[str | WatchEvent], None]


class WatchedSource:
    """A folder source, watched from the first `check` until `close`. All times are of one monotonic clock."""

    def __init__(
        self, entry: SourceEntry, root: Path, rules: WatchRules, changes: ChangedPaths, notify: Notify
    ) -> None:
        self.entry = entry
        self.debounce = Debounce(entry.quiet, is_covered=lambda: changes.is_taken(entry.name))
        self._changes = changes
        self._root = root
        self._rules = rules
        self._notify = notify
        self._tree: WatchTree | None = None
        self._disk: tuple[int, int] | None = None
        self._network: str | None = None
        self._error: OSError | None = None
        self._judged: dict[str, bool] = {}
        """Cache of whether a path counts: a build may write the same thousands of files every second."""

    def check(self, now: float, descriptor: Callable[[], Descriptor]) -> None:
        """Watch the root if it exists and is not watched yet. Whenever watching starts, all files count as changed.

        `descriptor` returns the inotify instance, or raises OSError.
        """
        self._judged.clear()
        disk = same_disk(self._root)
        if self._tree is not None and disk == self._disk:
            return
        self.close()
        is_another, self._disk = disk != self._disk, disk
        if disk is None:
            return
        self._network = network_disk(self._root)
        try:
            self._tree = WatchTree(descriptor(), self._root, self._rules.watches, self._notify)
        except OSError as error:
            self._error = error
        else:
            self._start(self._tree)
        if is_another or self._tree is not None:
            self.rescan(now)

    def complete(self) -> None:
        """Retry the folders that could not be watched."""
        if self._tree is not None and (self._tree.exhausted or self._tree.unreadable):
            self._start(self._tree)

    def handle(self, now: float, event: str | WatchEvent) -> None:
        """Process an event of the tree. After `WatchEvent.ROOT` the caller calls `check` soon."""
        if event is WatchEvent.LOST:
            self.rebuild(now)
        elif event is WatchEvent.ROOT:
            self.close()
        elif isinstance(event, RemovedFolder) or self._counts(event):
            if self._rules.decides(event):
                self._judged.clear()
                if self._tree is not None:
                    self._start(self._tree)
                self._changes.add_all(self.entry.name)
            else:
                self._changes.add(self.entry.name, str(event))
            self.debounce.changed(now)

    def rebuild(self, now: float) -> None:
        """Watch everything again. Changes in the meantime are unknown."""
        if self._tree is not None:
            self._tree.stop()
            self._start(self._tree)
        self.rescan(now)

    def rescan(self, now: float) -> None:
        """Record that any file may have changed."""
        self._changes.add_all(self.entry.name)
        self.debounce.rescan(now)

    def close(self) -> None:
        """Stop watching."""
        if self._tree is not None:
            self._tree.stop()
            self._tree = None

    def state(self) -> WatchState:
        """Return how well the source is watched."""
        if self._tree is None:
            return self._unwatched_state()
        folders = self._tree.folders
        reason = remedy = ""
        if self._tree.exhausted:
            reason = f"the limit of inotify watches is reached (watched folders: {folders})"
            remedy = "sudo sysctl fs.inotify.max_user_watches=524288; until then the schedule finds the rest"
        elif self._tree.unreadable:
            reason = f"unreadable folders: {self._tree.unreadable}"
            remedy = "give the user of Catchment read permission, or exclude them"
        elif self._network is not None:
            reason = f"on {self._network}, which does not report changes by other computers"
            remedy = "add a schedule; scheduled syncs find the changes"
        elif self.debounce.unanswered >= _ANSWERS_MISSED:
            reason = "no sync starts after a change"
            remedy = "check in the UI that its automation is enabled, and run `catchment check`"
        return WatchState(Watching.LIMITED if reason else Watching.WATCHING, reason, remedy, folders)

    def _counts(self, path: str) -> bool:
        """Whether a change of this path matters to a sync. Cached."""
        if (counts := self._judged.get(path)) is None:
            if len(self._judged) >= _JUDGED_KEPT:
                self._judged.clear()
            counts = self._judged[path] = self._rules.counts(path)
        return counts

    def _start(self, tree: WatchTree) -> None:
        self._error = None
        try:
            tree.start()
        except OSError as error:
            self._error = error
            self.close()

    def _unwatched_state(self) -> WatchState:
        if self._disk is None or self._error is None:
            return _GONE
        number = self._error.errno or 0
        return _ERRORS.get(
            number,
            WatchState(Watching.LIMITED, f"cannot be watched ({os.strerror(number)})", "the schedule finds changes"),
        )
