"""One listing of a web source: what its feeds and lists name, in which order it is read, and when it is saved."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

from catchment.contracts import Known
from catchment.errors import ItemError
from catchment.model import Change, Checkpoint, KnownItem, Root, Tombstone, Upsert
from connectors.web.feeds import FeedEntry
from connectors.web.hosts import HostQueues
from connectors.web.looks import PageState
from connectors.web.marks import GONE, LINK, TAKEN, WebMarks
from connectors.web.page_looks import PageLooks, Wanted, item_of
from connectors.web.seed_reading import Seed, Seeds, WebRun
from connectors.web.seeds import SeedKind
from connectors.web.store import parts_of, version_of

_LONGEST = 600.0
"""Seconds after which a listing ends, to be continued by the next one."""
_MOST_STORED = 500_000_000
"""Bytes that may wait for their delivery."""
_CHECKPOINT_LOOKS, _CHECKPOINT_SECONDS = 100, 2.0
_AGAIN = timedelta(minutes=30)
"""Least time between two listings, unless this one was cut short."""
_KEPT = timedelta(days=7)
"""How long a response waits for its delivery at most."""
_FORMER_FRONTIER = "frontier"
"""Key of a response that earlier versions stored. Since then, links are marks."""


class WebListing:
    """One listing. Take its `changes` once."""

    def __init__(self, run: WebRun, known: Known) -> None:
        self._run = run
        self._known = known
        self._parsed: dict[str, tuple[str, list[str]]] = {}
        """The mark and the locators of each feed that was parsed."""
        self._entries: dict[str, dict[str, FeedEntry]] = {}
        """The entries of feeds that did not change, parsed because the page of one did."""
        self._feeds: set[str] = set()
        self._by_feed: defaultdict[str, dict[str, KnownItem]] = defaultdict(dict)
        self._is_cut = False
        self._looked = 0

    def changes(self) -> Iterator[Change]:
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
        marks = self._marks = WebMarks(self._known.marks())
        queues = self._queues = HostQueues(self._run.hosts, marks, self._run.clock, self._is_over)
        self._seeds = Seeds(self._run, queues, marks)
        self._pages = PageLooks(self._run, queues, items, marks, self._seeds.became, self._entry_of)
        self._sweep()
        try:
            for _ in self._seeds.read():
                yield from self._checkpoint()
            yield from self._look()
        finally:
            queues.close()
        if not self._is_cut and all(self._names_nothing(address) for address in self._seeds.failed):
            yield from self._departed()
        yield from self._finished()

    # Beginning and end

    def _is_over(self) -> bool:
        is_over = time.monotonic() - self._begun > _LONGEST or self._run.pages.bytes > _MOST_STORED
        self._is_cut = self._is_cut or is_over
        return is_over

    def _sweep(self) -> None:
        """Delete the responses that were delivered or outdated; the others are used instead of a request."""
        now = self._run.clock()
        self._run.lists.drop(_FORMER_FRONTIER)
        for kept, size in self._run.pages:
            item = self._pages.items.get(kept.key)
            recorded = item if item is not None and item.version == kept.version else None
            is_delivered = recorded is not None and recorded.content_hash not in (None, kept.replaces)
            state = PageState.of(item.attributes) if item and recorded is None else None
            is_outdated = state is not None and kept.asked < state.looked
            if is_delivered or is_outdated or now - kept.asked > _KEPT:
                self._run.pages.drop(kept.key)
                continue
            self._run.pages.bytes += size
            if recorded is None and not self._run.deep:
                self._pages.ready.add(kept.key)

    def _checkpoint(self) -> Iterator[Checkpoint]:
        """Yield a checkpoint if there is enough to save, or if nothing was yielded for a while."""
        if self._looked < _CHECKPOINT_LOOKS and time.monotonic() - self._saved < _CHECKPOINT_SECONDS:
            return
        self._looked, self._saved = 0, time.monotonic()
        yield Checkpoint(self._marks.take())

    def _names_nothing(self, address: str) -> bool:
        """Return whether a feed or list that cannot be read now was not read before either, when it failed."""
        return self._pages.is_failing(address) and not self._seeds.was_read(address)

    def _finished(self) -> Iterator[Change]:
        read = self._pages.recorded.union(self._pages.items)
        for name, (mark, locators) in self._parsed.items():
            self._marks.set(TAKEN + name, mark if read.issuperset(locators) else None)
        if not self._is_cut:
            self._forget()
        now = self._run.clock()
        moments = [self._pages.next, *self._queues.left.values()]
        again = max(min(filter(None, moments)), now + _AGAIN) if any(moments) else None
        is_due = self._is_cut or self._seeds.is_due or (self._pages.next is not None and self._pages.next <= now)
        yield Checkpoint(self._marks.take(), again=now if is_due else again)

    def _forget(self) -> None:
        """Remove the marks of addresses and feeds that the source had before."""
        for address, _ in self._marks.begin_with(GONE):
            if address not in self._pages.wanted:
                self._marks.set(GONE + address, None)
        for name, _ in self._marks.begin_with(TAKEN):
            if name not in self._feeds:
                self._marks.set(TAKEN + name, None)
        self._seeds.forget()

    # What the source should have

    def _look(self) -> Iterator[Change]:
        """Take all that the seeds name, and look at the pages that are due."""
        for seed in self._seeds.walk():
            yield from self._named_by(seed)
            yield from self._checkpoint()
        for address in self._seeds.excluded:
            if wanted := self._pages.want(address):
                yield from self._pages.consider(wanted)
        for address, error in (self._seeds.outdated | self._seeds.failed).items():
            if wanted := self._pages.want(address):
                yield from self._pages.without_page(wanted, error)
        for locator, item in self._pages.items.items():
            site, depth = item.attributes.get("site", ""), item.attributes.get("depth", 0)
            if site in self._pages.sites and depth <= self._run.settings.depth:
                yield from self._pages.follow(locator, site, depth)
        for address, mark in self._marks.begin_with(LINK):
            depth, _, site = mark.partition(" ")
            self._pages.found.append((address, site, int(depth)))
        yield from self._follow_links()
        yield from self._take_outcomes()
        yield from self._pages.settle()
        yield from self._follow_links()
        yield from self._take_outcomes()
        yield from self._pages.settle()

    def _take_outcomes(self) -> Iterator[Change]:
        for outcome in self._queues.outcomes():
            if outcome is not None:
                self._looked += 1
                yield from self._pages.outcome(*outcome)
                yield from self._follow_links()
            yield from self._checkpoint()

    def _follow_links(self) -> Iterator[Change]:
        """Want the pages that links name."""
        while self._pages.found:
            address, site, depth = self._pages.found.popleft()
            is_outdated = depth > self._run.settings.depth or site not in self._run.settings.addresses
            if is_outdated or address in self._pages.items:
                self._marks.set(LINK + address, None)
            if site in self._pages.sites and not is_outdated:
                for change in self._pages.follow(address, site, depth):
                    self._looked += 1
                    yield change
                yield from self._checkpoint()

    def _named_by(self, seed: Seed) -> Iterator[Change]:
        match seed.kind:
            case SeedKind.FEED:
                yield from self._feed(seed)
            case SeedKind.PAGE:
                if (wanted := self._pages.want(seed.name)) is None:
                    return
                if self._run.settings.depth:
                    self._pages.sites[seed.name] += 1
                    wanted.site = seed.name
                if (response := self._seeds.pages.get(seed.name)) is not None:
                    yield from self._pages.outcome(seed.name, response)
                else:
                    yield from self._pages.consider(wanted)
            case _:
                for found in self._seeds.named_by(seed):
                    if self._seeds.is_list(found.address):
                        continue
                    if wanted := self._pages.want(found.address, listed=found.modified):
                        yield from self._pages.consider(wanted)

    def _feed(self, seed: Seed) -> Iterator[Change]:
        self._feeds.add(seed.name)
        of_feed = self._by_feed[seed.name]
        mark = seed.digest(self._run.settings.full_text, sorted(self._run.settings.allowed.names))
        if self._marks.get(TAKEN + seed.name) == mark and not self._run.deep:
            for locator, item in of_feed.items():
                wanted = self._pages.want(locator, **_facts(item, "feed", "id", "url"))
                if wanted and wanted.state:
                    yield from self._pages.consider(wanted)
            return
        try:
            entries = seed.feed().entries
        except ItemError as error:
            self._seeds.failed[seed.name] = error
            return
        places = _places_of(of_feed)
        shared = Counter(entry.address for entry in entries)
        named = {self._place(entry, seed.name, shared[entry.address] > 1): entry for entry in entries}
        for place, entry in named.items():
            if (wanted := self._pages.want(place, feed=seed.name, id=entry.id)) is None:
                continue
            if place != entry.address:
                wanted.url = entry.address or ""
            names = (entry.id, _alike(entry.id), version_of(entry))
            known = (places[name] for name in names if name in places)
            former = next((one for one in known if one not in self._pages.wanted), None)
            if former and former not in named and wanted.known is None:
                wanted.came_from = former
                self._pages.wanted[former] = wanted
            if place == entry.address and not entry.is_full and self._run.settings.full_text:
                wanted.entry = entry
                yield from self._pages.consider(wanted)
            else:
                yield from self._pages.entry(wanted, entry)
        yield from self._left(of_feed, named)
        self._parsed[seed.name] = mark, list(named)

    def _entry_of(self, feed: str, entry_id: str) -> FeedEntry | None:
        """Return an entry of the latest content of a feed."""
        if feed not in self._entries:
            seed = self._seeds.seed(self._run.settings.seed_of(feed))
            entries: tuple[FeedEntry, ...] = ()
            if seed is not None and seed.kind is SeedKind.FEED:
                with suppress(ItemError):
                    entries = seed.feed().entries
            self._entries[feed] = {entry.id: entry for entry in entries}
        return self._entries[feed].get(entry_id)

    def _place(self, entry: FeedEntry, feed: str, is_shared: bool) -> str:
        """Return the locator of an entry: its address, if it is no other entry's and we may ask its host for it."""
        if entry.address and not is_shared and self._run.settings.allowed.host_for(entry.address):
            return entry.address
        return f"{feed}#{entry.id}"

    def _left(self, of_feed: dict[str, KnownItem], named: dict[str, FeedEntry]) -> Iterator[Change]:
        """Keep the entries that left their feed as they are, and look at their pages no more."""
        for locator, item in of_feed.items():
            has_moved = locator in self._pages.wanted and self._pages.wanted[locator].locator != locator
            if (
                not has_moved
                and locator not in named
                and "next" in item.attributes
                and not item.version.startswith("+")
            ):
                kept = _facts(item, "feed", "id", "url", "size", "dated")
                yield Upsert(item_of(Wanted(locator, item), item.version, kept))

    def _departed(self) -> Iterator[Change]:
        """Report the items that nothing names any more, except entries of feeds."""
        for locator, item in self._pages.items.items():
            if locator not in self._pages.wanted and item.attributes.get("feed") not in self._feeds:
                # The guard need not hold what the library never had, such as a feed before the consent to its host.
                yield Tombstone(locator, versioned=item.content_hash is None)


def _places_of(of_feed: Mapping[str, KnownItem]) -> dict[str, str]:
    """Return the places of the entries of a feed by ID, and by what may tell one whose ID changed."""
    by_name: dict[str, str] = {}
    shared = Counter(_alike(str(item.attributes.get("id"))) for item in of_feed.values())
    for place, item in of_feed.items():
        known, (page, told) = str(item.attributes.get("id")), parts_of(item.version)
        by_name |= {told or page: place} | ({_alike(known): place} if shared[_alike(known)] == 1 else {})
    return by_name | {str(item.attributes.get("id")): place for place, item in of_feed.items()}


def _alike(entry_id: str) -> str:
    """Return an ID without what sites change when they move to https or to other software."""
    return re.sub("^http:", "https:", entry_id.casefold()).rstrip("#/")


def _facts(item: KnownItem, *names: str) -> dict[str, Any]:
    return {name: item.attributes[name] for name in names if name in item.attributes}
