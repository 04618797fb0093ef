"""Read the seeds of a source: its feeds, lists and sitemaps, and what these name in turn.

The latest good response of each seed is on disk. It counts as long as its host is away, answers with an error, or answers with
a web page where a feed or list was: a login page of the network, or an error page with status 200.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

from catchment.errors import ItemError, ParseError, SourceUnavailable
from connectors.web.client import MOST_BYTES, WebResponse
from connectors.web.hosts import HostQueues, NoSuchAddress, PageRequest
from connectors.web.seeds import Listed, SeedKind, kind_of_seed, listed
from connectors.web.settings import WebSettings
from connectors.web.store import ResponseStore, StoredResponse

_MOST = 5_000
"""Seeds of a source at most, with those that others name."""
_LISTS = (SeedKind.OPML, SeedKind.SITEMAP_INDEX)
"""Kinds that name further seeds. Lists and sitemaps name pages."""


@dataclass(frozen=True, slots=True)
class Seed:
    """A feed, list or page. `name`: its address, or the name of its file."""

    name: str
    kind: SeedKind
    response: StoredResponse

    def digest(self, *facts: object) -> str:
        """Return a hash of the content and of what else decides about its items."""
        return hashlib.blake2b(self.response.body + repr(facts).encode(), digest_size=16).hexdigest()


class Seeds:
    """The seeds of one listing: `read` them all, then take them by `walk`."""

    def __init__(
        self,
        settings: WebSettings,
        queues: HostQueues,
        store: ResponseStore,
        clock: Callable[[], datetime],
        *,
        deep: bool,
    ) -> None:
        self.failed: dict[str, ItemError] = {}
        """Seeds that were never read, with the reason."""
        self.excluded: set[str] = set()
        """Feeds and lists that others name, and whose host is not allowed."""
        self.pages: dict[str, WebResponse] = {}
        """Seeds that turned out to be pages in this listing."""
        self._settings = settings
        self._queues = queues
        self._store = store
        self._clock = clock
        self._deep = deep
        self._known = {kept.key: kept for kept, _ in store if kept.version}
        self._seen: set[str] = set()

    def read(self) -> Iterator[None]:
        """Request all seeds. Yields while it waits. Raises SourceUnavailable if a file cannot be read."""
        for name in self._settings.addresses:
            self._open(name)
        for outcome in self._queues.outcomes():
            if outcome is not None:
                self._take(outcome[0].address, outcome[1])
            yield

    def walk(self) -> Iterator[Seed]:
        """Yield all seeds that were ever read, in the order of the settings; those of a list at its place."""
        seen: set[str] = set()
        for name in self._settings.addresses:
            yield from self._below(name, seen)

    def is_list(self, address: str) -> bool:
        """Return whether an address is that of a feed or list, so that it is no item."""
        kept = self._known.get(address)
        return kept is not None and kept.version != SeedKind.PAGE

    def became(self, address: str, response: WebResponse) -> bool:
        """Return whether a page of a list turned out to be a feed or list. The next listing takes it as such."""
        kind = _kind(address, response)
        if kind is not SeedKind.PAGE:
            self._keep(address, response)
        return kind is not SeedKind.PAGE

    def _below(self, name: str, seen: set[str]) -> Iterator[Seed]:
        if name in seen or (seed := self.seed(name)) is None:
            return
        seen.add(name)
        if seed.kind in _LISTS:
            for found in listed_by(seed):
                yield from self._below(found.address, seen)
            return
        yield seed
        if seed.kind is SeedKind.ADDRESSES:
            for found in listed_by(seed):
                if self.is_list(found.address):
                    yield from self._below(found.address, seen)

    def seed(self, name: str) -> Seed | None:
        """Return a seed with its latest content, or None if it was never read."""
        if "://" not in name:
            return seed_in_file(Path(name))
        kept = self._store.get(name) if name in self._known else None
        return Seed(name, SeedKind(kept.version), kept) if kept else None

    def _open(self, name: str) -> None:
        if name in self._seen or len(self._seen) >= _MOST:
            return
        self._seen.add(name)
        if "://" not in name:
            self._open_named(seed_in_file(Path(name)))
        elif (kept := self._known.get(name)) is None or kept.version != SeedKind.PAGE:
            sends = kept is not None and not self._deep
            conditions = (kept.etag, kept.modified, kept.address) if sends and kept else ()
            self._queues.add(PageRequest(name, *conditions))

    def _open_named(self, seed: Seed | None) -> None:
        """Open the seeds that another one names, if their hosts may be asked."""
        if seed is None or seed.kind not in (*_LISTS, SeedKind.ADDRESSES):
            return
        for found in listed_by(seed):
            is_seed = seed.kind in _LISTS or self.is_list(found.address)
            if is_seed and self._settings.host_for(found.address):
                self._open(found.address)
            elif is_seed:
                self.excluded.add(found.address)

    def _take(self, address: str, result: WebResponse | ItemError) -> None:
        known = self._known.get(address)
        if isinstance(result, WebResponse) and result.status == 200:
            kind = _kind(address, result)
            if known is None or kind is not SeedKind.PAGE:
                self._keep(address, result)
        elif known is None:
            missing = NoSuchAddress(f"{urlsplit(address).netloc}: no such address; correct it, or remove it")
            self.failed[address] = missing if isinstance(result, WebResponse) else result
            return
        self._open_named(self.seed(address))

    def _keep(self, address: str, response: WebResponse) -> None:
        seed = seed_of(address, response, self._clock())
        if seed.kind is SeedKind.PAGE:
            self.pages[address] = response
            seed = replace(seed, response=replace(seed.response, body=b""))
        self._store.put(seed.response)
        self._known[address] = seed.response


def listed_by(seed: Seed) -> list[Listed]:
    """Return the addresses that a list, sitemap or OPML names. One that is broken names none."""
    try:
        return listed(seed.response.body, seed.kind, seed.response.address)
    except ParseError:
        return []


def seed_of(address: str, response: WebResponse, asked: datetime) -> Seed:
    """Return what an address answered with."""
    kind = _kind(address, response)
    kept = StoredResponse(
        key=address,
        asked=asked,
        body=response.body,
        version=kind.value,
        address=response.address,
        media_type=response.media_type,
        charset=response.charset,
        etag=response.etag,
        modified=response.modified,
    )
    return Seed(address, kind, kept)


def seed_in_file(path: Path) -> Seed:
    """Return what a file has. Raises SourceUnavailable if it cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES)
        modified = datetime.fromtimestamp(path.stat().st_mtime).astimezone()
    except OSError as error:
        raise SourceUnavailable(f"{path.name!r}: cannot be read ({error.strerror}); restore the file") from None
    return Seed(path.name, kind_of_seed(data, "", path.name), StoredResponse(path.name, modified, data))


def _kind(address: str, response: WebResponse) -> SeedKind:
    return kind_of_seed(response.body, response.media_type, urlsplit(address).path)
