"""Looks at pages: which of them are due, and what an answer makes of an item."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from catchment.errors import ItemError, ParseError, Skipped, SkipReason
from catchment.model import Change, Failure, Item, KnownItem, Skip, Tombstone, Upsert
from connectors.web import looks
from connectors.web.address import host_of
from connectors.web.client import WebResponse
from connectors.web.feeds import FeedEntry
from connectors.web.hosts import HostAway, HostQueues, NoSuchAddress, PageRequest, RobotsForbid
from connectors.web.looks import PageState
from connectors.web.seeds import SeedKind, listed
from connectors.web.settings import WebSettings
from connectors.web.store import ResponseStore, StoredResponse, stored_entry

GONE = "gone:"
"""Begin of the marks of addresses that were deleted, with the time of the next look."""
_GONE_INTERVAL = timedelta(days=30)
_GIVEN_UP = timedelta(days=1)
"""Time after which a new address of a host that is away counts as failed."""
_SAME_ANSWERS = 2
"""Changed pages of a host with equal text, above which this text is an error page (a "soft 404")."""
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


class PageLooks:
    """The pages of one listing.

    Args:
        items, stored_marks: What the ledger has. Items are added as they are reported.
        became: Tells that a page is a feed or list.
    """

    queues: HostQueues
    """The requests; set before the first look."""

    def __init__(
        self,
        settings: WebSettings,
        store: ResponseStore,
        items: dict[str, KnownItem],
        stored_marks: Mapping[str, str],
        became: Callable[[str, WebResponse], bool],
        clock: Callable[[], datetime],
        *,
        deep: bool,
    ) -> None:
        self.items = items
        self.stored_marks = stored_marks
        self.marks: dict[str, str | None] = {}
        """Marks to be stored."""
        self.wanted: dict[str, Wanted] = {}
        self.ready: set[str] = set()
        """Locators with a response that was stored before, and not recorded."""
        self.sites: Counter[str] = Counter()
        """Number of pages by the page whose links are followed."""
        self.frontier: dict[str, tuple[str, int]] = {}
        """Links that were found and not looked at, with their site and depth."""
        self.next: datetime | None = None
        """When the next page is due."""
        self._same: Counter[tuple[str, str]] = Counter()
        self._settings = settings
        self._store = store
        self._became = became
        self._clock = clock
        self._deep = deep

    def want(self, wanted: Wanted) -> Wanted | None:
        """Return it, unless another seed named the same item first."""
        if wanted.locator in self.wanted:
            return None
        self.wanted[wanted.locator] = wanted
        return wanted

    def entry(self, wanted: Wanted, entry: FeedEntry, state: PageState | None = None) -> Iterator[Change]:
        """Take the content of an entry from its feed. `state`: of its page, which could not be read."""
        known, now = self.items.get(wanted.locator), self._clock()
        kept = stored_entry(entry, wanted.locator, wanted.feed, now, known.content_hash if known else None)
        attributes = {**wanted.attributes(), **(state.attributes() if state else {})}
        if known is None or known.version != kept.version:
            self._store.put(kept)
        elif known.attributes == attributes:
            return
        size, date = len(kept.body), entry.updated or entry.published
        item = Item(wanted.locator, wanted.container, kept.version, size=size, modified=date, attributes=attributes)
        yield from self._upsert(wanted, item)

    def follow(self, address: str, site: str, depth: int) -> Iterator[Change]:
        """Want a page that a link of a site names, as long as the site may have more pages."""
        if self.sites[site] >= self._settings.most_pages and address not in self.items:
            self.frontier.pop(address, None)
            return
        wanted = self.want(Wanted(address, host_of(address), site=site, depth=depth))
        if wanted is None:
            return
        self.sites[site] += 1
        yield from self.consider(wanted)

    def consider(self, wanted: Wanted) -> Iterator[Change]:
        """Look at a page if it is due."""
        known, now = self.items.get(wanted.locator), self._clock()
        if self._settings.host_for(wanted.locator) is None:
            yield from self._skipped(wanted, SkipReason.EXCLUDED, _EXCLUDED)
            return
        if wanted.locator in self.ready and (kept := self._stored_page(wanted.locator)):
            yield from self._reused(wanted, kept)
            return
        gone = self.stored_marks.get(GONE + wanted.locator)
        if known is None and gone is not None and datetime.fromisoformat(gone) > now:
            return
        state = PageState.of(known.attributes) if known else None
        is_listed_newer = state is not None and wanted.listed is not None and wanted.listed > state.looked
        if state is not None and state.next > now and not (self._deep or is_listed_newer):
            self._due(state)
            return
        has_content = known is not None and not known.version.startswith("+") and not self._deep
        conditions = (state.etag, state.modified, state.validated) if state and has_content else ()
        self.queues.add(PageRequest(wanted.locator, *conditions))

    def _stored_page(self, locator: str) -> StoredResponse | None:
        kept = self._store.get(locator)
        return kept if kept and kept.title is None else None

    def outcome(self, request: PageRequest, result: WebResponse | ItemError) -> Iterator[Change]:
        wanted = self.wanted[request.address]
        known, now = self.items.get(wanted.locator), self._clock()
        state = PageState.of(known.attributes) if known else None
        if not isinstance(result, HostAway):
            self.frontier.pop(wanted.locator, None)
        if isinstance(result, ItemError):
            yield from self.without_page(wanted, result)
        elif result.status == 200:
            yield from self._page(wanted, result)
        elif result.status == 304 and known is not None and state is not None:
            yield from self._same_as_before(wanted, known.version, state.unchanged(now, result))
        else:
            host = host_of(wanted.locator)
            yield from self._missing(wanted, NoSuchAddress(f"{host}: no such address (HTTP status {result.status})"))

    def _page(self, wanted: Wanted, response: WebResponse) -> Iterator[Change]:
        known, now = self.items.get(wanted.locator), self._clock()
        before = PageState.of(known.attributes) if known else None
        version = looks.digest(response.body, response.media_type)
        if known is not None and before is not None and known.version == version:
            # A proof or deep listing that finds the same leaves the time of the next look.
            if not self._deep or before.missing:
                yield from self._same_as_before(wanted, version, before.unchanged(now, response))
            yield from self._links(wanted, response)
            return
        if known is not None and not known.version.startswith("+"):
            self._same[wanted.container, version] += 1
            if self._same[wanted.container, version] > _SAME_ANSWERS:
                yield from self._missing(
                    wanted, NoSuchAddress(f"{wanted.container}: answers with the same text for many addresses")
                )
                return
        if not wanted.site and self._became(wanted.locator, response):
            self.next = now
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
        self._store.put(kept)
        yield from self._new(wanted, version, looks.changed(before, now, response))
        yield from self._links(wanted, response)

    def _reused(self, wanted: Wanted, kept: StoredResponse) -> Iterator[Change]:
        """Take a response whose look was not recorded, because the sync was killed."""
        known = self.items.get(wanted.locator)
        before = PageState.of(known.attributes) if known else None
        response = WebResponse(
            200, kept.address, kept.etag, kept.modified, kept.media_type, kept.charset, kept.body, False
        )
        yield from self._new(wanted, kept.version, looks.changed(before, kept.asked, response))
        yield from self._links(wanted, response)

    def _links(self, wanted: Wanted, response: WebResponse) -> Iterator[Change]:
        """Follow the links of a page of a site, within its host."""
        if not wanted.site or wanted.depth >= self._settings.depth or "html" not in response.media_type:
            return
        try:
            links = listed(response.body, SeedKind.PAGE, response.address)
        except ParseError:
            return
        for link in links:
            is_within = self._settings.host_for(link.address) == self._settings.host_for(wanted.locator)
            if is_within and link.address not in self.wanted and not _NO_PAGE.search(urlsplit(link.address).path):
                self.frontier[link.address] = (wanted.site, wanted.depth + 1)
                yield from self.follow(link.address, wanted.site, wanted.depth + 1)

    def _new(self, wanted: Wanted, version: str, state: PageState) -> Iterator[Change]:
        if GONE + wanted.locator in self.stored_marks:
            self.marks[GONE + wanted.locator] = None
        yield from self._same_as_before(wanted, version, state)

    def _same_as_before(self, wanted: Wanted, version: str, state: PageState) -> Iterator[Change]:
        self._due(state)
        yield from self._upsert(wanted, item_of(wanted, version, state))

    def _missing(self, wanted: Wanted, error: ItemError) -> Iterator[Change]:
        """Record that the host has no such address. After some days of it the item is deleted."""
        known, now = self.items.get(wanted.locator), self._clock()
        if known is None and GONE + wanted.locator in self.stored_marks:
            self.marks[GONE + wanted.locator] = (now + _GONE_INTERVAL).isoformat()
            return
        state = (PageState.of(known.attributes) if known else None) or _unread(now)
        state = state.missed_at(now)
        if known is not None and state.is_gone:
            self.marks[GONE + wanted.locator] = (now + _GONE_INTERVAL).isoformat()
            yield Tombstone(wanted.locator)
        elif known is not None and not known.version.startswith("+"):
            yield from self._same_as_before(wanted, known.version, state)
        else:
            yield from self._failed(wanted, error, state)

    def without_page(self, wanted: Wanted, error: ItemError) -> Iterator[Change]:
        """Record a look without an answer. What was read once stays as it is."""
        known, now = self.items.get(wanted.locator), self._clock()
        if isinstance(error, HostAway) and (known is not None or now - error.failing < _GIVEN_UP):
            return
        state = ((PageState.of(known.attributes) if known else None) or _unread(now)).failed(now)
        if known is not None and not known.version.startswith("+"):
            if not isinstance(error, RobotsForbid):
                yield from self._same_as_before(wanted, known.version, state)
        elif wanted.entry is not None:
            yield from self.entry(wanted, wanted.entry, state)
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
        yield self._recorded(Failure(item_of(wanted, _FAILED, state), error))

    def _skipped(
        self, wanted: Wanted, reason: SkipReason, version: str, state: PageState | None = None
    ) -> Iterator[Change]:
        known = self.items.get(wanted.locator)
        if state is not None or known is None or known.version != version:
            yield self._recorded(Skip(item_of(wanted, version, state), reason))

    def _upsert(self, wanted: Wanted, item: Item) -> Iterator[Change]:
        if wanted.came_from:
            yield Tombstone(wanted.came_from)
        yield self._recorded(Upsert(item, wanted.came_from))

    def _recorded(self, change: Upsert | Skip | Failure) -> Upsert | Skip | Failure:
        """Remember an item as known, with which its feed counts as read."""
        item = change.item
        self.items.setdefault(item.locator, KnownItem(item.version, None, None, item.attributes))
        return change

    def is_failing(self, locator: str) -> bool:
        known = self.items.get(locator)
        return known is not None and known.version == _FAILED

    def _due(self, state: PageState) -> None:
        self.next = min(self.next or state.next, state.next)


def _unread(now: datetime) -> PageState:
    return PageState(now, timedelta())


def item_of(wanted: Wanted, version: str, state: PageState | None, facts: dict[str, Any] | None = None) -> Item:
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
