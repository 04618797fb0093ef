"""The changed paths that no sync has read yet: recorded by the watcher, taken by the worker when it starts a run.

They are hints, kept in memory only: a sync without a hint compares the whole source.
"""

from __future__ import annotations

import threading

_MOST_PATHS = 1_000
"""Paths kept for one source; beyond that number the next sync compares everything."""


class ChangedPaths:
    """The changed paths of all sources. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._paths: dict[str, set[str] | None] = {}

    def add(self, source: str, path: str) -> None:
        """Record a change. `path` is relative to the root, in the form that `os` functions return."""
        with self._lock:
            paths = self._paths.setdefault(source, set())
            if paths is not None:
                paths.add(path)
                if len(paths) > _MOST_PATHS:
                    self._paths[source] = None

    def add_all(self, source: str) -> None:
        """Record that any path may have changed."""
        with self._lock:
            self._paths[source] = None

    def take(self, source: str) -> frozenset[str] | None:
        """Return and forget the changed paths. None: compare the whole source; also returned if no path is recorded."""
        with self._lock:
            paths = self._paths.pop(source, None)
            return None if paths is None else frozenset(paths)

    def give_back(self, source: str, paths: frozenset[str] | None) -> None:
        """Record again what `take` returned, because the run that took it read nothing."""
        if paths is None:
            self.add_all(source)
        for path in paths or ():
            self.add(source, path)

    def is_taken(self, source: str) -> bool:
        """Whether no change was recorded since the last `take`."""
        with self._lock:
            return source not in self._paths

    def forget(self, source: str) -> None:
        """Drop the paths of a source that is no longer watched."""
        with self._lock:
            self._paths.pop(source, None)
