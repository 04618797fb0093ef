"""Read the seeds of a source: its feeds, lists and sitemaps, and what these name in turn.

The latest good response of each seed is on disk. It counts as long as its host is away, answers with an error, or answers with
a web page where a feed or list was: a login page of the network, or an error page with status 200.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from catchment.errors import ItemError, ParseError, SourceUnavailable
from connectors.web.address import MOST_BYTES, host_of
from connectors.web.client import WebResponse
from connectors.web.feeds import WebFeed, read_feed
from connectors.web.hosts import HostQueues, Hosts, NoSuchAddress, PageRequest
from connectors.web.seeds import Listed, SeedKind, kind_of_seed, listed
from connectors.web.settings import WebSettings
from connectors.web.store import ResponseStore, StoredResponse

_MOST = 5_000
"""Seeds of a source at most, with those that others name."""
_LISTS = (SeedKind.OPML, SeedKind.SITEMAP_INDEX)
"""Kinds that name further seeds. Lists and sitemaps name pages."""


@dataclass(frozen=True)
class Seed:
    """A feed, list or page. `name`: its address, or the name of its file."""

    name: str
    kind: SeedKind
    response: WebResponse

    @classmethod
    def of(cls, address: str, response: WebResponse) -> Self:
        """Return what an address answered with."""
        return cls(address, kind_of_seed(response.body, response.media_type, urlsplit(address).path), response)

    @classmethod
    def in_file(cls, path: Path) -> Self:
        """Return what a file has. Raises SourceUnavailable if it cannot be read."""
        try:
            with path.open("rb") as file:
                data = file.read(MOST_BYTES)
        except OSError as error:
            raise SourceUnavailable(f"{path.name!r}: cannot be read ({error.strerror}); restore the file") from None
        return cls(path.name, kind_of_seed(data, "", path.name), WebResponse(address=path.name, body=data))

    @cached_property
    def listed(self) -> list[Listed]:
        """The addresses that a list, sitemap or OPML names. One that is broken names none."""
        try:
            return listed(self.response.body, self.kind, self.response.address)
        except ParseError:
            return []

    def feed(self) -> WebFeed:
        """Read a feed. Raises ParseError."""
        return read_feed(self.response.body, self.response.address, self.response.charset)

    def digest(self, *facts: object) -> str:
        """Return a hash of the content and of what else decides about its items."""
        return hashlib.blake2b(self.response.body + repr(facts).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class WebRun:
    """What all parts of one listing share. `lists`, `pages`: the stored responses of seeds, and of pages."""

    settings: WebSettings
    hosts: Hosts
    lists: ResponseStore
    pages: ResponseStore
    clock: Callable[[], datetime]
    deep: bool


class Seeds:
    """The seeds of one listing: `read` them all, then take them by `walk`."""

    def __init__(self, run: WebRun, queues: HostQueues) -> None:
        self.failed: dict[str, ItemError] = {}
        """Seeds that were never read, with the reason."""
        self.excluded: set[str] = set()
        """Feeds and lists that others name, and whose host is not allowed."""
        self.pages: dict[str, WebResponse] = {}
        """Seeds that turned out to be pages in this listing."""
        self._run = run
        self._queues = queues
        self._known = {kept.key: kept for kept, _ in run.lists if kept.version}
        self._seen: set[str] = set()

    def read(self) -> Iterator[None]:
        """Request all seeds. Yields while it waits. Raises SourceUnavailable if a file cannot be read."""
        for name in self._run.settings.addresses:
            self._open(name)
        for outcome in self._queues.outcomes():
            if outcome is not None:
                self._take(*outcome)
            yield

    def walk(self) -> Iterator[Seed]:
        """Yield all seeds that were ever read, in the order of the settings; those of a list at its place."""
        seen: set[str] = set()
        for name in self._run.settings.addresses:
            yield from self._below(name, seen)

    def is_list(self, address: str) -> bool:
        """Return whether an address is that of a feed or list, so that it is no item."""
        kept = self._known.get(address)
        return kept is not None and kept.version != SeedKind.PAGE

    def became(self, address: str, response: WebResponse) -> bool:
        """Return whether a page of a list turned out to be a feed or list. The next listing takes it as such."""
        seed = Seed.of(address, response)
        if seed.kind is not SeedKind.PAGE:
            self._keep(seed)
        return seed.kind is not SeedKind.PAGE

    def _below(self, name: str, seen: set[str]) -> Iterator[Seed]:
        if name in seen or (seed := self._seed(name)) is None:
            return
        seen.add(name)
        if seed.kind not in _LISTS:
            yield seed
        for found in self._seeds_in(seed):
            yield from self._below(found, seen)

    def _seed(self, name: str) -> Seed | None:
        """Return a seed with its latest content, or None if it was never read."""
        if "://" not in name:
            return Seed.in_file(Path(name))
        kept = self._run.lists.get(name) if name in self._known else None
        return Seed(name, SeedKind(kept.version), kept.response) if kept else None

    def _seeds_in(self, seed: Seed) -> Iterator[str]:
        """Yield the further seeds that a seed names."""
        if seed.kind in (*_LISTS, SeedKind.ADDRESSES):
            for found in seed.listed:
                if seed.kind in _LISTS or self.is_list(found.address):
                    yield found.address

    def _open(self, name: str) -> None:
        if name in self._seen or len(self._seen) >= _MOST:
            return
        self._seen.add(name)
        if "://" not in name:
            self._open_named(name)
        elif (kept := self._known.get(name)) is None:
            self._queues.add(PageRequest(name))
        elif kept.version != SeedKind.PAGE:
            validators = (kept.response.etag, kept.response.modified, kept.response.address)
            self._queues.add(PageRequest(name, *(() if self._run.deep else validators)))

    def _open_named(self, name: str) -> None:
        """Open the seeds that another one names, if their hosts may be asked."""
        if (seed := self._seed(name)) is None:
            return
        for address in self._seeds_in(seed):
            if self._run.settings.allowed.host_for(address):
                self._open(address)
            else:
                self.excluded.add(address)

    def _take(self, address: str, result: WebResponse | ItemError) -> None:
        known = self._known.get(address)
        if isinstance(result, WebResponse) and result.status == 200:
            seed = Seed.of(address, result)
            if known is None and seed.kind is SeedKind.PAGE and address not in self._run.settings.addresses:
                problem = "answers with a page, not a feed; correct it in its list, or sign in to your network"
                self.failed[address] = NoSuchAddress(f"{host_of(address)}: {problem}")
                return
            if known is None or seed.kind is not SeedKind.PAGE:
                self._keep(seed)
        elif known is None:
            missing = NoSuchAddress(f"{host_of(address)}: no such address; correct it, or remove it")
            self.failed[address] = missing if isinstance(result, WebResponse) else result
            return
        self._open_named(address)

    def _keep(self, seed: Seed) -> None:
        response = seed.response
        if seed.kind is SeedKind.PAGE:
            self.pages[seed.name] = response
            response = response._replace(body=b"")
        kept = StoredResponse(seed.name, self._run.clock(), response, seed.kind)
        self._run.lists.put(kept)
        self._known[seed.name] = kept._replace(response=response._replace(body=b""))
