"""Read the seeds of a source: its feeds, lists and sitemaps, and the seeds that these name in turn.

Untrusted data is parsed by `WebRun.parse`. A seed that it cannot parse, or that breaks off, counts as failed: the listing
then deletes no items.

The latest good response of each seed is on disk. It counts as long as its host is away, answers with an error, or answers with
a web page where a feed or list was: a login page of the network, or an error page with status 200. If the ledger has taken a
later response than the stored one, the stored one counts as missing, unless the host confirms it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from catchment.contracts import Parse
from catchment.errors import FetchFailed, ItemError, ParseError, Skipped, SkipReason, SourceUnavailable
from connectors.web.address import MOST_BYTES, host_of
from connectors.web.client import WebResponse
from connectors.web.feeds import FeedEntry, WebFeed, read_feed
from connectors.web.hosts import HostAway, HostQueues, Hosts, NoSuchAddress, PageRequest
from connectors.web.marks import READ, WebMarks
from connectors.web.network import HostNotAllowed
from connectors.web.seeds import ListedAddress, SeedAddresses, SeedKind, addresses_in, kind_of_seed
from connectors.web.settings import WebSettings
from connectors.web.store import ResponseStore, StoredResponse

_MOST, _DEEPEST = 5_000, 10
"""Maximum number of seeds of a source, including seeds that other seeds name, and maximum depth of these."""
_TOO_MANY = (
    f"a source reads {_MOST:,} feeds and lists, {_DEEPEST} deep in each other; add this address as a source of its own"
)
_LISTS = (SeedKind.OPML, SeedKind.SITEMAP_INDEX)
"""Kinds that name further seeds. Lists and sitemaps name pages."""


@dataclass(frozen=True)
class Seed:
    """A feed, list or page. `name`: its address, or the name of its file."""

    name: str
    kind: SeedKind
    response: WebResponse
    parse: Parse

    @classmethod
    def of(cls, address: str, response: WebResponse, parse: Parse) -> Self:
        """Return the response of an address as a seed. Raises ItemError if it cannot be parsed."""
        kind = parse(kind_of_seed, response.body, response.media_type, urlsplit(address).path)
        return cls(address, kind, response, parse)

    @classmethod
    def in_file(cls, path: Path, parse: Parse) -> Self:
        """Return a file as a seed. Raises SourceUnavailable if it cannot be read, ItemError if it cannot be parsed."""
        try:
            with path.open("rb") as file:
                data = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise SourceUnavailable(f"{path.name!r}: cannot be read ({error.strerror}); restore the file") from None
        if len(data) > MOST_BYTES:
            # Its pages after a cut would count as deleted.
            raise SourceUnavailable(f"{path.name!r}: larger than 20 MB; split it")
        kind = parse(kind_of_seed, data, None, path.name)
        return cls(path.name, kind, WebResponse(address=path.name, body=data), parse)

    @cached_property
    def listing(self) -> SeedAddresses:
        """The addresses in a list, sitemap or OPML. Raises ItemError."""
        return self.parse(addresses_in, self.response.body, self.kind, self.response.address, self.response.charset)

    def feed(self) -> WebFeed:
        """Read a feed. Raises ItemError."""
        return self.parse(read_feed, self.response.body, self.response.address, self.response.charset)

    def digest(self, *facts: object) -> str:
        """Return a hash of the content and of the other facts that affect its items."""
        return hashlib.blake2b(self.response.body + repr(facts).encode(), digest_size=16).hexdigest()

    @cached_property
    def mark(self) -> str:
        """Its kind and the hash of its content."""
        return f"{self.kind} {self.digest()}"


@dataclass(frozen=True, slots=True)
class WebRun:
    """The context that all parts of one listing share. `lists`, `pages`: the stored responses of seeds, and of pages.

    `unreachable`: receives the locators that were not compared, because their host does not answer, with the reason.
    """

    settings: WebSettings
    hosts: Hosts
    lists: ResponseStore
    pages: ResponseStore
    parse: Parse
    clock: Callable[[], datetime]
    deep: bool
    unreachable: dict[str, str]


class Seeds:
    """The seeds of one listing: `read` them all, then take them by `walk`."""

    def __init__(self, run: WebRun, queues: HostQueues, marks: WebMarks) -> None:
        self.failed: dict[str, ItemError] = {}
        """Seeds that cannot be read whole, and have no stored response that counts, with the reason."""
        self.outdated: dict[str, ItemError] = {}
        """Seeds that answered with something else, so that their stored response counts, with the reason."""
        self.excluded: set[str] = set()
        """Feeds and lists that other seeds name, on hosts that are not allowed."""
        self.pages: dict[str, WebResponse] = {}
        """Seeds that turned out to be pages in this listing."""
        self.new: list[str] = []
        """Pages that turned out to be seeds for the first time, and were not opened yet."""
        self._run = run
        self._queues = queues
        self._marks = marks
        self._stored = {stored_seed.key: stored_seed for stored_seed, _ in run.lists if stored_seed.version}
        self._confirmed: set[str] = set()
        """Seeds with a stored response that the host confirmed or sent in this listing."""
        self._entries: dict[str, dict[str, FeedEntry]] = {}
        """The entries of unchanged feeds, parsed because the page of an entry changed."""
        self._depths: dict[str, int] = {}
        """The seeds of this listing, with the nesting depth of each."""

    def read(self) -> Iterator[None]:
        """Request all seeds. Yields while it waits. Raises SourceUnavailable if a file cannot be read."""
        for name in self._run.settings.addresses:
            self._open(name, 0)
        yield from self._take_outcomes()

    def read_new(self) -> Iterator[None]:
        """Request the seeds that these name. `walk` yields them all then. Yields while it waits."""
        new, self.new = self.new, []
        for name in new:
            self._open_named(name)
        yield from self._take_outcomes()

    def _take_outcomes(self) -> Iterator[None]:
        for outcome in self._queues.outcomes():
            if outcome is not None:
                self._take(*outcome)
            yield

    def walk(self) -> Iterator[Seed]:
        """Yield all seeds that were ever read, in the order of the settings; those of a list at its place."""
        visited: set[str] = set()
        pending = [(name, 0) for name in reversed(self._run.settings.addresses)]
        while pending:
            name, depth = pending.pop()
            if name in visited or (seed := self.seed(name)) is None:
                continue
            visited.add(name)
            if "://" in name:
                self._marks.set(READ + name, seed.mark)
            if seed.kind is not SeedKind.SITEMAP_INDEX:
                yield seed
            if depth < _DEEPEST:
                pending += [(named_seed, depth + 1) for named_seed in reversed(list(self._seeds_in(seed)))]

    @property
    def addresses(self) -> list[str]:
        """The addresses of the seeds of this listing."""
        return [name for name in self._depths if "://" in name]

    def is_list(self, address: str) -> bool:
        """Return whether an address is that of a feed or list, so that it is no item."""
        return self._kind(address) not in (None, SeedKind.PAGE)

    def names(self, feed: str) -> bool:
        """Return whether the source reads a feed in this listing."""
        return self._run.settings.seed_of(feed) in self._depths

    def pages_of(self, seed: Seed) -> list[ListedAddress]:
        """Return the pages that a list names, without its feeds and lists."""
        is_opml = seed.kind is SeedKind.OPML
        return [
            entry for entry in self.named_by(seed) if not self.is_list(entry.address) and (entry.is_page or not is_opml)
        ]

    def named_by(self, seed: Seed) -> list[ListedAddress]:
        """Return the addresses in a list. If it cannot be parsed, or breaks off, it is recorded as failed."""
        try:
            listing = seed.listing
        except ItemError as error:
            self.failed[seed.name] = error
            return []
        if listing.breaks:
            self.failed[seed.name] = ParseError(f"{listing.breaks}; what it does not name is kept until it is whole")
        return listing.addresses

    def recognize(self, address: str, response: WebResponse, is_in_feed: bool) -> bool:
        """Return whether a page turned out to be a feed or list. If no feed names it, it is a seed from now on."""
        try:
            seed = Seed.of(address, response, self._run.parse)
        except ItemError:
            # Its content is parsed once more, as that of an item.
            return False
        if seed.kind is not SeedKind.PAGE and not is_in_feed:
            self.new += [] if self.is_list(address) else [address]
            self._keep(seed)
            self._depths.setdefault(address, 0)
        return seed.kind is not SeedKind.PAGE

    def forget(self) -> None:
        """Forget the seeds that no list or setting names now."""
        # A list that failed may name them.
        for name, _ in () if self.failed else self._marks.begin_with(READ):
            if name not in self._depths:
                self._marks.set(READ + name, None)
                self._run.lists.drop(name)

    def _kind(self, address: str) -> SeedKind | None:
        """Return the kind of an address when it was last read as a seed; None if it never was."""
        if (mark := self._marks.get(READ + address)) is not None:
            return SeedKind(mark.partition(" ")[0])
        return SeedKind(self._stored[address].version) if address in self._stored else None

    def seed(self, name: str) -> Seed | None:
        """Return a seed with its latest content; None if it was never read, or its content is lost or cannot be parsed."""
        if "://" not in name:
            try:
                return Seed.in_file(Path(name), self._run.parse)
            except ItemError as error:
                self.failed[Path(name).name] = error
                return None
        if self._kind(name) is SeedKind.PAGE:
            return Seed(name, SeedKind.PAGE, WebResponse(), self._run.parse)
        if name not in self._stored or (stored_seed := self._run.lists.get(name)) is None:
            return None
        seed = Seed(name, SeedKind(stored_seed.version), stored_seed.response, self._run.parse)
        is_latest = name in self._confirmed or self._marks.get(READ + name) in (None, seed.mark)
        return seed if is_latest else None

    def entry_of(self, feed: str, entry_id: str) -> FeedEntry | None:
        """Return an entry, which names a page, from the latest content of its feed."""
        if feed not in self._entries:
            seed = self.seed(self._run.settings.seed_of(feed))
            entries: tuple[FeedEntry, ...] = ()
            if seed is not None and seed.kind is SeedKind.FEED:
                with suppress(ItemError):
                    entries = seed.feed().entries
            self._entries[feed] = {entry.id: entry for entry in entries}
        return self._entries[feed].get(entry_id)

    def _seeds_in(self, seed: Seed) -> Iterator[str]:
        """Yield the further seeds that a seed names."""
        if seed.kind in (*_LISTS, SeedKind.ADDRESSES, SeedKind.SITEMAP):
            for entry in self.named_by(seed):
                if (seed.kind in _LISTS and not entry.is_page) or self.is_list(entry.address):
                    yield entry.address

    def _open(self, name: str, depth: int) -> None:
        if name in self._depths:
            return
        if len(self._depths) >= _MOST or depth > _DEEPEST:
            self.failed[name] = FetchFailed(_TOO_MANY)
            return
        self._depths[name] = depth
        if "://" not in name:
            self._open_named(name)
        elif self._kind(name) is not SeedKind.PAGE:
            stored_seed = None if self._run.deep else self._stored.get(name)
            validators = (
                (stored_seed.response.etag, stored_seed.response.modified, stored_seed.response.address)
                if stored_seed
                else ()
            )
            self._queues.add(PageRequest(name, *validators))

    def _open_named(self, name: str) -> bool:
        """Open the seeds that a seed names, if their hosts are allowed. Returns whether the seed has content."""
        if (seed := self.seed(name)) is None:
            return False
        for address in self._seeds_in(seed):
            if self._run.settings.allowed.host_for(address):
                self._open(address, self._depths[name] + 1)
            else:
                self.excluded.add(address)
        return True

    def _take(self, address: str, result: WebResponse | ItemError) -> None:
        if isinstance(result, ItemError):
            problem = self._failure_of(address, result) if isinstance(result, Skipped) else result
        else:
            problem = NoSuchAddress(f"{host_of(address)}: no such address; correct it, or remove it")
            if result.status == 304:
                self._confirm(address, result)
            elif result.status == 200:
                problem = self._keep_response(address, result)
        if isinstance(problem, HostAway):
            self._run.unreachable[address] = str(problem)
        has_content = self._open_named(address)
        # A seed that breaks off may stay so for ever, unlike the login page of a network.
        if not has_content or isinstance(problem, ParseError):
            self.failed[address] = problem
        elif address not in self._confirmed and not isinstance(problem, HostAway):
            self.outdated[address] = problem

    def _failure_of(self, address: str, error: Skipped) -> ItemError:
        """Return the failure of a seed that may not be read. Its entries stay unknown, so it does not count as skipped."""
        if isinstance(error, HostNotAllowed):
            # The consent names the hosts of excluded addresses.
            self.excluded.add(f"http://{error.host}/")
            return NoSuchAddress(f"{host_of(address)}: leads to another host ({error})")
        if error.skip_reason is SkipReason.TOO_LARGE:
            most = MOST_BYTES // 1_000_000
            return NoSuchAddress(f"{host_of(address)}: a feed or list larger than {most} MB; correct it in its list")
        return NoSuchAddress(f"{host_of(address)}: {error}")

    def _confirm(self, address: str, response: WebResponse) -> None:
        """Note that a seed did not change, and the validators that its host has for it now."""
        self._confirmed.add(address)
        stored_seed = self._stored[address]
        old_response = stored_seed.response
        new_response = old_response._replace(
            etag=response.etag or old_response.etag, modified=response.modified or old_response.modified
        )
        if new_response != old_response and (stored_whole := self._run.lists.get(address)) is not None:
            self._run.lists.put(stored_whole._replace(response=new_response._replace(body=stored_whole.response.body)))
            self._stored[address] = stored_seed._replace(response=new_response)

    def _keep_response(self, address: str, response: WebResponse) -> ItemError:
        """Keep a new content of a seed. Return the problem if it was none."""
        try:
            seed = Seed.of(address, response, self._run.parse)
        except ItemError as error:
            return error
        is_new = self._kind(address) is None and address in self._run.settings.addresses
        if is_new or seed.kind is not SeedKind.PAGE:
            self._keep(seed)
        wrong = "answers with a page, not a feed; correct it in its list, or sign in to your network"
        return NoSuchAddress(f"{host_of(address)}: {wrong}")

    def _keep(self, seed: Seed) -> None:
        response = seed.response
        if seed.kind is SeedKind.PAGE:
            self.pages[seed.name] = response
            response = response._replace(body=b"")
        stored_seed = StoredResponse(seed.name, self._run.clock(), response, seed.kind)
        self._run.lists.put(stored_seed)
        self._stored[seed.name] = stored_seed._replace(response=response._replace(body=b""))
        self._confirmed.add(seed.name)
        self._marks.set(READ + seed.name, seed.mark)
