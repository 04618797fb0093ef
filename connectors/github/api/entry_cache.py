"""A cache of entries that a listing has already read: the page that lists an issue also contains its text."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from connectors.github.api.entries import ApiEntry

_MAX_BYTES = 32_000_000
_OVERHEAD = 1_000


class EntryCache:
    """Entries by locator; the oldest are dropped when the cache exceeds its size. Thread-safe."""

    def __init__(self) -> None:
        self._entries: dict[str, ApiEntry] = {}
        self._lock = threading.Lock()

    def add(self, entries: Iterable[ApiEntry]) -> None:
        """Add entries."""
        with self._lock:
            for entry in entries:
                self._entries.pop(entry.item.locator, None)
                self._entries[entry.item.locator] = entry
            excess = sum(map(_size, self._entries.values())) - _MAX_BYTES
            while excess > 0:
                excess -= _size(self._entries.pop(next(iter(self._entries))))

    def pop(self, locator: str) -> ApiEntry | None:
        """Remove and return an entry; None if it is not cached."""
        with self._lock:
            return self._entries.pop(locator, None)

    def clear(self) -> None:
        """Drop all entries."""
        with self._lock:
            self._entries.clear()


def _size(entry: ApiEntry) -> int:
    return len(entry.text) + _OVERHEAD
