"""What a listing has read already, kept until it is fetched: the text of an issue comes with the page that lists it."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from connectors.github.api.render import Said

_MOST_BYTES = 32_000_000
_OVERHEAD = 1_000


class Memory:
    """Texts by locator, the oldest forgotten first when they become too many. Safe for threads."""

    def __init__(self) -> None:
        self._said: dict[str, Said] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def keep(self, found: Iterable[Said]) -> None:
        """Remember these."""
        with self._lock:
            for said in found:
                self._drop(said.item.locator)
                self._said[said.item.locator] = said
                self._bytes += _size(said)
            while self._bytes > _MOST_BYTES:
                self._drop(next(iter(self._said)))

    def take(self, locator: str) -> Said | None:
        """What is remembered, once; None where nothing is."""
        with self._lock:
            return self._drop(locator)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._said.clear()
            self._bytes = 0

    def _drop(self, locator: str) -> Said | None:
        said = self._said.pop(locator, None)
        if said is not None:
            self._bytes -= _size(said)
        return said


def _size(said: Said) -> int:
    return len(said.text) + _OVERHEAD
