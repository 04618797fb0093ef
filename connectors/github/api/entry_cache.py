"""A cache of entries that a listing has already read: the page that lists an issue also contains its text."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from connectors.github.api.entries import Entry

_MAX_BYTES = 32_000_000
_OVERHEAD = 1_000


class EntryCache:
    """Entries by locator; the oldest are dropped when the cache exceeds its size. Thread-safe."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def add(self, entries: Iterable[Entry]) -> None:
        """Add entries."""
        with self._lock:
            for entry in entries:
                self._drop(entry.item.locator)
                self._entries[entry.item.locator] = entry
                self._bytes += _size(entry)
            while self._bytes > _MAX_BYTES:
                self._drop(next(iter(self._entries)))

    def pop(self, locator: str) -> Entry | None:
        """Remove and return an entry; None if it is not cached."""
        with self._lock:
            return self._drop(locator)

    def clear(self) -> None:
        """Drop all entries."""
        with self._lock:
            self._entries.clear()
            self._bytes = 0

    def _drop(self, locator: str) -> Entry | None:
        entry = self._entries.pop(locator, None)
        if entry is not None:
            self._bytes -= _size(entry)
        return entry


def _size(entry: Entry) -> int:
    return len(entry.text) + _OVERHEAD
