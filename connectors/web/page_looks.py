"""Looks at pages: select the pages that are due, and turn each response into a change of its item."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from connectors.web.seed_reading import Seeds, WebRun
from connectors.web.seeds import SeedKind, addresses_in, canonical_of
from connectors.web.shared_answers import SharedAnswer, SharedAnswers, WaitingAnswer
from connectors.web.store import (
    StoredResponse,
    feed_attributes,
    feeds_in,
    joined_version,
    page_with_entries,
    parts_of,
    stored_entry,
    version_of,
)

_DELETED_INTERVAL = timedelta(days=30)
_NEW_HOST_PATIENCE = timedelta(days=1)
"""Time after which a new address of a host that is away counts as failed."""
_SOON = timedelta(minutes=30)
"""Time after which the page of a new entry is requested, if its host is away."""
_NO_PAGE = re.compile(r"\.(jpe?g|png|gif|svg|webp|ico|css|js|mp[34]|zip|t?gz|exe|dmg|iso|woff2?)$", re.IGNORECASE)
_NO_CONTENT, FAILED = "+", "+failed"
"""Begin of the versions of items without content, and the version of a failed item."""


@dataclass(slots=True)
class Target:
    """An item that the source should have.

    Attributes:
        known: The item in the ledger, if any.
        feeds: The feeds that name it, with the ID of its entry in each.
        entries: Its entries that were parsed in this listing, by feed.
        url: The address of its entry if that is not the locator.
        is_entry: Whether the target is an entry with its whole text, not a page.
        moved_from: The locator that the entry had before its address changed.
        site, depth: The page from which links led to this target, and the number of links.
        modified: The time of its last change in a sitemap.
    """

    locator: str
    known: KnownItem | None
    feeds: dict[str, str] = field(default_factory=dict)
    entries: dict[str, FeedEntry] = field(default_factory=dict)
    url: str = ""
    is_entry: bool = False
    moved_from: str | None = None
    site: str = ""
    depth: int = 0
    modified: datetime | None = None

    @property
    def feed(self) -> str:
        """The first feed that names it, or ""."""
        return next(iter(self.feeds), "")

    @property
    def container(self) -> str:
        return host_of(self.locator) or self.feed

    @property
    def state(self) -> PageState | None:
        """The state of its page; None if that was never requested."""
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
    def has_present_entries(self) -> bool:
        """Whether its content includes the present entries of its feeds."""
        return self.has_entries(self.entries.values())

    def has_entries(self, entries: Iterable[FeedEntry]) -> bool:
        """Return whether its content includes these entries."""
        return parts_of(self.version or "")[1].issuperset(map(version_of, entries))

    @property
    def content_hash(self) -> str | None:
        return self.known.content_hash if self.known else None

    def attributes(self, state: PageState | None = None) -> dict[str, Any]:
        facts = {**feed_attributes(self.feeds), "url": self.url, "site": self.site, "depth": self.depth}
        named_facts = {name: value for name, value in facts.items() if value}
        return {**named_facts, **(state.attributes() if state else {})}


class PageLooks:
    """The pages of one listing. `items` and `marks` are those in the ledger."""

    def __init__(
        self,
        run: WebRun,
        queues: HostQueues,
        items: Mapping[str, KnownItem],
        marks: WebMarks,
        seeds: Seeds,
    ) -> None:
        self.items = items
        self.targets: dict[str, Target] = {}
        self.recorded: set[str] = set()
        """Locators that were reported."""
        self.ready: set[str] = set()
        """Locators with a response that was stored before, and not recorded."""
        self.sites: Counter[str] = Counter()
        """Number of pages by the page from which links are followed."""
        self.links: deque[tuple[str, str, int]] = deque()
        """Links that are no targets yet, with their site and depth."""
        self.next: datetime | None = None
        """When the next page is due."""
        self._marks = marks
        self._answers = SharedAnswers(items)
        self._run = run
        self._queues = queues
        self._seeds = seeds

    def add(self, locator: str, **facts: Any) -> Target | None:
        """Add a target and return it; None if another seed named it before."""
        if locator in self.targets:
            return None
        target = self.targets[locator] = Target(locator, self.items.get(locator), **facts)
        return target

    def entry(self, target: Target, entries: Sequence[FeedEntry], state: PageState | None = None) -> Iterator[Change]:
        """Take the content of an item from its feeds. `state`: of its page, which could not be read."""
        version = version_of(entries[0]) if state is None else joined_version("", entries)
        content = stored_entry(entries, target.locator, target.feed, self._run.clock(), version, target.content_hash)
        attributes = target.attributes(state)
        if state is not None:
            self._due(state)
        if target.known is None or target.known.version != content.version:
            self._run.pages.put(content)
        elif target.known.attributes == attributes or (state and self._is_known(target, version, state)):
            return
        size, date = len(content.response.body), _date_of(entries)
        item = Item(target.locator, target.container, content.version, size=size, modified=date, attributes=attributes)
        yield from self._upsert(target, item)

    def follow(self, address: str, site: str, depth: int) -> Iterator[Change]:
        """Add a page that a link of a site names, as long as the site may have more pages."""
        if self._is_full(site) and address not in self.items:
            self._marks.set(LINK + address, None)
        elif target := self.add(address, site=site, depth=depth):
            self.sites[site] += 1
            yield from self.consider(target)

    def consider(self, target: Target) -> Iterator[Change]:
        """Look at a page if it is due."""
        now, state = self._run.clock(), target.state
        if not self._run.settings.allowed.host_for(target.locator):
            yield from self._record_skip(target, SkipReason.EXCLUDED)
            return
        next_look = self._marks.get(DELETED + target.locator)
        if target.known is None and next_look is not None and datetime.fromisoformat(next_look) > now:
            return
        # An entry without a page has a title here.
        if (
            target.locator in self.ready
            and (stored_page := self._run.pages.get(target.locator))
            and stored_page.title is None
        ):
            self._marks.set(LINK + target.locator, None)
            yield from self._record_new(target, stored_page)
            return
        is_listed_newer = state is not None and target.modified is not None and target.modified > state.last_look
        is_newly_named = bool(target.entries) and target.known is not None and not feeds_in(target.known.attributes)
        if state is not None and state.next > now and not (self._run.deep or is_listed_newer or is_newly_named):
            yield from self._not_due(target, state)
            return
        # A response with status 304 has no links.
        is_followed = state is not None and (
            state.followed >= self._run.settings.most_pages or not self._has_links(target)
        )
        is_conditional = is_followed and target.page and target.has_present_entries and not self._run.deep
        conditions = (state.etag, state.modified, state.validated) if state and is_conditional else ()
        self._queues.add(PageRequest(target.locator, *conditions))

    def _not_due(self, target: Target, state: PageState) -> Iterator[Change]:
        """Take the present entries of a page that is not due."""
        if target.entries and not target.page and (entries := self._entries_of(target)):
            yield from self.entry(target, entries, state)
        elif target.version and not target.has_present_entries and state != state.without_validators():
            yield from self._record_state(target, target.version, state.without_validators())
        else:
            self._due(state)

    def outcome(self, address: str, result: WebResponse | ItemError) -> Iterator[Change]:
        """Record the response or error of a request."""
        target = self.targets[address]
        if not isinstance(result, HostAway):
            self._marks.set(LINK + address, None)
        if isinstance(result, ItemError):
            yield from self.without_page(target, result)
        elif result.status == 200:
            yield from self._page(target, result)
        elif result.status == 304 and target.state and target.version:
            yield from self._record_state(
                target, target.version, target.state.after_same_content(self._run.clock(), result)
            )
        else:
            yield from self._record_missing(target, NoSuchAddress.of_status(target.locator, result.status))

    def _page(self, target: Target, response: WebResponse) -> Iterator[Change]:
        now, old_state, text = self._run.clock(), target.state, self._digest(response)
        entries = self._entries_of(target)
        is_same = target.page == text and target.has_entries(entries)
        version = (target.version if is_same else None) or joined_version(text, entries)
        if old_state is not None and target.version == version:
            yield from self._record_state(
                target, version, self._note_links(target, old_state.after_same_content(now, response), response)
            )
            return
        is_shared = target.page != text and self._answers.is_shared(target.container, text, target.locator)
        answer = WaitingAnswer(target.locator, text, response)
        if is_shared and target.page:
            for waiting in (*self._answers.release(target.container, text), answer):
                yield from self._take_shared(waiting)
        elif target.page not in ("", text):
            for waiting in self._answers.hold(target.container, answer):
                yield from self._take_new_text(waiting)
        else:
            yield from self._take_new_text(answer)

    def settle(self) -> Iterator[Change]:
        """Record the new texts that no other address turned out to have."""
        for answer in self._answers.settle():
            yield from self._take_new_text(answer)

    def _take_shared(self, answer: WaitingAnswer) -> Iterator[Change]:
        """Keep the earlier text of a page, unless the answer names the page's address as its canonical one."""
        target, response = self.targets[answer.locator], answer.response
        try:
            canonical = self._run.parse(canonical_of, response.body, response.address, response.charset)
        except ItemError:
            canonical = None
        if canonical and _place(canonical) == _place(target.locator):
            yield from self._take_new_text(answer)
        else:
            yield from self.without_page(target, SharedAnswer(target.container))

    def _take_new_text(self, answer: WaitingAnswer) -> Iterator[Change]:
        """Take an answer with a new text."""
        now, target, response = self._run.clock(), self.targets[answer.locator], answer.response
        if not target.site and self._seeds.recognize(target.locator, response, bool(target.feed)):
            if target.feed:
                yield from self.without_page(
                    target, FetchFailed(f"{target.container}: answers with a feed, not a page")
                )
            else:
                del self.targets[target.locator]
            return
        entries = self._entries_of(target)
        stored_page = page_with_entries(target.locator, now, response, answer.text, entries, target.content_hash)
        self._run.pages.put(stored_page)
        yield from self._record_new(target, stored_page)

    def _record_new(self, target: Target, stored_page: StoredResponse) -> Iterator[Change]:
        """Record new content, from this listing or from a listing that was killed before recording it."""
        self._marks.set(DELETED + target.locator, None)
        if target.state and target.page == parts_of(stored_page.version)[0]:
            state = target.state.after_same_content(stored_page.asked, stored_page.response)
        else:
            state = looks.after_new_content(target.state, stored_page.asked, stored_page.response)
        state = replace(state, dated=_date_of(self._entries_of(target)) or state.dated)
        yield from self._record_state(
            target, stored_page.version, self._note_links(target, state, stored_page.response)
        )

    def _digest(self, response: WebResponse) -> str:
        if "html" in response.media_type:
            # A page that the parser fails on has a job that reports it.
            with suppress(ItemError):
                return self._run.parse(looks.digest, response.body, response.media_type)
        return looks.digest(response.body, "")

    def _entries_of(self, target: Target) -> list[FeedEntry]:
        """Return the entries that name a page, without empty ones."""
        entries = (target.entries.get(feed) or self._seeds.entry_of(feed, name) for feed, name in target.feeds.items())
        return [entry for entry in entries if entry and not entry.is_empty]

    def _has_links(self, target: Target) -> bool:
        """Return whether the links of a page are followed."""
        return bool(target.site) and target.depth < self._run.settings.depth

    def _is_full(self, site: str) -> bool:
        return self.sites[site] >= self._run.settings.most_pages

    def _note_links(self, target: Target, state: PageState, response: WebResponse) -> PageState:
        """Note the links of a page within its host. Return its state, with whether the ledger had them all before."""
        if not self._has_links(target):
            return state
        is_full, is_complete = self._is_full(target.site), True
        for address in self._links(target, response):
            is_complete = is_complete and (is_full or address in self.items or LINK + address in self._marks.known)
            if not is_full and address not in self.targets and self._marks.get(LINK + address) is None:
                self._marks.set(LINK + address, f"{target.depth + 1} {target.site}")
                self.links.append((address, target.site, target.depth + 1))
        return replace(state, followed=self._run.settings.most_pages if is_complete else 0)

    def _links(self, target: Target, response: WebResponse) -> Iterator[str]:
        """Yield the addresses of pages of the same host that a page links."""
        if "html" not in response.media_type:
            return
        try:
            links = self._run.parse(
                addresses_in, response.body, SeedKind.PAGE, response.address, response.charset
            ).addresses
        except ItemError:
            return
        host_for = self._run.settings.allowed.host_for
        host = host_for(target.locator)
        for link in links:
            if host_for(link.address) == host and not _NO_PAGE.search(urlsplit(link.address).path):
                yield link.address

    def _record_missing(self, target: Target, error: ItemError) -> Iterator[Change]:
        """Record that the host has no such address. After some days of it the item is deleted, or has its summary only."""
        now, deletion_mark = self._run.clock(), DELETED + target.locator
        state = (target.state or PageState(now, timedelta())).after_miss(now, _warning(error))
        if (not target.page or state.is_gone) and (entries := self._entries_of(target)):
            yield from self.entry(target, entries, state)
            return
        is_deleted = target.known is None and self._marks.get(deletion_mark) is not None
        if is_deleted or (target.known and state.is_gone):
            self._marks.set(deletion_mark, (now + _DELETED_INTERVAL).isoformat())
            if not is_deleted:
                yield Tombstone(target.locator)
        elif target.version:
            yield from self._record_state(target, target.version, state)
        else:
            yield from self._record_failure(target, error, state)

    def without_page(self, target: Target, error: ItemError) -> Iterator[Change]:
        """Record a look without an answer. A text that was read before stays."""
        now = self._run.clock()
        if isinstance(error, HostAway):
            self._run.unreachable[target.locator] = str(error)
            if target.known is None and (entries := self._entries_of(target)):
                yield from self.entry(target, entries, PageState(now + _SOON, _SOON, warning=_warning(error)))
                return
            if target.known or now - error.host.since < _NEW_HOST_PATIENCE:
                return
        state = (target.state or PageState(now, timedelta())).after_failure(now, _warning(error))
        if target.page:
            if not isinstance(error, RobotsForbid):
                yield from self._record_state(target, target.version or "", state)
        elif entries := self._entries_of(target):
            yield from self.entry(target, entries, state)
        elif target.version:
            yield from self._record_state(target, target.version, state)
        elif isinstance(error, Skipped):
            yield from self._record_skip(target, error.skip_reason, state)
        else:
            yield from self._record_failure(target, error, state)

    def _record_failure(self, target: Target, error: ItemError, state: PageState) -> Iterator[Change]:
        """Report an address that was never read. A broken link of a site is no failure of ours."""
        if target.depth:
            yield from self._record_skip(target, SkipReason.EXCLUDED, state)
            return
        if self._is_known(target, FAILED, state):
            return
        self._due(state)
        self.recorded.add(target.locator)
        yield Failure(item_of(target, FAILED, target.attributes(state)), error)

    def _record_skip(self, target: Target, reason: SkipReason, state: PageState | None = None) -> Iterator[Change]:
        version = _NO_CONTENT + reason
        is_known = self._is_known(target, version, state) if state else target.known and target.known.version == version
        if not is_known:
            self.recorded.add(target.locator)
            yield Skip(item_of(target, version, target.attributes(state)), reason)

    def _is_known(self, target: Target, version: str, state: PageState) -> bool:
        """Return whether a proof or deep listing found the same again, which leaves the time of the next look."""
        old_state, known = target.state, target.known
        if not self._run.deep or old_state is None or known is None:
            return False
        if state.missing and old_state.next <= self._run.clock():
            return False  # This look counts for the deletion.
        has_attributes = target.attributes().items() <= known.attributes.items()
        is_same = has_attributes and (known.version, old_state.warning) == (version, state.warning)
        if is_same:
            self._due(old_state)
        return is_same

    def _record_state(self, target: Target, version: str, state: PageState) -> Iterator[Change]:
        if self._is_known(target, version, state):
            return
        self._due(state)
        yield from self._upsert(target, item_of(target, version, target.attributes(state)))

    def _upsert(self, target: Target, item: Item) -> Iterator[Change]:
        if target.moved_from:
            yield Tombstone(target.moved_from)
        self.recorded.add(target.locator)
        yield Upsert(item, target.moved_from)

    def _due(self, state: PageState) -> None:
        self.next = min(self.next or state.next, state.next)


def _warning(error: ItemError) -> str:
    return f"its page was not read: {str(error).replace('_', ' ')}"


def _place(address: str) -> str:
    """Return an address without the parts that often differ between names of one page: scheme, `www.` and trailing slash."""
    parts = urlsplit(address)
    return f"{parts.netloc.removeprefix('www.')}{parts.path.rstrip('/')}?{parts.query}"


def _date_of(entries: Sequence[FeedEntry]) -> datetime | None:
    """Return when the first of these entries changed, or was published; no date in the future."""
    return next((date for entry in entries[:1] for date in (entry.updated, entry.published) if is_past(date)), None)


def item_of(target: Target, version: str, attributes: dict[str, Any]) -> Item:
    """Return the item of a page."""
    date = attributes.get("dated")
    return Item(
        target.locator,
        target.container,
        version,
        size=attributes.get("size"),
        modified=datetime.fromisoformat(date) if date else None,
        attributes=attributes,
    )
