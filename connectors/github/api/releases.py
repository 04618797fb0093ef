"""The releases of a repository, requested in pages of a hundred with the ETag of the first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from catchment.contracts import Known
from catchment.errors import AccessDenied, SkipReason, StillChanging, Vanished
from catchment.model import Change, Checkpoint, Failure, Item, RawContent, Skip, Tombstone, Upsert
from connectors.github.api.api_client import PAGE, ApiClient
from connectors.github.api.entries import ApiEntry, EntryKind
from connectors.github.api.entry_cache import EntryCache


class Releases:
    """The published releases of one repository. Drafts are excluded, and unknown ones last changed before `floor`."""

    def __init__(self, client: ApiClient, repository: str, floor: str, cache: EntryCache) -> None:
        self._client = client
        self._repository = repository
        self._cache = cache
        self._floor = floor
        self._container = f"{repository}/releases"
        self._mark = f"{self._container}{floor[:10]}"
        self._address = f"/repos/{repository}/releases?per_page={PAGE}"
        self._closed = f"{repository}#release/"

    def owns(self, name: str) -> bool:
        return name in (self._container, self._mark)

    def changes(self, known: Known, *, deep: bool) -> Iterator[Change]:
        # After a denied access, all releases are listed, which removes the failing item.
        whole = deep or self._closed in known.within(self._container)
        return self._if_open(self._list(known, None if whole else known.marks().get(self._mark)))

    def between(self, since: datetime, until: datetime) -> Iterator[Change]:
        return self._if_open(self._list_between(since, until))

    def expect(self, items: Sequence[Item]) -> None:
        """No preparation: fetching one release caches all of them."""

    def fetch(self, item: Item) -> RawContent:
        entry = self._cache.pop(item.locator)
        if entry is None:
            for page in self._client.pages(self._address):
                self._cache.add(self._read(page))
            entry = self._cache.pop(item.locator)
        if entry is None:
            raise Vanished("no longer listed; the next sync checks whether it was deleted")
        if entry.item.version != item.version:
            raise StillChanging("edited since it was listed; the next sync reads the new version")
        return entry.raw(item)

    def _if_open(self, listing: Iterator[Change]) -> Iterator[Change]:
        """Yield a listing; a Failure if the host denies it."""
        try:
            yield from listing
        except (AccessDenied, Vanished) as error:
            yield Failure(Item(self._closed, self._container, "closed"), error)
            yield Checkpoint()

    def _list_between(self, since: datetime, until: datetime) -> Iterator[Change]:
        releases = self._by_locator(self._client.pages(self._address)).values()
        yield from self._report(entry for entry in releases if entry.is_between(since, until))
        yield Checkpoint()

    def _list(self, known: Known, etag: str | None) -> Iterator[Change]:
        newest = self._client.get(self._address, etag)
        if not newest.changed:
            return
        more = self._client.pages(newest.next) if newest.next else ()
        releases = self._by_locator([self._client.entries(newest), *more])
        known_locators = known.within(self._container).keys()
        if newest.next and not known_locators <= releases.keys():
            # A deletion between two pages can hide another release.
            releases |= self._by_locator(self._client.pages(self._address))
        yield from map(Tombstone, sorted(known_locators - releases.keys()))
        yield from self._report(
            entry for at, entry in releases.items() if entry.updated >= self._floor or at in known_locators
        )
        yield Checkpoint({self._mark: newest.etag or ""})

    def _report(self, releases: Iterable[ApiEntry]) -> Iterator[Change]:
        oldest_first = list(releases)[::-1]
        self._cache.add(oldest_first)
        for entry in oldest_first:
            is_draft = entry.metadata["draft"]
            yield Skip(entry.item, SkipReason.EXCLUDED) if is_draft else Upsert(entry.item)

    def _by_locator(self, pages: Iterable[Sequence[Any]]) -> dict[str, ApiEntry]:
        return {entry.item.locator: entry for page in pages for entry in self._read(page)}

    def _read(self, page: Sequence[Any]) -> list[ApiEntry]:
        return self._client.parse(EntryKind.RELEASE, self._repository, page)
