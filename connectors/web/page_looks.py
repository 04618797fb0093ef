"""Looks at pages: which of them are due, and what an answer makes of an item."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from catchment.content.normalize.html.bylines import is_past
from catchment.errors import FetchFailed, ItemError, Skipped, SkipReason
from catchment.model import Change, Failure, Item, KnownItem, Skip, Tombstone, Upsert
from connectors.web import looks
from connectors.web.address import host_of
from connectors.web.client import WebResponse
from connectors.web.feeds import FeedEntry
from connectors.web.hosts import HostAway, HostQueues, NoSuchAddress, PageRequest, RobotsForbid
from connectors.web.looks import PageState
from connectors.web.marks import DELETED, LINK, WebMarks
from connectors.web.seed_reading import WebRun
from connectors.web.seeds import SeedKind, canonical_of, listed
from connectors.web.shared_answers import SharedAnswer, SharedAnswers, WaitingAnswer
from connectors.web.store import (
    StoredResponse,
    feed_attributes,
    feeds_in,
    joined_version,
    parts_of,
    stored_entry,
    summary_of,
    version_of,
)

_GONE_INTERVAL = timedelta(days=30)
_GIVEN_UP = timedelta(days=1)
"""Time after which a new address of a host that is away counts as failed."""
_SOON = timedelta(minutes=30)
"""Time after which the page of a new entry is requested, if its host is away."""
_NO_PAGE = re.compile(r"\.(jpe?g|png|gif|svg|webp|ico|css|js|mp[34]|zip|t?gz|exe|dmg|iso|woff2?)$", re.IGNORECASE)
_NO_CONTENT, _FAILED = "+", "+failed"
"""Begin of the versions of items without content, and that of one that failed."""


@dataclass(slots=True)
class Wanted:
    """An item that the source should have.

    Attributes:
        known: What the ledger has of it.
        feeds: The feeds that name it, with the ID of its entry in each.
        entries: Of these the entries that were parsed in this listing, by feed.
        url: The address of its entry if that is not the locator.
        is_entry: It is an entry with its whole text, and not a page.
        came_from: The locator that the entry had before its address changed.
        site, depth: The page whose links led here, and the number of links.
        listed: When a sitemap says that it changed.
    """

    locator: str
    known: KnownItem | None
    feeds: dict[str, str] = field(default_factory=dict)
    entries: dict[str, FeedEntry] = field(default_factory=dict)
    url: str = ""
    is_entry: bool = False
    came_from: str | None = None
    site: str = ""
    depth: int = 0
    listed: datetime | None = None

    @property
    def feed(self) -> str:
        """The first feed that names it, or ""."""
        return next(iter(self.feeds), "")

    @property
    def container(self) -> str:
        return host_of(self.locator) or self.feed

    @property
    def state(self) -> PageState | None:
        """What is known of its page; None if that was never requested."""
        return PageState.of(self.known.attributes) if self.known else None

    @property
    def version(self) -> str | None:
        """The version of its content; None if it has none."""
        return None if self.known is None or self.known.version.startswith(_NO_CONTENT) else self.known.version

    @property
    def page(self) -> str:
        """The version of its page; "" if that was never read."""
        return parts_of(self.version or "")[0]

    @property
    def is_told(self) -> bool:
        """Whether its content includes the present entries of its feeds."""
        return self.has(self.entries.values())

    def has(self, entries: Iterable[FeedEntry]) -> bool:
        """Return whether its content includes these entries."""
        return parts_of(self.version or "")[1].issuperset(map(version_of, entries))

    @property
    def content_hash(self) -> str | None:
        return self.known.content_hash if self.known else None

    def attributes(self, state: PageState | None = None) -> dict[str, Any]:
        facts = {**feed_attributes(self.feeds), "url": self.url, "site": self.site, "depth": self.depth}
        given = {name: value for name, value in facts.items() if value}
        return {**given, **(state.attributes() if state else {})}


class PageLooks:
    """The pages of one listing.

    Args:
        items, marks: What the ledger has.
        became: Tells that a page is a feed or list.
        entry_of: Returns an entry that names a page, from the latest content of its feed.
    """

    def __init__(
        self,
        run: WebRun,
        queues: HostQueues,
        items: Mapping[str, KnownItem],
        marks: WebMarks,
        became: Callable[[str, WebResponse, bool], bool],
        entry_of: Callable[[str, str], FeedEntry | None],
    ) -> None:
        self.items = items
        self.wanted: dict[str, Wanted] = {}
        self.recorded: set[str] = set()
        """Locators that were reported."""
        self.ready: set[str] = set()
        """Locators with a response that was stored before, and not recorded."""
        self.sites: Counter[str] = Counter()
        """Number of pages by the page whose links are followed."""
        self.found: deque[tuple[str, str, int]] = deque()
        """Links that were found and not wanted yet, with their site and depth."""
        self.next: datetime | None = None
        """When the next page is due."""
        self._marks = marks
        self._answers = SharedAnswers(items)
        self._run = run
        self._queues = queues
        self._became = became
        self._entry_of = entry_of

    def want(self, locator: str, **facts: Any) -> Wanted | None:
        """Return an item that is wanted from now on; None if another seed named it before."""
        if locator in self.wanted:
            return None
        wanted = self.wanted[locator] = Wanted(locator, self.items.get(locator), **facts)
        return wanted

    def entry(self, wanted: Wanted, entries: Sequence[FeedEntry], state: PageState | None = None) -> Iterator[Change]:
        """Take the content of an item from its feeds. `state`: of its page, which could not be read."""
        version = version_of(entries[0]) if state is None else joined_version("", entries)
        kept = stored_entry(entries, wanted.locator, wanted.feed, self._run.clock(), version, wanted.content_hash)
        attributes = wanted.attributes(state)
        if state is not None:
            self._due(state)
        if wanted.known is None or wanted.known.version != kept.version:
            self._run.pages.put(kept)
        elif wanted.known.attributes == attributes or (state and self._is_known(wanted, version, state)):
            return
        size, date = len(kept.response.body), _dated(entries)
        item = Item(wanted.locator, wanted.container, kept.version, size=size, modified=date, attributes=attributes)
        yield from self._upsert(wanted, item)

    def follow(self, address: str, site: str, depth: int) -> Iterator[Change]:
        """Want a page that a link of a site names, as long as the site may have more pages."""
        if self._is_full(site) and address not in self.items:
            self._marks.set(LINK + address, None)
        elif wanted := self.want(address, site=site, depth=depth):
            self.sites[site] += 1
            yield from self.consider(wanted)

    def consider(self, wanted: Wanted) -> Iterator[Change]:
        """Look at a page if it is due."""
        now, state = self._run.clock(), wanted.state
        if not self._run.settings.allowed.host_for(wanted.locator):
            yield from self._skipped(wanted, SkipReason.EXCLUDED)
            return
        gone = self._marks.get(DELETED + wanted.locator)
        if wanted.known is None and gone is not None and datetime.fromisoformat(gone) > now:
            return
        # An entry without a page has a title here.
        if wanted.locator in self.ready and (kept := self._run.pages.get(wanted.locator)) and kept.title is None:
            self._marks.set(LINK + wanted.locator, None)
            yield from self._new(wanted, kept)
            return
        is_listed_newer = state is not None and wanted.listed is not None and wanted.listed > state.last_look
        is_newly_told = bool(wanted.entries) and wanted.known is not None and not feeds_in(wanted.known.attributes)
        if state is not None and state.next > now and not (self._run.deep or is_listed_newer or is_newly_told):
            yield from self._not_due(wanted, state)
            return
        # An answer that nothing changed has no links.
        is_followed = state is not None and (
            state.followed >= self._run.settings.most_pages or not self._has_links(wanted)
        )
        is_conditional = is_followed and wanted.page and wanted.is_told and not self._run.deep
        conditions = (state.etag, state.modified, state.validated) if state and is_conditional else ()
        self._queues.add(PageRequest(wanted.locator, *conditions))

    def _not_due(self, wanted: Wanted, state: PageState) -> Iterator[Change]:
        """Take the present entries of a page that is not due."""
        if wanted.entries and not wanted.page and (entries := self._told(wanted)):
            yield from self.entry(wanted, entries, state)
        elif wanted.version and not wanted.is_told and state != state.without_validators():
            yield from self._present(wanted, wanted.version, state.without_validators())
        else:
            self._due(state)

    def outcome(self, address: str, result: WebResponse | ItemError) -> Iterator[Change]:
        """Record what became of a request."""
        wanted = self.wanted[address]
        if not isinstance(result, HostAway):
            self._marks.set(LINK + address, None)
        if isinstance(result, ItemError):
            yield from self.without_page(wanted, result)
        elif result.status == 200:
            yield from self._page(wanted, result)
        elif result.status == 304 and wanted.state and wanted.version:
            yield from self._present(wanted, wanted.version, wanted.state.after_same_content(self._run.clock(), result))
        else:
            yield from self._missing(wanted, NoSuchAddress.of_status(wanted.locator, result.status))

    def _page(self, wanted: Wanted, response: WebResponse) -> Iterator[Change]:
        now, before, text = self._run.clock(), wanted.state, self._digest(response)
        entries = self._told(wanted)
        is_same = wanted.page == text and wanted.has(entries)
        version = (wanted.version if is_same else None) or joined_version(text, entries)
        if before is not None and wanted.version == version:
            yield from self._present(
                wanted, version, self._followed(wanted, before.after_same_content(now, response), response)
            )
            return
        is_shared = wanted.page != text and self._answers.is_shared(wanted.container, text, wanted.locator)
        answer = WaitingAnswer(wanted.locator, text, response)
        if is_shared and wanted.page:
            for other in (*self._answers.release(wanted.container, text), answer):
                yield from self._shared(other)
        elif wanted.page not in ("", text):
            for other in self._answers.hold(wanted.container, answer):
                yield from self._changed(other)
        else:
            yield from self._changed(answer)

    def settle(self) -> Iterator[Change]:
        """Record the new texts that no other address turned out to have."""
        for answer in self._answers.settle():
            yield from self._changed(answer)

    def _shared(self, answer: WaitingAnswer) -> Iterator[Change]:
        """Keep what was read of a page, unless the answer names its address as its own."""
        wanted, response = self.wanted[answer.locator], answer.response
        try:
            own = self._run.parse(canonical_of, response.body, response.address, response.charset)
        except ItemError:
            own = None
        if own and _place(own) == _place(wanted.locator):
            yield from self._changed(answer)
        else:
            yield from self.without_page(wanted, SharedAnswer(wanted.container))

    def _changed(self, answer: WaitingAnswer) -> Iterator[Change]:
        """Take an answer with a new text."""
        now, wanted, response = self._run.clock(), self.wanted[answer.locator], answer.response
        if not wanted.site and self._became(wanted.locator, response, bool(wanted.feed)):
            if wanted.feed:
                yield from self.without_page(
                    wanted, FetchFailed(f"{wanted.container}: answers with a feed, not a page")
                )
            else:
                del self.wanted[wanted.locator]
            return
        entries = self._told(wanted)
        kept = StoredResponse(
            wanted.locator,
            now,
            response,
            joined_version(answer.text, entries),
            replaces=wanted.content_hash,
            summary=summary_of(entries),
        )
        self._run.pages.put(kept)
        yield from self._new(wanted, kept)

    def _new(self, wanted: Wanted, kept: StoredResponse) -> Iterator[Change]:
        """Record new content, of this listing or of one that was killed before it was recorded."""
        self._marks.set(DELETED + wanted.locator, None)
        if wanted.state and wanted.page == parts_of(kept.version)[0]:
            state = wanted.state.after_same_content(kept.asked, kept.response)
        else:
            state = looks.after_new_content(wanted.state, kept.asked, kept.response)
        state = replace(state, dated=_dated(self._told(wanted)) or state.dated)
        yield from self._present(wanted, kept.version, self._followed(wanted, state, kept.response))

    def _digest(self, response: WebResponse) -> str:
        if "html" in response.media_type:
            # A page that the parser fails on has a job that reports it.
            with suppress(ItemError):
                return self._run.parse(looks.digest, response.body, response.media_type)
        return looks.digest(response.body, "")

    def _told(self, wanted: Wanted) -> list[FeedEntry]:
        """Return the entries that name a page, without empty ones."""
        found = (wanted.entries.get(feed) or self._entry_of(feed, name) for feed, name in wanted.feeds.items())
        return [entry for entry in found if entry and not entry.is_empty]

    def _has_links(self, wanted: Wanted) -> bool:
        """Return whether the links of a page are followed."""
        return bool(wanted.site) and wanted.depth < self._run.settings.depth

    def _is_full(self, site: str) -> bool:
        return self.sites[site] >= self._run.settings.most_pages

    def _followed(self, wanted: Wanted, state: PageState, response: WebResponse) -> PageState:
        """Note the links of a page within its host. Return its state, with whether the ledger had them all before."""
        if not self._has_links(wanted):
            return state
        is_full, is_complete = self._is_full(wanted.site), True
        for address in self._links(wanted, response):
            is_complete = is_complete and (is_full or address in self.items or LINK + address in self._marks.known)
            if not is_full and address not in self.wanted and self._marks.get(LINK + address) is None:
                self._marks.set(LINK + address, f"{wanted.depth + 1} {wanted.site}")
                self.found.append((address, wanted.site, wanted.depth + 1))
        return replace(state, followed=self._run.settings.most_pages if is_complete else 0)

    def _links(self, wanted: Wanted, response: WebResponse) -> Iterator[str]:
        """Yield the addresses of pages of the same host that a page links."""
        if "html" not in response.media_type:
            return
        try:
            links = self._run.parse(listed, response.body, SeedKind.PAGE, response.address, response.charset).addresses
        except ItemError:
            return
        host_for = self._run.settings.allowed.host_for
        host = host_for(wanted.locator)
        for link in links:
            if host_for(link.address) == host and not _NO_PAGE.search(urlsplit(link.address).path):
                yield link.address

    def _missing(self, wanted: Wanted, error: ItemError) -> Iterator[Change]:
        """Record that the host has no such address. After some days of it the item is deleted, or has its summary only."""
        now, gone = self._run.clock(), DELETED + wanted.locator
        state = (wanted.state or _unread(now)).after_miss(now, _warning(error))
        if (not wanted.page or state.is_gone) and (entries := self._told(wanted)):
            yield from self.entry(wanted, entries, state)
            return
        is_deleted = wanted.known is None and self._marks.get(gone) is not None
        if is_deleted or (wanted.known and state.is_gone):
            self._marks.set(gone, (now + _GONE_INTERVAL).isoformat())
            if not is_deleted:
                yield Tombstone(wanted.locator)
        elif wanted.version:
            yield from self._present(wanted, wanted.version, state)
        else:
            yield from self._failed(wanted, error, state)

    def without_page(self, wanted: Wanted, error: ItemError) -> Iterator[Change]:
        """Record a look without an answer. A text that was read before stays."""
        now = self._run.clock()
        if isinstance(error, HostAway):
            self._run.left[wanted.locator] = str(error)
            if wanted.known is None and (entries := self._told(wanted)):
                yield from self.entry(wanted, entries, PageState(now + _SOON, _SOON, warning=_warning(error)))
                return
            if wanted.known or now - error.since < _GIVEN_UP:
                return
        state = (wanted.state or _unread(now)).after_failure(now, _warning(error))
        if wanted.page:
            if not isinstance(error, RobotsForbid):
                yield from self._present(wanted, wanted.version or "", state)
        elif entries := self._told(wanted):
            yield from self.entry(wanted, entries, state)
        elif wanted.version:
            yield from self._present(wanted, wanted.version, state)
        elif isinstance(error, Skipped):
            yield from self._skipped(wanted, error.skip_reason, state)
        else:
            yield from self._failed(wanted, error, state)

    def _failed(self, wanted: Wanted, error: ItemError, state: PageState) -> Iterator[Change]:
        """Report an address that was never read. A broken link of a site is no failure of ours."""
        if wanted.depth:
            yield from self._skipped(wanted, SkipReason.EXCLUDED, state)
            return
        if self._is_known(wanted, _FAILED, state):
            return
        self._due(state)
        self.recorded.add(wanted.locator)
        yield Failure(item_of(wanted, _FAILED, wanted.attributes(state)), error)

    def _skipped(self, wanted: Wanted, reason: SkipReason, state: PageState | None = None) -> Iterator[Change]:
        version = _NO_CONTENT + reason
        is_known = self._is_known(wanted, version, state) if state else wanted.known and wanted.known.version == version
        if not is_known:
            self.recorded.add(wanted.locator)
            yield Skip(item_of(wanted, version, wanted.attributes(state)), reason)

    def _is_known(self, wanted: Wanted, version: str, state: PageState) -> bool:
        """Return whether a proof or deep listing found the same again, which leaves the time of the next look."""
        before, known = wanted.state, wanted.known
        if not self._run.deep or before is None or known is None:
            return False
        if state.missing and before.next <= self._run.clock():
            return False  # This look counts for the deletion.
        told = wanted.attributes().items() <= known.attributes.items()
        is_same = told and (known.version, before.warning, before.followed) == (version, state.warning, state.followed)
        if is_same:
            self._due(before)
        return is_same

    def _present(self, wanted: Wanted, version: str, state: PageState) -> Iterator[Change]:
        if self._is_known(wanted, version, state):
            return
        self._due(state)
        yield from self._upsert(wanted, item_of(wanted, version, wanted.attributes(state)))

    def _upsert(self, wanted: Wanted, item: Item) -> Iterator[Change]:
        if wanted.came_from:
            yield Tombstone(wanted.came_from)
        self.recorded.add(wanted.locator)
        yield Upsert(item, wanted.came_from)

    def is_failing(self, locator: str) -> bool:
        """Return whether the ledger has it as failed."""
        return locator in self.items and self.items[locator].version == _FAILED

    def _due(self, state: PageState) -> None:
        self.next = min(self.next or state.next, state.next)


def _warning(error: ItemError) -> str:
    return f"its page was not read: {str(error).replace('_', ' ')}"


def _place(address: str) -> str:
    """Return an address without what often differs between the names of one page."""
    parts = urlsplit(address)
    return f"{parts.netloc.removeprefix('www.')}{parts.path.rstrip('/')}?{parts.query}"


def _dated(entries: Sequence[FeedEntry]) -> datetime | None:
    """Return when the first of these entries changed, or was published; no date in the future."""
    return next((date for entry in entries[:1] for date in (entry.updated, entry.published) if is_past(date)), None)


def _unread(now: datetime) -> PageState:
    return PageState(now, timedelta())


def item_of(wanted: Wanted, version: str, attributes: dict[str, Any]) -> Item:
    """Return the item of a page."""
    dated = attributes.get("dated")
    return Item(
        wanted.locator,
        wanted.container,
        version,
        size=attributes.get("size"),
        modified=datetime.fromisoformat(dated) if dated else None,
        attributes=attributes,
    )
