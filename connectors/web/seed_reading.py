"""Read the seeds of a source: its feeds, lists and sitemaps, and what these name in turn.

The latest good response of each seed is on disk. It counts as long as its host is away, answers with an error, or answers with
a web page where a feed or list was: a login page of the network, or an error page with status 200. A response other than the
latest one that the ledger has taken counts as missing, unless its host confirms it.
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
from connectors.web.marks import READ, WebMarks
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

    @cached_property
    def mark(self) -> str:
        """Its kind and the hash of its content."""
        return f"{self.kind} {self.digest()}"


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

    def __init__(self, run: WebRun, queues: HostQueues, marks: WebMarks) -> None:
        self.failed: dict[str, ItemError] = {}
        """Seeds that cannot be read, and have no stored response that counts, with the reason."""
        self.excluded: set[str] = set()
        """Feeds and lists that others name, and whose host is not allowed."""
        self.pages: dict[str, WebResponse] = {}
        """Seeds that turned out to be pages in this listing."""
        self._run = run
        self._queues = queues
        self._marks = marks
        self._stored = {kept.key: kept for kept, _ in run.lists if kept.version}
        self._answered: set[str] = set()
        """Seeds whose host confirmed or sent the stored response in this listing."""
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
        return self._kind(address) not in (None, SeedKind.PAGE)

    def was_read(self, address: str) -> bool:
        """Return whether the ledger has something of a seed."""
        return READ + address in self._marks.known

    def became(self, address: str, response: WebResponse) -> bool:
        """Return whether a page of a list turned out to be a feed or list. The next listing takes it as such."""
        seed = Seed.of(address, response)
        if seed.kind is not SeedKind.PAGE:
            self._keep(seed)
            self._seen.add(address)
        return seed.kind is not SeedKind.PAGE

    def forget(self) -> None:
        """Forget the seeds that no list or setting names now."""
        # A list that failed may name them.
        for name, _ in () if self.failed else self._marks.begin_with(READ):
            if name not in self._seen:
                self._marks.set(READ + name, None)
                self._run.lists.drop(name)

    def _below(self, name: str, seen: set[str]) -> Iterator[Seed]:
        if name in seen or (seed := self._seed(name)) is None:
            return
        seen.add(name)
        if "://" in name:
            self._marks.set(READ + name, seed.mark)
        if seed.kind not in _LISTS:
            yield seed
        for found in self._seeds_in(seed):
            yield from self._below(found, seen)

    def _kind(self, address: str) -> SeedKind | None:
        """Return what an address was when it was last read as a seed; None if it never was."""
        if (mark := self._marks.get(READ + address)) is not None:
            return SeedKind(mark.partition(" ")[0])
        return SeedKind(self._stored[address].version) if address in self._stored else None

    def _seed(self, name: str) -> Seed | None:
        """Return a seed with its latest content; None if it was never read, or its content is lost."""
        if "://" not in name:
            return Seed.in_file(Path(name))
        if self._kind(name) is SeedKind.PAGE:
            return Seed(name, SeedKind.PAGE, WebResponse())
        if name not in self._stored or (kept := self._run.lists.get(name)) is None:
            return None
        seed = Seed(name, SeedKind(kept.version), kept.response)
        is_latest = name in self._answered or self._marks.get(READ + name) in (None, seed.mark)
        return seed if is_latest else None

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
        elif self._kind(name) is not SeedKind.PAGE:
            kept = None if self._run.deep else self._stored.get(name)
            validators = (kept.response.etag, kept.response.modified, kept.response.address) if kept else ()
            self._queues.add(PageRequest(name, *validators))

    def _open_named(self, name: str) -> bool:
        """Open the seeds that another one names, if their hosts may be asked. Returns whether that one has content."""
        if (seed := self._seed(name)) is None:
            return False
        for address in self._seeds_in(seed):
            if self._run.settings.allowed.host_for(address):
                self._open(address)
            else:
                self.excluded.add(address)
        return True

    def _take(self, address: str, result: WebResponse | ItemError) -> None:
        if isinstance(result, ItemError):
            problem = result
        else:
            problem = NoSuchAddress(f"{host_of(address)}: no such address; correct it, or remove it")
            if result.status == 304:
                self._answered.add(address)
            elif result.status == 200:
                seed = Seed.of(address, result)
                is_new = self._kind(address) is None and address in self._run.settings.addresses
                if is_new or seed.kind is not SeedKind.PAGE:
                    self._keep(seed)
                wrong = "answers with a page, not a feed; correct it in its list, or sign in to your network"
                problem = NoSuchAddress(f"{host_of(address)}: {wrong}")
        if not self._open_named(address):
            self.failed[address] = problem

    def _keep(self, seed: Seed) -> None:
        response = seed.response
        if seed.kind is SeedKind.PAGE:
            self.pages[seed.name] = response
            response = response._replace(body=b"")
        kept = StoredResponse(seed.name, self._run.clock(), response, seed.kind)
        self._run.lists.put(kept)
        self._stored[seed.name] = kept._replace(response=response._replace(body=b""))
        self._answered.add(seed.name)
        self._marks.set(READ + seed.name, seed.mark)
