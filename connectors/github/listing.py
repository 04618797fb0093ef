"""What every listing of a repository does: the files of it, its issues, its releases. The connector chains them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from catchment.contracts import Known
from catchment.model import Change, Item, RawContent


class RepositoryListing(Protocol):
    """One part of one repository. Of the items in its containers nothing is said by another listing."""

    def owns(self, name: str) -> bool:
        """Whether a container, or a mark, is of this listing."""
        ...

    def changes(self, known: Known, *, deep: bool) -> Iterator[Change]:
        """As `Connector.changes`, without the `Root`. The next listing's checkpoint may cover what it says."""
        ...

    def expect(self, items: Sequence[Item]) -> None:
        """As `Connected.expect`, with the items of this listing only."""
        ...

    def fetch(self, item: Item) -> RawContent:
        """As `Connector.fetch`."""
        ...

    def close(self) -> None:
        """As `Connected.close`."""
        ...
