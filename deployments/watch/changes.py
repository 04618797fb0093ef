"""The changed paths that no sync has read yet: recorded by the watcher, taken by the worker when it starts a run.

They are hints, kept in memory only: a sync without a hint compares the whole source.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from datetime import UTC, datetime

from tasks.hints import ChangeHint

_MOST_PATHS = 1_000
"""Paths kept for one source; beyond that number the next sync compares everything."""


class ChangedPaths:
    """The changed paths of all sources. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changes: dict[str, tuple[set[str], datetime] | None] = {}
        """By source: the paths and the time of the first change; None if any path may have changed."""

    def add(self, source: str, path: str) -> None:
        """Record a change. `path` is relative to the root, in the form that `os` functions return."""
        self._add(source, (path,), datetime.now(UTC))

    def add_all(self, source: str) -> None:
        """Record that any path may have changed."""
        with self._lock:
            self._changes[source] = None

    def take(self, source: str) -> ChangeHint | None:
        """Return and forget the changed paths. None: compare the whole source; also returned if no path is recorded."""
        with self._lock:
            changes = self._changes.pop(source, None)
            return None if changes is None else ChangeHint(frozenset(changes[0]), changes[1])

    def give_back(self, source: str, hint: ChangeHint | None) -> None:
        """Record again the hint that `take` returned, because its run read no items. None: any path may have changed."""
        if hint is None:
            self.add_all(source)
        else:
            self._add(source, hint.paths, hint.since)

    def is_taken(self, source: str) -> bool:
        """Whether no change was recorded since the last `take`."""
        with self._lock:
            return source not in self._changes

    def forget(self, source: str) -> None:
        """Drop the paths of a source that is no longer watched."""
        with self._lock:
            self._changes.pop(source, None)

    def _add(self, source: str, paths: Collection[str], since: datetime) -> None:
        with self._lock:
            if (known := self._changes.setdefault(source, (set(), since))) is not None:
                known[0].update(paths)
                too_many = len(known[0]) > _MOST_PATHS
                self._changes[source] = None if too_many else (known[0], min(known[1], since))
