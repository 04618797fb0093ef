"""The releases of a repository: one page for each hundred, asked for by its ETag."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from catchment.contracts import Known
from catchment.errors import AccessDenied, StillChanging, Vanished
from catchment.model import Change, Checkpoint, Failure, Item, RawContent, Skip, SkipReason, Tombstone, Upsert
from connectors.github.api.client import PAGE, ApiClient
from connectors.github.api.etag_cache import Memory
from connectors.github.api.render import Kind, Said


class Releases:
    """What was published of one repository. Drafts are left out."""

    def __init__(self, client: ApiClient, repository: str, memory: Memory) -> None:
        self._client = client
        self._repository = repository
        self._memory = memory
        self._container = f"{repository}/releases"
        self._address = f"/repos/{repository}/releases?per_page={PAGE}"
        self._closed = f"{repository}#release/"

    def owns(self, name: str) -> bool:
        """As `Listing.owns`."""
        return name == self._container

    def changes(self, known: Known, *, deep: bool) -> Iterator[Change]:
        """As `Listing.changes`."""
        etag = known.marks().get(self._container)
        try:
            yield from self._tell(known, None if deep else etag)
        except (AccessDenied, Vanished) as error:
            yield Failure(Item(self._closed, self._container, "closed"), error)
            # Without its mark they are all told when they may be seen again, and this is none of them.
            yield Checkpoint({self._container: None})

    def expect(self, items: Sequence[Item]) -> None:
        """Nothing: all releases are remembered when one has to be read again."""

    def fetch(self, item: Item) -> RawContent:
        """As `Listing.fetch`."""
        said = self._memory.take(item.locator)
        if said is None:
            for page in self._client.pages(self._address):
                self._memory.keep(self._read(page))
            said = self._memory.take(item.locator)
        if said is None:
            raise Vanished("it is not there any more; the next sync decides what that means")
        if said.item.version != item.version:
            raise StillChanging("it was edited since it was listed; the next sync reads it")
        return said.raw(item)

    def close(self) -> None:
        """As `Listing.close`."""
        self._memory.clear()

    def _tell(self, known: Known, etag: str | None) -> Iterator[Change]:
        newest = self._client.get(self._address, etag)
        if not newest.changed:
            return
        following = self._client.pages(newest.next) if newest.next else ()
        found = self._by_locator([self._client.entries(newest), *following])
        known_ones = known.within(self._container).keys()
        if newest.next and not known_ones <= found.keys():
            # One that is deleted between two pages moves another out of sight.
            found |= self._by_locator(self._client.pages(self._address))
        self._memory.keep(found.values())
        yield from map(Tombstone, sorted(known_ones - found.keys()))
        for said in reversed(found.values()):
            is_draft = said.metadata["draft"]
            yield Skip(said.item, SkipReason.EXCLUDED) if is_draft else Upsert(said.item)
        yield Checkpoint({self._container: newest.etag or ""})

    def _by_locator(self, pages: Iterable[Sequence[Any]]) -> dict[str, Said]:
        return {said.item.locator: said for page in pages for said in self._read(page)}

    def _read(self, page: Sequence[Any]) -> list[Said]:
        return self._client.said(Kind.RELEASE, self._repository, page)
