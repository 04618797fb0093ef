"""One listing of a web source: what its feeds and lists name, in which order it is read, and when it is saved."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta

import orjson

from catchment.contracts import Known
from catchment.errors import ParseError
from catchment.model import Change, Checkpoint, KnownItem, Root, Tombstone, Upsert
from connectors.web.address import host_of
from connectors.web.feeds import FeedEntry, read_feed
from connectors.web.hosts import HostQueues, Hosts, PageRequest
from connectors.web.page_looks import GONE, PageLooks, Wanted, item_of
from connectors.web.seed_reading import Seed, Seeds, listed_by
from connectors.web.seeds import SeedKind
from connectors.web.settings import WebSettings
from connectors.web.store import ResponseStore, StoredResponse

_LONGEST = 600.0
"""Seconds after which a listing ends, to be continued by the next one."""
_MOST_STORED = 500_000_000
"""Bytes that may wait for their delivery."""
_CHECKPOINT_LOOKS, _CHECKPOINT_SECONDS = 100, 2.0
_AGAIN = timedelta(minutes=30)
"""Least time between two listings, unless this one was cut short."""
_KEPT = timedelta(days=7)
"""How long a response waits for its delivery at most."""
_SEED, _FRONTIER = "seed:", "frontier"


class WebListing:
    """One listing. `run` it once. The stores are of seeds and of pages."""

    def __init__(
        self,
        settings: WebSettings,
        hosts: Hosts,
        seeds_store: ResponseStore,
        store: ResponseStore,
        known: Known,
        clock: Callable[[], datetime],
        *,
        deep: bool,
    ) -> None:
        self._settings = settings
        self._hosts = hosts
        self._seeds_store = seeds_store
        self._store = store
        self._known = known
        self._clock = clock
        self._deep = deep
        self._parsed: dict[str, tuple[str, list[str]]] = {}
        """The mark and the locators of each feed that was parsed."""
        self._feeds: set[str] = set()
        self._by_feed: defaultdict[str, dict[str, KnownItem]] = defaultdict(dict)
        self._is_cut = False
        self._looked = 0

    def run(self) -> Iterator[Change]:
        """Yield the changes. Raises SourceUnavailable if a file with addresses cannot be read."""
        yield Root({"": "web"})
        self._begun = self._saved = time.monotonic()
        items = {
            place: item
            for container in self._known.containers()
            for place, item in self._known.within(container).items()
        }
        for locator, item in items.items():
            self._by_feed[item.attributes.get("feed", "")][locator] = item
        marks = self._known.marks()
        queues = self._queues(marks)
        self._seeds = Seeds(self._settings, queues, self._seeds_store, self._clock, deep=self._deep)
        self._pages = PageLooks(
            self._settings, self._store, items, marks, self._seeds.became, self._clock, deep=self._deep
        )
        self._sweep()
        try:
            for _ in self._seeds.read():
                yield from self._checkpoint(queues)
            self._store_marks(queues)
        finally:
            queues.close()
        # A list that cannot be read for the first time may have been read before its stored response was lost.
        is_complete = all(self._pages.is_failing(address) for address in self._seeds.failed)
        queues = self._pages.queues = self._queues({**marks, **self._pages.marks})
        try:
            yield from self._look(queues)
        finally:
            queues.close()
        if not self._is_cut and is_complete:
            yield from self._departed()
        yield from self._finished(queues)

    # Beginning and end

    def _queues(self, marks: Mapping[str, str | None]) -> HostQueues:
        return HostQueues(self._hosts, {k: v for k, v in marks.items() if v is not None}, self._clock, self._is_over)

    def _is_over(self) -> bool:
        is_over = time.monotonic() - self._begun > _LONGEST or self._store.bytes > _MOST_STORED
        self._is_cut = self._is_cut or is_over
        return is_over

    def _sweep(self) -> None:
        """Delete the responses that were delivered; the others are used instead of a request."""
        now = self._clock()
        for kept, size in self._store:
            item = self._pages.items.get(kept.key)
            is_recorded = item is not None and item.version == kept.version
            is_delivered = is_recorded and item is not None and item.content_hash not in (None, kept.replaces)
            if kept.key == _FRONTIER:
                continue
            if is_delivered or now - kept.asked > _KEPT:
                self._store.drop(kept.key)
                continue
            self._store.bytes += size
            if not is_recorded and not self._deep:
                self._pages.ready.add(kept.key)
        if (frontier := self._store.get(_FRONTIER)) is not None:
            self._pages.frontier = {address: (site, depth) for address, site, depth in orjson.loads(frontier.body)}

    def _checkpoint(self, queues: HostQueues) -> Iterator[Checkpoint]:
        """Yield a checkpoint if there is enough to save, or if nothing was yielded for a while."""
        if self._looked < _CHECKPOINT_LOOKS and time.monotonic() - self._saved < _CHECKPOINT_SECONDS:
            return
        self._looked, self._saved = 0, time.monotonic()
        self._save_frontier()
        yield Checkpoint(self._store_marks(queues))

    def _store_marks(self, queues: HostQueues) -> dict[str, str | None]:
        for key in queues.changed:
            self._pages.marks[key] = queues.deferred[key].mark() if key in queues.deferred else None
        queues.changed.clear()
        return dict(self._pages.marks)

    def _save_frontier(self) -> None:
        links = [(address, site, depth) for address, (site, depth) in self._pages.frontier.items()]
        if links:
            self._store.put(StoredResponse(_FRONTIER, self._clock(), orjson.dumps(links)))
        else:
            self._store.drop(_FRONTIER)

    def _finished(self, queues: HostQueues) -> Iterator[Change]:
        self._save_frontier()
        for name, (mark, locators) in self._parsed.items():
            is_read = all(locator in self._pages.items for locator in locators)
            self._pages.marks[_SEED + name] = mark if is_read else None
        marks = self._store_marks(queues)
        current = {_SEED + name for name in self._feeds}
        for key in self._pages.stored_marks:
            is_stale = key.startswith(GONE) and key.removeprefix(GONE) not in self._pages.wanted
            if not self._is_cut and (is_stale or (key.startswith(_SEED) and key not in current)):
                marks[key] = None
        now = self._clock()
        moments = [self._pages.next, *(one.until for one in queues.deferred.values())]
        again = max(min(filter(None, moments)), now + _AGAIN) if any(moments) else None
        # A page that turned out to be a feed is due at once.
        is_due = self._is_cut or (self._pages.next is not None and self._pages.next <= now)
        yield Checkpoint(marks, again=now if is_due else again)

    # What the source should have

    def _look(self, queues: HostQueues) -> Iterator[Change]:
        """Take all that the seeds name, and look at the pages that are due."""
        for seed in self._seeds.walk():
            yield from self._named_by(seed)
            yield from self._checkpoint(queues)
        for address in self._seeds.excluded:
            if (wanted := self._pages.want(Wanted(address, host_of(address)))) is not None:
                yield from self._pages.consider(wanted)
        for address, error in self._seeds.failed.items():
            if (wanted := self._pages.want(Wanted(address, host_of(address)))) is not None:
                yield from self._pages.without_page(wanted, error)
        for locator, item in list(self._pages.items.items()):
            site, depth = item.attributes.get("site", ""), item.attributes.get("depth", 0)
            if site in self._pages.sites and depth <= self._settings.depth:
                yield from self._pages.follow(locator, site, depth)
        for address, (site, depth) in list(self._pages.frontier.items()):
            if site in self._pages.sites:
                yield from self._pages.follow(address, site, depth)
        for outcome in queues.outcomes():
            if outcome is not None:
                self._looked += 1
                yield from self._pages.outcome(*outcome)
            yield from self._checkpoint(queues)

    def _named_by(self, seed: Seed) -> Iterator[Change]:
        match seed.kind:
            case SeedKind.FEED:
                yield from self._feed(seed)
            case SeedKind.PAGE:
                if (wanted := self._pages.want(Wanted(seed.name, host_of(seed.name)))) is None:
                    return
                if self._settings.depth:
                    self._pages.sites[seed.name] += 1
                    wanted.site = seed.name
                if (response := self._seeds.pages.get(seed.name)) is not None:
                    yield from self._pages.outcome(PageRequest(seed.name), response)
                else:
                    yield from self._pages.consider(wanted)
            case _:
                for found in listed_by(seed):
                    wanted = Wanted(found.address, host_of(found.address), listed=found.modified)
                    if not self._seeds.is_list(found.address) and self._pages.want(wanted):
                        yield from self._pages.consider(wanted)

    def _feed(self, seed: Seed) -> Iterator[Change]:
        self._feeds.add(seed.name)
        of_feed = self._by_feed[seed.name]
        mark = seed.digest(self._settings.full_text, sorted(self._settings.allowed))
        if self._pages.stored_marks.get(_SEED + seed.name) == mark and not self._deep:
            for locator, item in of_feed.items():
                facts = {name: item.attributes.get(name, "") for name in ("feed", "id", "url")}
                wanted = self._pages.want(Wanted(locator, host_of(locator), **facts))
                if wanted and "next" in item.attributes:
                    yield from self._pages.consider(wanted)
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
            if self._pages.want(wanted) is None:
                continue
            former = places.get(entry.id)
            if former and former not in named and place not in self._pages.items:
                wanted.came_from = former
                self._pages.wanted[former] = wanted
            if place == entry.address and not entry.is_full and self._settings.full_text:
                wanted.entry = entry
                yield from self._pages.consider(wanted)
            else:
                yield from self._pages.entry(wanted, entry)
        yield from self._left(of_feed, named)
        self._parsed[seed.name] = mark, list(named)

    def _place(self, entry: FeedEntry, feed: str) -> str:
        """Return the locator of an entry: its address, if we may ask its host for it."""
        if entry.address and self._settings.host_for(entry.address):
            return entry.address
        return f"{feed}#{entry.id}"

    def _left(self, of_feed: dict[str, KnownItem], named: dict[str, FeedEntry]) -> Iterator[Change]:
        """Keep the entries that left their feed as they are, and look at their pages no more."""
        for locator, item in of_feed.items():
            if locator not in named and "next" in item.attributes and not item.version.startswith("+"):
                facts = {name: item.attributes.get(name, "") for name in ("feed", "id", "url", "size", "dated")}
                yield Upsert(item_of(Wanted(locator, host_of(locator)), item.version, None, facts))

    def _departed(self) -> Iterator[Change]:
        """Report the items that nothing names any more, except entries of feeds."""
        for locator, item in self._pages.items.items():
            if locator not in self._pages.wanted and item.attributes.get("feed") not in self._feeds:
                # The guard need not hold what the library never had, such as a feed before the consent to its host.
                yield Tombstone(locator, versioned=item.content_hash is None)
