"""Discussions in a repository: issues, pull requests and their comments.

Only the issues are checked for changes: a new comment changes its issue. Once a day the comments are checked too, to
find edited ones, and everything is counted, to find deletions.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property

from catchment.contracts import Known
from catchment.errors import AccessDenied, FetchFailed, Skipped, SkipReason, StillChanging, Vanished
from catchment.model import Change, Checkpoint, Failure, Item, KnownItem, RawContent, Tombstone, Upsert
from connectors.github.api.api_client import PAGE, ApiClient
from connectors.github.api.entries import ApiEntry, EntryKind, EntryRef, parse_locator
from connectors.github.api.entry_cache import EntryCache
from connectors.github.api.errors import FeatureDisabled, OversizedResponse
from connectors.github.api.feed import Feed, FeedMark, Page

_CLOSED = "closed"
_MAX_CONFIRMED = 20
"""Missing entries that are confirmed one by one. With more, the guard against mass deletion decides."""
_WORTH_A_PAGE = 3


class Conversations:
    """The issues and pull requests of one repository, with their comments.

    Unknown ones last changed before `floor` (see `Feed`) are left out.
    """

    def __init__(
        self, client: ApiClient, repository: str, include: Sequence[str], floor: str, cache: EntryCache
    ) -> None:
        self._client = client
        self._repository = repository
        self._wanted = [part for part in ("issues", "pulls") if part in include]
        self._floor = floor
        self._cache = cache
        self._local = threading.local()

    def owns(self, name: str) -> bool:
        containers = (self._closed, *map(self._container, self._wanted))
        return name in containers or name.startswith(self._key(""))

    def changes(self, known: Known, *, deep: bool) -> Iterator[Change]:
        return self._if_open(self._list(known, deep))

    def between(self, since: datetime, until: datetime) -> Iterator[Change]:
        return self._if_open(self._list_between(since, until))

    def expect(self, items: Sequence[Item]) -> None:
        expected: Counter[EntryKind] = Counter(parse_locator(item.locator).kind for item in items)
        self._local.expected = expected

    def fetch(self, item: Item) -> RawContent:
        ref = parse_locator(item.locator)
        if not ref.number:
            raise FetchFailed("not listed by the host; check the token's permissions")
        entry = self._cache.pop(item.locator)
        if entry is None or entry.item.version != item.version:
            entry = self._fetch(ref, item)
        if entry.item.version != item.version:
            raise StillChanging("edited since it was listed; the next sync reads the new version")
        return entry.raw(item)

    # Listing

    def _if_open(self, listing: Iterator[Change]) -> Iterator[Change]:
        """Yield a listing; a Failure if the host denies it."""
        try:
            yield from listing
        except FeatureDisabled:
            return
        except (AccessDenied, Vanished) as error:
            yield Failure(Item(f"{self._repository}#{_CLOSED}", self._closed, _CLOSED), error)
            yield Checkpoint()

    def _list_between(self, since: datetime, until: datetime) -> Iterator[Change]:
        for kind in self._kinds:
            for page in self._feed(kind, {}).between(since, until):
                entries = [entry for entry in page if self._is_wanted(entry)]
                self._cache.add(entries)
                yield from (Upsert(entry.item) for entry in entries)
                yield Checkpoint()

    def _list(self, known: Known, deep: bool) -> Iterator[Change]:
        marks, today = known.marks(), f"{datetime.now(UTC):%Y-%m-%d}"
        conversations, *others = (self._feed(kind, marks) for kind in self._kinds)
        known_entries = _KnownEntries(known, [self._container(part) for part in self._wanted])
        checked = marks.get(self._key("checked"), today) == today
        if deep:
            for feed in (conversations, *others):
                feed.reset()
        is_new = conversations.check_newest()
        # The item for denied access has a separate container, so that its removal reads no other known items.
        yield from map(Tombstone, known.within(self._closed))
        if not is_new and checked:
            return
        reported: set[str] = set()
        counts: dict[int, int] = {}
        for page in conversations.pages():
            counts |= {parse_locator(entry.item.locator).number: entry.comments for entry in page.entries}
            yield from self._page(conversations, page, known_entries, reported)
        for feed in others:
            if feed.check_newest():
                for page in feed.pages():
                    yield from self._page(feed, page, known_entries, reported)
            yield Checkpoint({self._key(feed.kind.mark): str(feed.mark)})
        for feed in (conversations, *others):
            yield from self._deletions(feed, known_entries)
        if others[0].listed is None:
            yield from self._deleted_comments(others[0], known_entries, counts, reported)
        if not (deep or checked) and not self._is_complete(known_entries, reported, [conversations, *others]):
            yield from self._list(known, deep=True)
            return
        # The comments were reported: only now may the issues be marked as done.
        yield Checkpoint({self._key(EntryKind.CONVERSATION.mark): str(conversations.mark), self._key("checked"): today})

    def _page(self, feed: Feed, page: Page, known_entries: _KnownEntries, reported: set[str]) -> Iterator[Change]:
        new = [
            entry
            for entry in page.new
            if self._is_wanted(entry) and (entry.updated >= self._floor or entry.item.locator in known_entries.items)
        ]
        self._cache.add(new)
        reported.update(entry.item.locator for entry in new)
        yield from (Upsert(entry.item) for entry in new)
        yield Checkpoint({self._key(feed.kind.mark): str(page.mark)})

    # Deletions

    def _deletions(self, feed: Feed, known_entries: _KnownEntries) -> Iterator[Change]:
        """Report known entries that are missing from a complete listing."""
        if feed.listed is None:
            return
        missing = sorted(known_entries.of(feed.kind).keys() - feed.listed)
        if not feed.is_single_page and len(missing) <= _MAX_CONFIRMED:
            missing = [locator for locator in missing if self._is_deleted(feed, known_entries.items[locator], locator)]
        yield from map(Tombstone, missing)

    def _is_deleted(self, feed: Feed, item: KnownItem, locator: str) -> bool:
        """Confirm a deletion: a long listing may miss an entry that changes meanwhile.

        A transferred issue has another id.
        """
        ref = parse_locator(locator)
        try:
            fetched = feed.fetch(ref.name or str(ref.number))
        except Vanished:
            return True
        return _node(fetched.item.identity) != _node(item.identity)

    def _deleted_comments(
        self, comments: Feed, known_entries: _KnownEntries, counts: Mapping[int, int], reported: Set[str]
    ) -> Iterator[Change]:
        """Report deleted comments: their issue has fewer comments than are known."""
        if not known_entries.items:
            return
        known = known_entries.of(EntryKind.COMMENT).keys()
        known_counts = Counter(
            parse_locator(locator).number for locator in {*known, *(t for t in reported if "/comment/" in t)}
        )
        for number in sorted(number for number, count in counts.items() if known_counts[number] > count):
            with suppress(Vanished):  # The issue was deleted meanwhile; the next sync detects it.
                existing = {entry.item.locator for entry in comments.comments_on(number)}
                yield from map(
                    Tombstone,
                    sorted(locator for locator in known - existing if parse_locator(locator).number == number),
                )

    def _is_complete(self, known_entries: _KnownEntries, reported: Set[str], feeds: Sequence[Feed]) -> bool:
        """Return whether the host has as many entries as are known. Single pages are complete anyway."""
        if self._floor or len(self._wanted) < 2:
            return True  # The host counts issues and pull requests together, of all times.
        for feed in feeds:
            known = len(
                known_entries.of(feed.kind).keys() | {at for at in reported if parse_locator(at).kind is feed.kind}
            )
            if known > PAGE and feed.count() not in (known, None):
                return False
        return True

    # Fetching

    def _fetch(self, ref: EntryRef, item: Item) -> ApiEntry:
        """Read an entry again; together with the following page if several of its kind are expected."""
        feed = Feed(self._client, self._repository, ref.kind, FeedMark())
        expected: Counter[EntryKind] = getattr(self._local, "expected", None) or Counter()
        if item.modified is not None and expected[ref.kind] >= _WORTH_A_PAGE:
            self._cache.add(feed.since(item.modified))
            if (entry := self._cache.pop(item.locator)) is not None:
                return entry
        try:
            entry = feed.fetch(ref.name or str(ref.number))
        except OversizedResponse:
            raise Skipped(SkipReason.TOO_LARGE) from None
        if _node(entry.item.identity) != _node(item.identity):
            raise Vanished("transferred to another repository; the next sync checks whether it was moved")
        return entry

    # Names

    @property
    def _kinds(self) -> list[EntryKind]:
        return [EntryKind.CONVERSATION, EntryKind.COMMENT, *([EntryKind.REVIEW] if "pulls" in self._wanted else [])]

    def _feed(self, kind: EntryKind, marks: Mapping[str, str]) -> Feed:
        return Feed(self._client, self._repository, kind, FeedMark.read(marks.get(self._key(kind.mark))), self._floor)

    def _key(self, name: str) -> str:
        """Return the key of a mark. It contains the selection, so that a changed selection lists everything again."""
        return f"{self._repository}/{'+'.join(self._wanted)}{self._floor[:10]} {name}"

    @property
    def _closed(self) -> str:
        """The container of the item that stands for denied access."""
        return f"{self._repository}/{'+'.join(self._wanted)} {_CLOSED}"

    def _container(self, part: str) -> str:
        return f"{self._repository}/{part}"

    def _is_wanted(self, entry: ApiEntry) -> bool:
        return entry.item.container.rpartition("/")[2] in self._wanted


class _KnownEntries:
    """The known items of the repository, read on first use."""

    def __init__(self, known: Known, containers: Sequence[str]) -> None:
        self._known = known
        self._containers = containers

    @cached_property
    def items(self) -> dict[str, KnownItem]:
        """All known items by locator."""
        return {at: item for container in self._containers for at, item in self._known.within(container).items()}

    def of(self, kind: EntryKind) -> dict[str, KnownItem]:
        """The known items of one kind."""
        return {locator: item for locator, item in self.items.items() if parse_locator(locator).kind is kind}


def _node(identity: str | None) -> str:
    """Return GitHub's node id in an identity."""
    return (identity or "").rpartition(".")[0]
