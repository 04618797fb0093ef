"""One listing of a web source: collect the targets that its feeds and lists name, read them in order, save checkpoints."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import timedelta

from catchment.contracts import Known
from catchment.errors import ItemError, RateLimited
from catchment.model import HOST, Change, Checkpoint, KnownItem, Root, Tombstone, Upsert
from connectors.web.address import host_of
from connectors.web.feeds import FeedEntry
from connectors.web.hosts import HostQueues
from connectors.web.looks import PageState
from connectors.web.marks import DELETED, FEED, LINK, READ, WebMarks
from connectors.web.page_looks import FAILED, PageLooks, Target, item_of
from connectors.web.seed_reading import Seed, Seeds, WebRun
from connectors.web.seeds import SeedKind
from connectors.web.store import feeds_in, parts_of, version_of

_LONGEST = 600.0
"""Seconds after which a listing ends, to be continued by the next one."""
_MOST_STORED = 500_000_000
"""Bytes that may wait for their delivery."""
_CHECKPOINT_LOOKS, _CHECKPOINT_SECONDS = 100, 2.0
_LEAST_PAUSE = timedelta(minutes=30)
"""Least time between two listings, unless this one was cut short."""
_FEED_PAUSE = timedelta(hours=6)
"""Time after which a source with feeds is synced again: new entries may have no page that is due."""
_STORED_AGE = timedelta(days=7)
"""How long a response waits for its delivery at most."""
_RULE = 2
"""The rule by which entries get their locators. Another number has all feeds parsed once more."""
_ORPHAN_FACTS = ("feed", "id", "feeds", "url", "size", "dated")
"""Attributes of an entry that left its feed."""
_FORMER_FRONTIER = "frontier"
"""Key of a response that earlier versions stored. Since then, links are marks."""


class WebListing:
    """One listing. Take its `changes` once."""

    def __init__(self, run: WebRun, known: Known) -> None:
        self._run = run
        self._known = known
        self._parsed: dict[str, tuple[str, list[str]]] = {}
        """The mark and the locators of each feed that was parsed."""
        self._feeds: set[str] = set()
        self._by_feed: defaultdict[str, dict[str, KnownItem]] = defaultdict(dict)
        self._orphans: dict[str, KnownItem] = {}
        """The items with an entry that left a feed."""
        self._due: list[Target] = []
        """The pages that feeds and lists name."""
        self._walked: set[str] = set()
        """The seeds that are done: each address in them is a target."""
        self._unjoined: set[str] = set()
        """The feeds that were recognized only after the page of one of their entries was recorded."""
        self._is_cut = False
        self._looks = 0

    def changes(self) -> Iterator[Change]:
        """Yield the changes. Raises SourceUnavailable if a file with addresses cannot be read."""
        yield Root({"": "web"})
        self._start = self._saved = time.monotonic()
        items = {
            place: item
            for container in self._known.containers()
            for place, item in self._known.within(container).items()
        }
        for locator, item in items.items():
            for feed in feeds_in(item.attributes):
                self._by_feed[feed][locator] = item
        marks = self._marks = WebMarks(self._known.marks())
        queues = self._queues = HostQueues(self._run.hosts, marks, self._run.clock, self._is_over)
        self._seeds = Seeds(self._run, queues, marks)
        self._pages = PageLooks(self._run, queues, items, marks, self._seeds)
        self._sweep()
        try:
            for _ in self._seeds.read():
                yield from self._checkpoint()
            yield from self._look()
        finally:
            queues.close()
        if not self._is_cut and all(self._names_nothing(address) for address in self._seeds.failed):
            yield from self._tombstones()
        yield from self._finish()

    # Beginning and end

    def _is_over(self) -> bool:
        is_over = time.monotonic() - self._start > _LONGEST or self._run.pages.bytes > _MOST_STORED
        self._is_cut = self._is_cut or is_over
        return is_over

    def _sweep(self) -> None:
        """Delete the responses that were delivered or outdated; the others are used instead of a request."""
        now = self._run.clock()
        self._run.lists.drop(_FORMER_FRONTIER)
        for stored_page, size in self._run.pages:
            item = self._pages.items.get(stored_page.key)
            recorded = item if item is not None and item.version == stored_page.version else None
            is_delivered = recorded is not None and recorded.content_hash not in (None, stored_page.replaces)
            state = PageState.of(item.attributes) if item and recorded is None else None
            is_outdated = state is not None and stored_page.asked < state.last_look
            if is_delivered or is_outdated or now - stored_page.asked > _STORED_AGE:
                self._run.pages.drop(stored_page.key)
                continue
            self._run.pages.bytes += size
            if recorded is None and not self._run.deep:
                self._pages.ready.add(stored_page.key)

    def _checkpoint(self) -> Iterator[Checkpoint]:
        """Yield a checkpoint after enough looks, or if the last checkpoint is too old."""
        if self._looks < _CHECKPOINT_LOOKS and time.monotonic() - self._saved < _CHECKPOINT_SECONDS:
            return
        self._looks, self._saved = 0, time.monotonic()
        yield Checkpoint(self._marks.take())

    def _names_nothing(self, address: str) -> bool:
        """Return whether a feed or list that cannot be read now was not read before either, when it failed."""
        item = self._pages.items.get(address)
        return item is not None and item.version == FAILED and READ + address not in self._marks.known

    def _finish(self) -> Iterator[Change]:
        read = self._pages.recorded.union(self._pages.items)
        for name, (mark, locators) in self._parsed.items():
            self._marks.set(FEED + name, mark if read.issuperset(locators) and name not in self._unjoined else None)
        if not self._is_cut:
            self._forget()
        now = self._run.clock()
        moments = [self._pages.next, now + _FEED_PAUSE if self._feeds else None, *self._queues.retry_times.values()]
        again = max(min(filter(None, moments)), now + _LEAST_PAUSE) if any(moments) else None
        is_due = self._is_cut or bool(self._unjoined) or (self._pages.next is not None and self._pages.next <= now)
        yield Checkpoint(self._marks.take(), again=now if is_due else again)
        # The hosts that name what the source has, or have its pages.
        places = (*self._seeds.addresses, *(name for name, target in self._pages.targets.items() if not target.feeds))
        hosts = {host_of(place) for place in places if self._run.settings.allowed.host_for(place)}
        if hosts and hosts <= (errors := self._queues.errors).keys():
            raise max((errors[host] for host in sorted(hosts)), key=lambda error: isinstance(error, RateLimited))

    def _forget(self) -> None:
        """Remove the marks of addresses, feeds and hosts that the source had before."""
        hosts = set(map(host_of, (*self._seeds.addresses, *self._pages.targets)))
        for host, _ in () if self._seeds.failed else self._marks.begin_with(HOST):
            if host not in hosts:
                self._marks.set(HOST + host, None)
        for address, _ in self._marks.begin_with(DELETED):
            if address not in self._pages.targets:
                self._marks.set(DELETED + address, None)
        for name, _ in self._marks.begin_with(FEED):
            if name not in self._feeds:
                self._marks.set(FEED + name, None)
        self._seeds.forget()

    # The items that the source should have

    def _look(self) -> Iterator[Change]:
        """Take all addresses in the seeds, and look at the pages that are due; some pages turn out to be seeds themselves."""
        yield from self._take_seeds()
        while self._seeds.new and not self._is_cut:
            for _ in self._seeds.read_new():
                yield from self._checkpoint()
            yield from self._take_seeds()

    def _take_seeds(self) -> Iterator[Change]:
        """Take the addresses in the seeds that were not taken yet."""
        feeds = []
        for seed in self._seeds.walk():
            if seed.name in self._walked:
                continue
            self._walked.add(seed.name)
            if seed.kind is SeedKind.FEED:
                feeds.append(self._run.settings.seed_of(seed.name))
            else:
                self._named_by(seed)
            yield from self._checkpoint()
        # Take the pages of lists first: a whole entry with the address of such a page gets another locator.
        for name in feeds:
            if (feed := self._seeds.seed(name)) is not None:
                yield from self._feed(feed)
            yield from self._checkpoint()
        yield from self._take_orphans()
        due, self._due = self._due, []
        for target in due:
            if (response := self._seeds.pages.get(target.locator)) is not None:
                yield from self._pages.outcome(target.locator, response)
            else:
                yield from self._pages.consider(target)
            yield from self._checkpoint()
        for address in self._seeds.excluded:
            if excluded_target := self._pages.add(address):
                yield from self._pages.consider(excluded_target)
        for address, error in (self._seeds.outdated | self._seeds.failed).items():
            if failed_target := self._pages.add(address):
                yield from self._pages.without_page(failed_target, error)
        for locator, item in self._pages.items.items():
            site, depth = item.attributes.get("site", ""), item.attributes.get("depth", 0)
            if site in self._pages.sites and depth <= self._run.settings.depth:
                yield from self._pages.follow(locator, site, depth)
        for address, mark in self._marks.begin_with(LINK):
            depth, _, site = mark.partition(" ")
            self._pages.links.append((address, site, int(depth)))
        yield from self._follow_links()
        yield from self._take_outcomes()
        yield from self._pages.settle()
        yield from self._follow_links()
        yield from self._take_outcomes()
        yield from self._pages.settle()

    def _take_outcomes(self) -> Iterator[Change]:
        for outcome in self._queues.outcomes():
            if outcome is not None:
                self._looks += 1
                yield from self._pages.outcome(*outcome)
                yield from self._follow_links()
            yield from self._checkpoint()

    def _follow_links(self) -> Iterator[Change]:
        """Add the pages that links name."""
        while self._pages.links:
            address, site, depth = self._pages.links.popleft()
            is_outdated = depth > self._run.settings.depth or site not in self._run.settings.addresses
            if is_outdated or address in self._pages.items:
                self._marks.set(LINK + address, None)
            if site in self._pages.sites and not is_outdated:
                for change in self._pages.follow(address, site, depth):
                    self._looks += 1
                    yield change
                yield from self._checkpoint()

    def _named_by(self, seed: Seed) -> None:
        """Add the pages that a list names, or a page that is a seed."""
        if seed.kind is SeedKind.PAGE:
            if target := self._pages.add(seed.name):
                self._due.append(target)
                if self._run.settings.depth:
                    self._pages.sites[seed.name] += 1
                    target.site = seed.name
            return
        for entry in self._seeds.pages_of(seed):
            if target := self._pages.add(entry.address, modified=entry.modified, url=entry.link):
                self._due.append(target)

    def _feed(self, seed: Seed) -> Iterator[Change]:
        self._feeds.add(seed.name)
        known_items = self._by_feed[seed.name]
        mark = seed.digest(_RULE, self._run.settings.full_text, sorted(self._run.settings.allowed.names))
        is_known = self._marks.get(FEED + seed.name) == mark and not self._run.deep
        if is_known and not any(
            _is_entry(item) and place in self._pages.targets for place, item in known_items.items()
        ):
            for locator, item in known_items.items():
                if target := self._pages.add(locator, url=item.attributes.get("url", ""), is_entry=_is_entry(item)):
                    self._due += [target] if target.state else []
                self._pages.targets[locator].feeds[seed.name] = feeds_in(item.attributes)[seed.name]
            return
        try:
            entries = seed.feed().entries
        except ItemError as error:
            self._seeds.failed[seed.name] = error
            return
        places = _places_of(seed.name, known_items)
        shared = Counter(entry.address for entry in entries)
        entries_by_place = {self._place(entry, seed.name, shared[entry.address] > 1): entry for entry in entries}
        for place, entry in entries_by_place.items():
            is_page = place == entry.address and self._has_page(entry)
            if entry.is_empty and not is_page:
                continue
            if target := self._pages.add(place, is_entry=not is_page):
                target.url = entry.link if entry.link and entry.link != place else ""
                names = (entry.id, _alike(entry.id), version_of(entry))
                old_places = (places[name] for name in names if name in places)
                old_place = next((candidate for candidate in old_places if candidate not in self._pages.targets), None)
                is_shared = old_place is not None and len(feeds_in(known_items[old_place].attributes)) > 1
                if old_place and not is_shared and old_place not in entries_by_place and target.known is None:
                    target.moved_from = old_place
                    self._pages.targets[old_place] = target
                self._due += [target] if is_page else []
            joined = self._pages.targets[place]
            joined.feeds[seed.name] = entry.id
            if is_page:
                joined.entries[seed.name] = entry
                if place in self._pages.recorded:
                    self._unjoined.add(seed.name)
            else:
                yield from self._pages.entry(joined, [entry])
        self._orphans |= {place: item for place, item in known_items.items() if place not in entries_by_place}
        self._parsed[seed.name] = mark, [place for place in entries_by_place if place in self._pages.targets]

    def _place(self, entry: FeedEntry, feed: str, is_shared: bool) -> str:
        """Return the locator of an entry: its address, if we may ask its host for it.

        Not if the address is that of another entry; a page may have the summaries of several feeds.
        """
        address, own_locator = entry.address, f"{feed}#{entry.id}"
        if not address or is_shared or not self._run.settings.allowed.host_for(address):
            return own_locator
        target, item = self._pages.targets.get(address), self._pages.items.get(address)
        if target is not None:
            is_taken, is_page = True, target.locator == address and not target.is_entry
        else:
            feeds = feeds_in(item.attributes) if item else {}
            is_taken, is_page = feed not in feeds and any(map(self._seeds.names, feeds)), not (item and _is_entry(item))
        joins = is_page and self._has_page(entry) and own_locator not in self._pages.items
        return own_locator if is_taken and not joins else address

    def _has_page(self, entry: FeedEntry) -> bool:
        """Return whether an entry is a summary, and the settings require its page."""
        return self._run.settings.full_text and not entry.is_full

    def _take_orphans(self) -> Iterator[Change]:
        """Keep the entries that left their feed as they are, and look at their pages no more."""
        for locator, item in self._orphans.items():
            if locator not in self._pages.targets and "next" in item.attributes and not item.version.startswith("+"):
                facts = {name: item.attributes[name] for name in _ORPHAN_FACTS if name in item.attributes}
                yield Upsert(item_of(Target(locator, item), item.version, facts))

    def _tombstones(self) -> Iterator[Change]:
        """Report the items that no seed names now, except entries of feeds."""
        for locator, item in self._pages.items.items():
            if locator not in self._pages.targets and self._feeds.isdisjoint(feeds_in(item.attributes)):
                # The guard need not hold an item that the library never had, such as a feed before the consent to its host.
                yield Tombstone(locator, versioned=item.content_hash is None)


def _places_of(feed: str, known_items: Mapping[str, KnownItem]) -> dict[str, str]:
    """Return the places of the entries of a feed by ID, and by names that may identify an entry after its ID changed."""
    by_name: dict[str, str] = {}
    ids = {place: feeds_in(item.attributes)[feed] for place, item in known_items.items()}
    shared = Counter(map(_alike, ids.values()))
    for place, item in known_items.items():
        name, (page, entry_versions) = ids[place], parts_of(item.version)
        by_name |= dict.fromkeys(entry_versions or {page}, place) | (
            {_alike(name): place} if shared[_alike(name)] == 1 else {}
        )
    return by_name | {entry_id: place for place, entry_id in ids.items()}


def _alike(entry_id: str) -> str:
    """Return an ID without the parts that change when a site moves to https or to other software."""
    return re.sub("^http:", "https:", entry_id.casefold()).rstrip("#/")


def _is_entry(item: KnownItem) -> bool:
    """Return whether an item is an entry that was never joined with a page."""
    has_page = "next" in item.attributes or "." in item.version or item.version.startswith("+")
    return "feed" in item.attributes and not has_page
