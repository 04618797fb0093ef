"""One listing of a web source: what its feeds and lists name, and what looks at the due pages found."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import orjson

from catchment.contracts import Known
from catchment.errors import ItemError, ParseError, Skipped, SkipReason
from catchment.model import Change, Checkpoint, Failure, Item, KnownItem, Root, Skip, Tombstone, Upsert
from connectors.web import looks
from connectors.web.address import host_of
from connectors.web.client import WebResponse
from connectors.web.entries import stored_entry
from connectors.web.feeds import FeedEntry, read_feed
from connectors.web.hosts import HostAway, HostQueues, Hosts, NoSuchAddress, PageRequest, RobotsForbid
from connectors.web.looks import PageState
from connectors.web.seed_reading import Seed, Seeds, listed_by
from connectors.web.seeds import SeedKind, listed
from connectors.web.settings import WebSettings
from connectors.web.store import ResponseStore, StoredResponse

_LONGEST = 600.0
"""Seconds after which a listing ends, to be continued by the next one."""
_MOST_STORED = 500_000_000
"""Bytes that may wait for their delivery."""
_CHECKPOINT_LOOKS, _CHECKPOINT_SECONDS = 100, 2.0
_AGAIN = timedelta(minutes=30)
"""Least time between two listings, unless this one was cut short."""
_GIVEN_UP = timedelta(days=1)
"""Time after which a new address of a host that is away counts as failed."""
_GONE_INTERVAL = timedelta(days=30)
_KEPT = timedelta(days=7)
"""How long a response waits for its delivery at most."""
_SAME_ANSWERS = 2
"""Changed pages of a host with equal text, above which this text is an error page (a "soft 404")."""
_GONE, _SEED, _FRONTIER = "gone:", "seed:", "frontier"
_NO_PAGE = re.compile(r"\.(jpe?g|png|gif|svg|webp|ico|css|js|mp[34]|zip|t?gz|exe|dmg|iso|woff2?)$", re.IGNORECASE)
_EXCLUDED, _FAILED = "+excluded", "+failed"
"""Versions of items without content."""


@dataclass(slots=True)
class Wanted:
    """An item that the source should have.

    Attributes:
        entry: Of a feed, if the item has no content yet but its summary.
        feed, id, url: The feed, and the entry's ID and address there if that is not the locator.
        came_from: The locator that the entry had before its address changed.
        site, depth: The page whose links led here, and the number of links.
        listed: When a sitemap says that it changed.
    """

    locator: str
    container: str
    entry: FeedEntry | None = None
    feed: str = ""
    id: str = ""
    url: str = ""
    came_from: str | None = None
    site: str = ""
    depth: int = 0
    listed: datetime | None = None

    def attributes(self) -> dict[str, Any]:
        names = ("feed", "id", "url", "site", "depth")
        return {name: value for name in names if (value := getattr(self, name))}


@dataclass
class WebListing:
    """One listing. `run` it once."""

    settings: WebSettings
    hosts: Hosts
    seeds_store: ResponseStore
    store: ResponseStore
    known: Known
    clock: Callable[[], datetime]
    deep: bool
    _items: dict[str, KnownItem] = field(default_factory=dict)
    _wanted: dict[str, Wanted] = field(default_factory=dict)
    _ready: set[str] = field(default_factory=set)
    """Locators with a response that was stored before, and not recorded."""
    _parsed: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    """The mark and the locators of each feed that was parsed."""
    _feeds: set[str] = field(default_factory=set)
    _sites: Counter[str] = field(default_factory=Counter)
    _frontier: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Links that were found and not looked at, with their site and depth."""
    _same: Counter[tuple[str, str]] = field(default_factory=Counter)
    _marks: dict[str, str | None] = field(default_factory=dict)
    _next: datetime | None = None
    _is_cut: bool = False

    def run(self) -> Iterator[Change]:
        """Yield the changes. Raises SourceUnavailable if a file with addresses cannot be read."""
        yield Root({"": "web"})
        self._begun = self._saved = time.monotonic()
        self._looks = 0
        self._stored_marks = self.known.marks()
        self._items = {
            locator: item for place in self.known.containers() for locator, item in self.known.within(place).items()
        }
        self._sweep()
        queues = self._queues()
        self._seeds = Seeds(self.settings, queues, self.seeds_store, self.clock, deep=self.deep)
        try:
            for _ in self._seeds.read():
                yield from self._checkpoint(queues)
            self._store_marks(queues)
        finally:
            queues.close()
        # A list that cannot be read for the first time may have been read before its stored response was lost.
        is_complete = all(self._is_failing(address) for address in self._seeds.failed)
        queues = self._queues()
        try:
            yield from self._look(queues)
        finally:
            queues.close()
        if not self._is_cut and is_complete:
            yield from self._departed()
        yield from self._finished(queues)

    # Beginning and end

    def _queues(self) -> HostQueues:
        marks = {**self._stored_marks, **self._marks}
        return HostQueues(self.hosts, {k: v for k, v in marks.items() if v is not None}, self.clock, self._is_over)

    def _is_over(self) -> bool:
        is_over = time.monotonic() - self._begun > _LONGEST or self.store.bytes > _MOST_STORED
        self._is_cut = self._is_cut or is_over
        return is_over

    def _sweep(self) -> None:
        """Delete the responses that were delivered; the others are used instead of a request."""
        now = self.clock()
        for kept, size in self.store:
            item = self._items.get(kept.key)
            is_recorded = item is not None and item.version == kept.version
            is_delivered = is_recorded and item is not None and item.content_hash not in (None, kept.replaces)
            if kept.key == _FRONTIER:
                continue
            if is_delivered or now - kept.asked > _KEPT:
                self.store.drop(kept.key)
                continue
            self.store.bytes += size
            if not is_recorded and not self.deep:
                self._ready.add(kept.key)
        if (frontier := self.store.get(_FRONTIER)) is not None:
            self._frontier = {address: (site, depth) for address, site, depth in orjson.loads(frontier.body)}

    def _checkpoint(self, queues: HostQueues) -> Iterator[Checkpoint]:
        """Yield a checkpoint if there is enough to save, or if nothing was yielded for a while."""
        if self._looks < _CHECKPOINT_LOOKS and time.monotonic() - self._saved < _CHECKPOINT_SECONDS:
            return
        self._looks, self._saved = 0, time.monotonic()
        self._save_frontier()
        yield Checkpoint(self._store_marks(queues))

    def _store_marks(self, queues: HostQueues) -> dict[str, str | None]:
        for key in queues.changed:
            self._marks[key] = queues.deferred[key].mark() if key in queues.deferred else None
        queues.changed.clear()
        return dict(self._marks)

    def _save_frontier(self) -> None:
        links = [(address, site, depth) for address, (site, depth) in self._frontier.items()]
        if links:
            self.store.put(StoredResponse(_FRONTIER, self.clock(), orjson.dumps(links)))
        else:
            self.store.drop(_FRONTIER)

    def _finished(self, queues: HostQueues) -> Iterator[Change]:
        self._save_frontier()
        for name, (mark, locators) in self._parsed.items():
            is_read = all(locator in self._items for locator in locators)
            self._marks[_SEED + name] = mark if is_read else None
        marks = self._store_marks(queues)
        current = {_SEED + name for name in self._feeds}
        for key in self._stored_marks:
            is_stale = key.startswith(_GONE) and key.removeprefix(_GONE) not in self._wanted
            if not self._is_cut and (is_stale or (key.startswith(_SEED) and key not in current)):
                marks[key] = None
        now = self.clock()
        moments = [self._next, *(one.until for one in queues.deferred.values())]
        again = max(min(filter(None, moments)), now + _AGAIN) if any(moments) else None
        yield Checkpoint(marks, again=now if self._is_cut else again)

    # What the source should have

    def _look(self, queues: HostQueues) -> Iterator[Change]:
        """Take all that the seeds name, and look at the pages that are due."""
        for seed in self._seeds.walk():
            yield from self._named_by(seed, queues)
            yield from self._checkpoint(queues)
        for address in self._seeds.excluded:
            if (wanted := self._want(Wanted(address, host_of(address)))) is not None:
                yield from self._skipped(wanted, SkipReason.EXCLUDED, _EXCLUDED)
        for address, error in self._seeds.failed.items():
            if (wanted := self._want(Wanted(address, host_of(address)))) is not None:
                yield from self._without_page(wanted, error)
        for locator, item in list(self._items.items()):
            site, depth = item.attributes.get("site", ""), item.attributes.get("depth", 0)
            if site in self._sites and depth <= self.settings.depth:
                yield from self._follow(locator, site, depth, queues)
        for address, (site, depth) in list(self._frontier.items()):
            if site in self._sites:
                yield from self._follow(address, site, depth, queues)
        for outcome in queues.outcomes():
            if outcome is not None:
                self._looks += 1
                yield from self._outcome(outcome[0], outcome[1], queues)
            yield from self._checkpoint(queues)

    def _named_by(self, seed: Seed, queues: HostQueues) -> Iterator[Change]:
        match seed.kind:
            case SeedKind.FEED:
                yield from self._feed(seed, queues)
            case SeedKind.PAGE:
                if (wanted := self._want(Wanted(seed.name, host_of(seed.name)))) is None:
                    return
                if self.settings.depth:
                    self._sites[seed.name] += 1
                    wanted.site = seed.name
                if (response := self._seeds.pages.get(seed.name)) is not None:
                    yield from self._outcome(PageRequest(seed.name), response, queues)
                else:
                    yield from self._consider(wanted, queues)
            case _:
                for found in listed_by(seed):
                    wanted = Wanted(found.address, host_of(found.address), listed=found.modified)
                    if not self._seeds.is_list(found.address) and self._want(wanted):
                        yield from self._consider(wanted, queues)

    def _want(self, wanted: Wanted) -> Wanted | None:
        """Return it, unless another seed named the same item first."""
        if wanted.locator in self._wanted:
            return None
        self._wanted[wanted.locator] = wanted
        return wanted

    def _feed(self, seed: Seed, queues: HostQueues) -> Iterator[Change]:
        self._feeds.add(seed.name)
        of_feed = {place: item for place, item in self._items.items() if item.attributes.get("feed") == seed.name}
        mark = seed.digest(self.settings.full_text, sorted(self.settings.allowed))
        if self._stored_marks.get(_SEED + seed.name) == mark and not self.deep:
            for locator, item in of_feed.items():
                facts = {name: item.attributes.get(name, "") for name in ("feed", "id", "url")}
                wanted = self._want(Wanted(locator, host_of(locator), **facts))
                if wanted and "next" in item.attributes:
                    yield from self._consider(wanted, queues)
            return
        try:
            entries = read_feed(seed.response.body, seed.response.address, seed.response.charset).entries
        except ParseError:
            entries = ()
        places = {str(item.attributes.get("id")): place for place, item in of_feed.items()}
        named = {self._place(entry, seed.name): entry for entry in entries}
        for place, entry in named.items():
            wanted = Wanted(place, host_of(place), feed=seed.name, id=entry.id)
            if place != entry.address:
                wanted.container, wanted.url = host_of(seed.name) or seed.name, entry.address or ""
            if self._want(wanted) is None:
                continue
            former = places.get(entry.id)
            if former and former not in named and place not in self._items:
                wanted.came_from = former
                self._wanted[former] = wanted
            if place == entry.address and not entry.is_full and self.settings.full_text:
                wanted.entry = entry
                yield from self._consider(wanted, queues)
            else:
                yield from self._entry(wanted, entry)
        yield from self._left(of_feed, named)
        self._parsed[seed.name] = mark, list(named)

    def _place(self, entry: FeedEntry, feed: str) -> str:
        """Return the locator of an entry: its address, if we may ask its host for it."""
        if entry.address and self.settings.host_for(entry.address):
            return entry.address
        return f"{feed}#{entry.id}"

    def _left(self, of_feed: dict[str, KnownItem], named: dict[str, FeedEntry]) -> Iterator[Change]:
        """Keep the entries that left their feed as they are, and look at their pages no more."""
        for locator, item in of_feed.items():
            if locator not in named and "next" in item.attributes and not item.version.startswith("+"):
                facts = {name: item.attributes.get(name, "") for name in ("feed", "id", "url", "size", "dated")}
                yield Upsert(_item(Wanted(locator, host_of(locator)), item.version, None, facts))

    def _entry(self, wanted: Wanted, entry: FeedEntry, state: PageState | None = None) -> Iterator[Change]:
        """Take the content of an entry from its feed. `state`: of its page, which could not be read."""
        known, now = self._items.get(wanted.locator), self.clock()
        kept = stored_entry(entry, wanted.locator, wanted.feed, now, known.content_hash if known else None)
        attributes = {**wanted.attributes(), **(state.attributes() if state else {})}
        if known is None or known.version != kept.version:
            self.store.put(kept)
        elif known.attributes == attributes:
            return
        size, date = len(kept.body), entry.updated or entry.published
        item = Item(wanted.locator, wanted.container, kept.version, size=size, modified=date, attributes=attributes)
        yield from self._upsert(wanted, item)

    def _follow(self, address: str, site: str, depth: int, queues: HostQueues) -> Iterator[Change]:
        """Want a page that a link of a site names, as long as the site may have more pages."""
        if self._sites[site] >= self.settings.most_pages and address not in self._items:
            self._frontier.pop(address, None)
            return
        wanted = self._want(Wanted(address, host_of(address), site=site, depth=depth))
        if wanted is None:
            return
        self._sites[site] += 1
        yield from self._consider(wanted, queues)

    def _departed(self) -> Iterator[Change]:
        """Report the items that nothing names any more, except entries of feeds."""
        for locator, item in self._items.items():
            if locator not in self._wanted and item.attributes.get("feed") not in self._feeds:
                # The guard need not hold what the library never had, such as a feed before the consent to its host.
                yield Tombstone(locator, versioned=item.content_hash is None)

    # Looks

    def _consider(self, wanted: Wanted, queues: HostQueues) -> Iterator[Change]:
        """Look at a page if it is due."""
        known, now = self._items.get(wanted.locator), self.clock()
        if self.settings.host_for(wanted.locator) is None:
            yield from self._skipped(wanted, SkipReason.EXCLUDED, _EXCLUDED)
            return
        if wanted.locator in self._ready and (kept := self._stored_page(wanted.locator)):
            yield from self._reused(wanted, kept, queues)
            return
        gone = self._stored_marks.get(_GONE + wanted.locator)
        if known is None and gone is not None and datetime.fromisoformat(gone) > now:
            return
        state = PageState.of(known.attributes) if known else None
        is_listed_newer = state is not None and wanted.listed is not None and wanted.listed > state.looked
        if state is not None and state.next > now and not (self.deep or is_listed_newer):
            self._due(state)
            return
        has_content = known is not None and not known.version.startswith("+") and not self.deep
        conditions = (state.etag, state.modified, state.validated) if state and has_content else ()
        queues.add(PageRequest(wanted.locator, *conditions))

    def _stored_page(self, locator: str) -> StoredResponse | None:
        kept = self.store.get(locator)
        return kept if kept and kept.title is None else None

    def _outcome(self, request: PageRequest, result: WebResponse | ItemError, queues: HostQueues) -> Iterator[Change]:
        wanted = self._wanted[request.address]
        known, now = self._items.get(wanted.locator), self.clock()
        state = PageState.of(known.attributes) if known else None
        if not isinstance(result, HostAway):
            self._frontier.pop(wanted.locator, None)
        if isinstance(result, ItemError):
            yield from self._without_page(wanted, result)
        elif result.status == 200:
            yield from self._page(wanted, result, queues)
        elif result.status == 304 and known is not None and state is not None:
            yield from self._same_as_before(wanted, known.version, state.unchanged(now, result))
        else:
            host = host_of(wanted.locator)
            yield from self._missing(wanted, NoSuchAddress(f"{host}: no such address (HTTP status {result.status})"))

    def _page(self, wanted: Wanted, response: WebResponse, queues: HostQueues) -> Iterator[Change]:
        known, now = self._items.get(wanted.locator), self.clock()
        before = PageState.of(known.attributes) if known else None
        version = looks.digest(response.body, response.media_type)
        if known is not None and before is not None and known.version == version:
            # A proof or deep listing that finds the same leaves the time of the next look.
            if not self.deep or before.missing:
                yield from self._same_as_before(wanted, version, before.unchanged(now, response))
            yield from self._links(wanted, response, queues)
            return
        if known is not None and not known.version.startswith("+"):
            self._same[wanted.container, version] += 1
            if self._same[wanted.container, version] > _SAME_ANSWERS:
                yield from self._missing(
                    wanted, NoSuchAddress(f"{wanted.container}: answers with the same text for many addresses")
                )
                return
        if not wanted.site and self._seeds.became(wanted.locator, response):
            self._next = now
            return
        kept = StoredResponse(
            key=wanted.locator,
            asked=now,
            body=response.body,
            version=version,
            address=response.address,
            media_type=response.media_type,
            charset=response.charset,
            etag=response.etag,
            modified=response.modified,
            replaces=known.content_hash if known else None,
        )
        self.store.put(kept)
        yield from self._new(wanted, version, looks.changed(before, now, response))
        yield from self._links(wanted, response, queues)

    def _reused(self, wanted: Wanted, kept: StoredResponse, queues: HostQueues) -> Iterator[Change]:
        """Take a response whose look was not recorded, because the sync was killed."""
        known = self._items.get(wanted.locator)
        before = PageState.of(known.attributes) if known else None
        response = WebResponse(
            200, kept.address, kept.etag, kept.modified, kept.media_type, kept.charset, kept.body, False
        )
        yield from self._new(wanted, kept.version, looks.changed(before, kept.asked, response))
        yield from self._links(wanted, response, queues)

    def _links(self, wanted: Wanted, response: WebResponse, queues: HostQueues) -> Iterator[Change]:
        """Follow the links of a page of a site, within its host."""
        if not wanted.site or wanted.depth >= self.settings.depth or "html" not in response.media_type:
            return
        try:
            links = listed(response.body, SeedKind.PAGE, response.address)
        except ParseError:
            return
        for link in links:
            is_within = self.settings.host_for(link.address) == self.settings.host_for(wanted.locator)
            if is_within and link.address not in self._wanted and not _NO_PAGE.search(urlsplit(link.address).path):
                self._frontier[link.address] = (wanted.site, wanted.depth + 1)
                yield from self._follow(link.address, wanted.site, wanted.depth + 1, queues)

    def _new(self, wanted: Wanted, version: str, state: PageState) -> Iterator[Change]:
        if _GONE + wanted.locator in self._stored_marks:
            self._marks[_GONE + wanted.locator] = None
        yield from self._same_as_before(wanted, version, state)

    def _same_as_before(self, wanted: Wanted, version: str, state: PageState) -> Iterator[Change]:
        self._due(state)
        yield from self._upsert(wanted, _item(wanted, version, state))

    def _missing(self, wanted: Wanted, error: ItemError) -> Iterator[Change]:
        """Record that the host has no such address. After some days of it the item is deleted."""
        known, now = self._items.get(wanted.locator), self.clock()
        if known is None and _GONE + wanted.locator in self._stored_marks:
            self._marks[_GONE + wanted.locator] = (now + _GONE_INTERVAL).isoformat()
            return
        state = (PageState.of(known.attributes) if known else None) or _unread(now)
        state = state.missed_at(now)
        if known is not None and state.is_gone:
            self._marks[_GONE + wanted.locator] = (now + _GONE_INTERVAL).isoformat()
            yield Tombstone(wanted.locator)
        elif known is not None and not known.version.startswith("+"):
            yield from self._same_as_before(wanted, known.version, state)
        else:
            yield from self._failed(wanted, error, state)

    def _without_page(self, wanted: Wanted, error: ItemError) -> Iterator[Change]:
        """Record a look without an answer. What was read once stays as it is."""
        known, now = self._items.get(wanted.locator), self.clock()
        if isinstance(error, HostAway) and (known is not None or now - error.failing < _GIVEN_UP):
            return
        state = ((PageState.of(known.attributes) if known else None) or _unread(now)).failed(now)
        if known is not None and not known.version.startswith("+"):
            if not isinstance(error, RobotsForbid):
                yield from self._same_as_before(wanted, known.version, state)
        elif wanted.entry is not None:
            yield from self._entry(wanted, wanted.entry, state)
        elif isinstance(error, Skipped):
            yield from self._skipped(wanted, error.skip_reason, f"+{error.skip_reason}", state)
        else:
            yield from self._failed(wanted, error, state)

    def _failed(self, wanted: Wanted, error: ItemError, state: PageState) -> Iterator[Change]:
        """Report an address that was never read. A broken link of a site is no failure of ours."""
        if wanted.depth:
            yield from self._skipped(wanted, SkipReason.EXCLUDED, _FAILED, state)
            return
        self._due(state)
        yield self._recorded(Failure(_item(wanted, _FAILED, state), error))

    def _skipped(
        self, wanted: Wanted, reason: SkipReason, version: str, state: PageState | None = None
    ) -> Iterator[Change]:
        known = self._items.get(wanted.locator)
        if state is not None or known is None or known.version != version:
            yield self._recorded(Skip(_item(wanted, version, state), reason))

    def _upsert(self, wanted: Wanted, item: Item) -> Iterator[Change]:
        if wanted.came_from:
            yield Tombstone(wanted.came_from)
        yield self._recorded(Upsert(item, wanted.came_from))

    def _recorded(self, change: Upsert | Skip | Failure) -> Upsert | Skip | Failure:
        """Remember an item as known, with which its feed counts as read."""
        item = change.item
        self._items.setdefault(item.locator, KnownItem(item.version, None, None, item.attributes))
        return change

    def _is_failing(self, locator: str) -> bool:
        known = self._items.get(locator)
        return known is not None and known.version == _FAILED

    def _due(self, state: PageState) -> None:
        self._next = min(self._next or state.next, state.next)


def _unread(now: datetime) -> PageState:
    return PageState(now, timedelta())


def _item(wanted: Wanted, version: str, state: PageState | None, facts: dict[str, Any] | None = None) -> Item:
    """Return the item of a page. `facts`: its attributes, if it is not looked at."""
    attributes = facts or {**wanted.attributes(), **(state.attributes() if state else {})}
    dated = attributes.get("dated")
    return Item(
        wanted.locator,
        wanted.container,
        version,
        size=attributes.get("size"),
        modified=datetime.fromisoformat(dated) if dated else None,
        attributes={name: value for name, value in attributes.items() if value},
    )
