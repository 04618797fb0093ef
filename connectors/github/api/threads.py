"""What is said in a repository: issues, pull requests, and the comments on them.

Whether anything happened is asked of the issues alone: whoever comments on one changes it. Once a day the comments are asked
too, which shows those that were edited, and all are counted, which shows what was deleted.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from datetime import UTC, datetime

from catchment.contracts import Known
from catchment.errors import AccessDenied, FetchFailed, Skipped, StillChanging, Vanished
from catchment.model import (
    Change,
    Checkpoint,
    Failure,
    Item,
    KnownItem,
    RawContent,
    SkipReason,
    Tombstone,
    Upsert,
)
from connectors.github.api.client import PAGE, ApiClient
from connectors.github.api.errors import AnswerTooLarge, SwitchedOff
from connectors.github.api.etag_cache import Memory
from connectors.github.api.feed import Feed, FeedMark, Page
from connectors.github.api.render import CommentPlace, Kind, Said, place

_CLOSED = "closed"
_CONFIRMED_AT_MOST = 20
"""Missing things that are asked for one by one; of more than that the guard against mass deletion knows what to think."""
_WORTH_A_PAGE = 3


class Threads:
    """The issues and pull requests of one repository, and what was said on them."""

    def __init__(self, client: ApiClient, repository: str, include: Sequence[str], memory: Memory) -> None:
        self._client = client
        self._repository = repository
        self._wanted = [part for part in ("issues", "pulls") if part in include]
        self._memory = memory
        self._mine = threading.local()

    def owns(self, name: str) -> bool:
        """As `Listing.owns`."""
        return name in map(self._container, self._wanted) or name.startswith(self._key(""))

    def changes(self, known: Known, *, deep: bool) -> Iterator[Change]:
        """As `Listing.changes`."""
        try:
            yield from self._tell(known, deep)
        except SwitchedOff:
            return
        except (AccessDenied, Vanished) as error:
            yield Failure(Item(f"{self._repository}#{_CLOSED}", self._key(_CLOSED), _CLOSED), error)
            yield Checkpoint()

    def expect(self, items: Sequence[Item]) -> None:
        """As `Listing.expect`."""
        expected: Counter[Kind] = Counter(place(item.locator).kind for item in items)
        self._mine.expected = expected

    def fetch(self, item: Item) -> RawContent:
        """As `Listing.fetch`."""
        at = place(item.locator)
        if not at.number:
            raise FetchFailed("the host refused to list this; see whether the token may read it")
        said = self._memory.take(item.locator)
        if said is None or said.item.version != item.version:
            said = self._ask(at, item)
        if said.item.version != item.version:
            raise StillChanging("it was edited since it was listed; the next sync reads it")
        return said.raw(item)

    def close(self) -> None:
        """As `Listing.close`."""
        self._memory.clear()

    # Telling

    def _tell(self, known: Known, deep: bool) -> Iterator[Change]:
        marks, today = known.marks(), f"{datetime.now(UTC):%Y-%m-%d}"
        threads, *others = (self._feed(kind, marks) for kind in self._kinds)
        here = _Here(known, [self._container(part) for part in self._wanted])
        checked = marks.get(self._key("checked"), today) == today
        if deep:
            for feed in (threads, *others):
                feed.everything()
        is_new = threads.look()
        # In a container of its own, for here nothing else need be read where nothing is new.
        yield from map(Tombstone, known.within(self._key(_CLOSED)))
        if not is_new and checked:
            return
        told: set[str] = set()
        counts: dict[int, int] = {}
        for page in threads.pages():
            counts |= {place(said.item.locator).number: said.comments for said in page.entries}
            yield from self._page(threads, page, told)
        for feed in others:
            if feed.look():
                for page in feed.pages():
                    yield from self._page(feed, page, told)
            yield Checkpoint({self._key(feed.kind.name): str(feed.mark)})
        for feed in (threads, *others):
            yield from self._missing(feed, here)
        if others[0].listed is None:
            yield from self._uncounted(others[0], here, counts, told)
        if not (deep or checked) and not self._is_complete(here, told, [threads, *others]):
            yield from self._tell(known, deep=True)
            return
        # What hangs on the issues was told: only now they need not be told again.
        yield Checkpoint({self._key(Kind.THREAD.name): str(threads.mark), self._key("checked"): today})

    def _page(self, feed: Feed, page: Page, told: set[str]) -> Iterator[Change]:
        new = [said for said in page.new if self._is_wanted(said)]
        self._memory.keep(new)
        told.update(said.item.locator for said in new)
        yield from (Upsert(said.item) for said in new)
        yield Checkpoint({self._key(feed.kind.name): str(page.mark)})

    # What is gone

    def _missing(self, feed: Feed, here: _Here) -> Iterator[Change]:
        """What is known and not in a listing that was read as a whole."""
        if feed.listed is None:
            return
        missing = sorted(here.of(feed.kind).keys() - feed.listed)
        if not feed.is_one_answer and len(missing) <= _CONFIRMED_AT_MOST:
            missing = [locator for locator in missing if self._is_gone(feed, here.items[locator], locator)]
        yield from map(Tombstone, missing)

    def _is_gone(self, feed: Feed, item: KnownItem, locator: str) -> bool:
        """A long listing may pass something by that changes meanwhile; what was transferred answers in another place."""
        at = place(locator)
        try:
            found = feed.one(at.name or str(at.number))
        except Vanished:
            return True
        return _node(found.item.identity) != _node(item.identity)

    def _uncounted(self, comments: Feed, here: _Here, counts: Mapping[int, int], told: Set[str]) -> Iterator[Change]:
        """Comments that were deleted: their issue has fewer than are known."""
        if not here.items:
            return
        known = here.of(Kind.COMMENT).keys()
        ours = Counter(place(locator).number for locator in {*known, *(t for t in told if "/comment/" in t)})
        for number in sorted(number for number, count in counts.items() if ours[number] > count):
            with suppress(Vanished):  # The issue went meanwhile: the next sync sees it.
                there = {said.item.locator for said in comments.of_thread(number)}
                yield from map(Tombstone, sorted(at for at in known - there if place(at).number == number))

    def _is_complete(self, here: _Here, told: Set[str], feeds: Sequence[Feed]) -> bool:
        """Whether the host has as many as are known by now. What fits on one page is told as a whole anyway."""
        if len(self._wanted) < 2:
            return True  # The host counts issues and pull requests together.
        for feed in feeds:
            known = len(here.of(feed.kind).keys() | {at for at in told if place(at).kind is feed.kind})
            if known > PAGE and feed.count() not in (known, None):
                return False
        return True

    # Fetching

    def _ask(self, at: CommentPlace, item: Item) -> Said:
        """Read again; where more of the kind is expected, with the page that begins with it."""
        feed = Feed(self._client, self._repository, at.kind, FeedMark())
        expected: Counter[Kind] = getattr(self._mine, "expected", None) or Counter()
        if item.modified is not None and expected[at.kind] >= _WORTH_A_PAGE:
            self._memory.keep(feed.since(item.modified))
            if (said := self._memory.take(item.locator)) is not None:
                return said
        try:
            said = feed.one(at.name or str(at.number))
        except AnswerTooLarge:
            raise Skipped(SkipReason.TOO_LARGE) from None
        if _node(said.item.identity) != _node(item.identity):
            raise Vanished("it is in another repository now; the next sync decides what that means")
        return said

    # Names

    @property
    def _kinds(self) -> list[Kind]:
        return [Kind.THREAD, Kind.COMMENT, *([Kind.REVIEW] if "pulls" in self._wanted else [])]

    def _feed(self, kind: Kind, marks: Mapping[str, str]) -> Feed:
        return Feed(self._client, self._repository, kind, FeedMark.read(marks.get(self._key(kind.name))))

    def _key(self, name: str) -> str:
        """A mark; others where something else is wanted, so that all of it is told."""
        return f"{self._repository}/{'+'.join(self._wanted)} {name.lower()}"

    def _container(self, part: str) -> str:
        return f"{self._repository}/{part}"

    def _is_wanted(self, said: Said) -> bool:
        return said.item.container.rpartition("/")[2] in self._wanted


class _Here:
    """What is known of the repository, read when it is first needed."""

    def __init__(self, known: Known, containers: Sequence[str]) -> None:
        self._known = known
        self._containers = containers
        self._items: dict[str, KnownItem] | None = None

    @property
    def items(self) -> dict[str, KnownItem]:
        """Everything that is known, by locator."""
        if self._items is None:
            self._items = {}
            for container in self._containers:
                self._items |= self._known.within(container)
        return self._items

    def of(self, kind: Kind) -> dict[str, KnownItem]:
        """Of one kind."""
        return {at: item for at, item in self.items.items() if place(at).kind is kind}


def _node(identity: str | None) -> str:
    """The id that GitHub gave it, of its identity."""
    return (identity or "").rpartition(".")[0]
