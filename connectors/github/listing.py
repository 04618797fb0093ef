"""The interface of a listing: the files of a repository, its issues, or its releases. The connector chains listings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from catchment.contracts import Known
from catchment.model import Change, Item, RawContent


class RepositoryListing(Protocol):
    """One part of one repository. No other listing reports items in its containers."""

    def owns(self, name: str) -> bool:
        """Return whether a container or mark belongs to this listing."""
        ...

    def changes(self, known: Known, *, deep: bool) -> Iterator[Change]:
        """Yield changes as `Connector.changes` does, without the `Root`.

        A checkpoint of the next listing may cover them.
        """
        ...

    def expect(self, items: Sequence[Item]) -> None:
        """Announce the items of this listing that will be fetched next."""
        ...

    def fetch(self, item: Item) -> RawContent:
        """Read an item as `Connector.fetch` does."""
        ...

    def close(self) -> None:
        """Release connections and processes; may be called again."""
        ...
