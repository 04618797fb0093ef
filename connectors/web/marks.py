"""The marks of a web source: read from the ledger by a listing, and written with its checkpoints.

All state that decides about later listings is here, or in the attributes of items. Stored responses (`store`) only save
requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

DELETED = "gone:"
"""Begin of the marks of addresses that were deleted, with the time of the next look."""
READ = "read:"
"""Begin of the marks of feeds and lists that were read, with their kind and the hash of the content that was read last."""
FEED = "seed:"
"""Begin of the marks of feeds with all entries in the ledger, with a hash of their content and settings."""
LINK = "link:"
"""Begin of the marks of links that were found and not looked at, with their depth and site."""


class WebMarks:
    """The marks during one listing. `known`: those of earlier listings."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self.known = known
        self._saved: dict[str, str | None] = dict(known)
        self._changed: dict[str, str | None] = {}

    def get(self, key: str) -> str | None:
        """Return the value that a mark has now."""
        return self._changed.get(key, self._saved.get(key))

    def set(self, key: str, value: str | None) -> None:
        """Change a mark with the next checkpoint. None removes it."""
        self._changed[key] = value
        if self._saved.get(key) == value:
            del self._changed[key]

    def take(self) -> dict[str, str | None]:
        """Return the marks that changed since the last call, for a checkpoint."""
        changed, self._changed = self._changed, {}
        self._saved |= changed
        return changed

    def begin_with(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Yield the marks with this prefix, without it, and their values, as of now."""
        keys = {key for key in chain(self._saved, self._changed) if key.startswith(prefix)}
        yield from ((key.removeprefix(prefix), value) for key in sorted(keys) if (value := self.get(key)) is not None)
