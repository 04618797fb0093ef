"""A listing ordered by time of change (issues, comments): read the entries newer than a mark, with few requests.

The newest page is requested with its ETag. Usually it is unchanged, or contains everything new. Otherwise the listing
is read from the mark on, oldest change first. Each request starts at the newest change of the previous response, not at
a page number, so that changes made meanwhile cannot shift entries past it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from connectors.github.api.api_client import PAGE, ApiClient, ApiResponse
from connectors.github.api.entries import ApiEntry, EntryKind, parse_time

_OVERLAP = timedelta(seconds=60)
"""Period before a mark that is read again: the clocks of a host's machines differ, and changes may appear late."""
_REMEMBERED = 100
_PATHS = {
    EntryKind.CONVERSATION: "issues?state=all&",
    EntryKind.COMMENT: "issues/comments?",
    EntryKind.REVIEW: "pulls/comments?",
}


@dataclass(frozen=True, slots=True)
class FeedMark:
    """The position up to which a listing was read.

    `newest` is the time of the newest reported change, `seen` the changes of the last minute before it, by locator.
    `etag` is the ETag of the newest page; "" in the middle of a listing.
    """

    newest: str = ""
    seen: Mapping[str, str] = field(default_factory=dict)
    etag: str = ""

    def __str__(self) -> str:
        return json.dumps([self.newest, dict(sorted(self.seen.items())), self.etag], separators=(",", ":"))

    @classmethod
    def read(cls, text: str | None) -> FeedMark:
        """Parse a mark; an empty one for None or another format, so that everything is listed again."""
        try:
            newest, updates, etag = json.loads(text or "")
            if newest:
                parse_time(newest)
            mark = cls(newest, dict(updates), etag)
            return (
                mark if all(isinstance(value, str) for value in (newest, etag, *updates, *updates.values())) else cls()
            )
        except (ValueError, TypeError, AttributeError, RecursionError):
            return cls()

    def after(self, page: list[ApiEntry]) -> FeedMark:
        """Return the mark in the middle of a listing, after this page."""
        newest = max([self.newest, *(entry.updated for entry in page)])
        since = _earlier(newest)
        updates = {**self.seen, **{entry.item.locator: entry.updated for entry in page}}
        recent = sorted((updated, locator) for locator, updated in updates.items() if updated >= since)
        return FeedMark(newest, {locator: updated for updated, locator in recent[-_REMEMBERED:]})


class Page(NamedTuple):
    """A part of a listing: its entries, the new ones among them, and the mark after them."""

    entries: list[ApiEntry]
    new: list[ApiEntry]
    mark: FeedMark


class Feed:
    """The issues (including pull requests), comments or reviews of a repository.

    `floor` is a time in the format of the API: entries last changed before it are left out if there are several pages.
    """

    def __init__(self, client: ApiClient, repository: str, kind: EntryKind, mark: FeedMark, floor: str = "") -> None:
        self.kind = kind
        self._floor = floor
        self._client = client
        self._repository = repository
        self._mark = mark
        self._newest: ApiResponse | None = None
        self.mark = mark
        """The mark after everything was reported."""
        self.listed: set[str] | None = None
        """All existing locators after everything was reported; None if only new entries were read."""
        self.is_single_page = False

    def check_newest(self) -> bool:
        """Request the newest page; return whether anything may be new."""
        self._newest = self._client.get(self._address("desc"), self._mark.etag or None)
        return self._newest.changed

    def reset(self) -> None:
        """Forget the mark and the floor, so that everything is listed."""
        self._mark, self._floor = FeedMark(), ""

    def pages(self) -> Iterator[Page]:
        """Yield new entries, oldest change first; no pages if the newest page is unchanged."""
        newest = self._newest
        if newest is None or not newest.changed:
            return
        entries = self._read(newest)[::-1]
        self.is_single_page = newest.next is None
        since = max(self._floor, _earlier(self._mark.newest))
        reported: set[str] = set()
        mark = self._mark
        is_enough = self.is_single_page or (since and entries and entries[0].updated < since)
        for part in iter([entries]) if is_enough else self._pages_since(since):
            new = [
                entry for entry in part if entry.updated >= since and mark.seen.get(entry.item.locator) != entry.updated
            ]
            mark = mark.after(part)
            reported.update(entry.item.locator for entry in part)
            yield Page(part, new, mark)
        # Changes made since that page was requested are reported again by the next sync.
        self.mark = replace(FeedMark().after(entries), etag=newest.etag or "")
        if self.is_single_page or not since:
            self.listed = reported

    def count(self) -> int | None:
        """Return the number of entries at the host; None if it is not reported."""
        response = self._client.get(f"/repos/{self._repository}/{_PATHS[self.kind]}per_page=1")
        return len(self._client.entries(response)) if response.next is None else response.last

    def between(self, since: datetime, until: datetime) -> Iterator[list[ApiEntry]]:
        """Yield the entries last changed in this period, in pages; entries may be repeated."""
        for entries in self._pages_since(_text(since)):
            yield [entry for entry in entries if entry.is_between(since, until)]
            if any(entry.updated >= _text(until) for entry in entries):
                return

    def since(self, time: datetime) -> list[ApiEntry]:
        """Return one page of entries changed at or after this time."""
        return self._read(self._client.get(self._address("asc", _text(time - timedelta(seconds=1)))))

    def fetch(self, number: str) -> ApiEntry:
        """Return an issue by number, or a comment by id. Raises Vanished."""
        path = _PATHS[self.kind].partition("?")[0]
        data = self._client.get(f"/repos/{self._repository}/{path}/{number}").data
        return self._client.parse(self.kind, self._repository, [data])[0]

    def comments_on(self, number: int) -> Iterator[ApiEntry]:
        """Yield the comments on one issue."""
        for page in self._client.pages(f"/repos/{self._repository}/issues/{number}/comments?per_page={PAGE}"):
            yield from self._client.parse(EntryKind.COMMENT, self._repository, page)

    def _pages_since(self, since: str) -> Iterator[list[ApiEntry]]:
        """Yield pages, oldest change first. Within one minute, follow the links: it may fill several pages."""
        next_url: str | None = self._address("asc", since)
        while next_url is not None:
            response = self._client.get(next_url)
            entries = self._read(response)
            yield entries
            later = _earlier(max([since, *(entry.updated for entry in entries)]))
            next_url = response.next
            if next_url is not None and later > since:
                since, next_url = later, self._address("asc", later)

    def _read(self, response: ApiResponse) -> list[ApiEntry]:
        return self._client.parse(self.kind, self._repository, self._client.entries(response))

    def _address(self, direction: str, since: str = "") -> str:
        ordered = f"{_PATHS[self.kind]}sort=updated&direction={direction}&per_page={PAGE}"
        return f"/repos/{self._repository}/{ordered}{f'&since={since}' if since else ''}"


def _earlier(time: str) -> str:
    """Return the time one minute earlier; "" for ""."""
    return _text(datetime.fromisoformat(time) - _OVERLAP) if time else ""


def _text(at: datetime) -> str:
    """Format a time as the API does."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
