"""A listing by time of change (issues, comments): what is new in it since a mark, with as few questions as it takes.

The newest page is asked for by its ETag. Mostly it is the same, or has all that is new. Where it has not, the listing is read
from the mark on, oldest change first: each question begins at the newest change of the answer before, and not at a number of a
page, so that what changes meanwhile shifts nothing past it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from connectors.github.api.client import PAGE, ApiClient, ApiResponse
from connectors.github.api.render import Kind, Said, moment

_OVERLAP = timedelta(seconds=60)
"""What is read again before a mark: the clocks of a host's machines differ, and a change may show late."""
_REMEMBERED = 100
_PATHS = {Kind.THREAD: "issues?state=all&", Kind.COMMENT: "issues/comments?", Kind.REVIEW: "pulls/comments?"}
_ONE = {Kind.THREAD: "issues", Kind.COMMENT: "issues/comments", Kind.REVIEW: "pulls/comments"}


@dataclass(frozen=True, slots=True)
class FeedMark:
    """Where a listing was read up to.

    `newest` is the newest change that was told, `seen` what was told of the last minute before it, by locator. `etag` is that
    of the newest page; "" in the middle of a listing.
    """

    newest: str = ""
    seen: Mapping[str, str] = field(default_factory=dict)
    etag: str = ""

    def __str__(self) -> str:
        return json.dumps([self.newest, dict(sorted(self.seen.items())), self.etag], separators=(",", ":"))

    @classmethod
    def read(cls, text: str | None) -> FeedMark:
        """What was written; an empty one for None, and for what is no mark in this form: then all is listed anew."""
        try:
            newest, seen, etag = json.loads(text or "")
            if newest:
                moment(newest)
            mark = cls(newest, dict(seen), etag)
            return mark if all(isinstance(one, str) for one in (newest, etag, *seen, *seen.values())) else cls()
        except (ValueError, TypeError, AttributeError, RecursionError):
            return cls()

    def after(self, page: list[Said]) -> FeedMark:
        """The mark in the middle of a listing when this page was told too."""
        newest = max([self.newest, *(said.updated for said in page)])
        since = _earlier(newest)
        seen = {**self.seen, **{said.item.locator: said.updated for said in page}}
        recent = sorted((updated, locator) for locator, updated in seen.items() if updated >= since)
        return FeedMark(newest, {locator: updated for updated, locator in recent[-_REMEMBERED:]})


class Page(NamedTuple):
    """A part of a listing: all that it holds, what of it is new, and the mark when that is told."""

    entries: list[Said]
    new: list[Said]
    mark: FeedMark


class Feed:
    """The issues (pull requests are among them), the comments, or the reviews of a repository."""

    def __init__(self, client: ApiClient, repository: str, kind: Kind, mark: FeedMark) -> None:
        self.kind = kind
        self._client = client
        self._repository = repository
        self._mark = mark
        self._newest: ApiResponse | None = None
        self.mark = mark
        """The mark when everything was told."""
        self.listed: set[str] | None = None
        """Every locator that there is, when everything was told; None where only what is new was read."""
        self.is_one_answer = False

    def look(self) -> bool:
        """Whether anything may be new: asks for the newest page."""
        self._newest = self._client.get(self._address("desc"), self._mark.etag or None)
        return self._newest.changed

    def everything(self) -> None:
        """Have all be told, as if nothing had been."""
        self._mark = FeedMark()

    def pages(self) -> Iterator[Page]:
        """What is new, the oldest change first; nothing where the newest page is the same."""
        newest = self._newest
        if newest is None or not newest.changed:
            return
        entries = self._read(newest)[::-1]
        self.is_one_answer = newest.next is None
        since = _earlier(self._mark.newest)
        told: set[str] = set()
        mark = self._mark
        is_enough = self.is_one_answer or (since and entries and entries[0].updated < since)
        for part in iter([entries]) if is_enough else self._from(since):
            new = [said for said in part if said.updated >= since and mark.seen.get(said.item.locator) != said.updated]
            mark = mark.after(part)
            told.update(said.item.locator for said in part)
            yield Page(part, new, mark)
        # What changed since that page was asked for is told again by the next sync.
        self.mark = replace(FeedMark().after(entries), etag=newest.etag or "")
        if self.is_one_answer or not since:
            self.listed = told

    def count(self) -> int | None:
        """How many there are at the host; None where it does not tell."""
        answer = self._client.get(f"/repos/{self._repository}/{_PATHS[self.kind]}per_page=1")
        return len(self._client.entries(answer)) if answer.next is None else answer.last

    def since(self, moment: datetime) -> list[Said]:
        """A page of what changed at this moment and after it."""
        return self._read(self._client.get(self._address("asc", _text(moment - timedelta(seconds=1)))))

    def one(self, number: str) -> Said:
        """An issue by its number, or a comment by its id. Raises Vanished."""
        told = self._client.get(f"/repos/{self._repository}/{_ONE[self.kind]}/{number}").data
        return self._client.said(self.kind, self._repository, [told])[0]

    def of_thread(self, number: int) -> Iterator[Said]:
        """The comments on one issue."""
        for page in self._client.pages(f"/repos/{self._repository}/issues/{number}/comments?per_page={PAGE}"):
            yield from self._client.said(Kind.COMMENT, self._repository, page)

    def _from(self, since: str) -> Iterator[list[Said]]:
        """Pages in rising order of change; within one minute along the links: it may fill more than one."""
        following: str | None = self._address("asc", since)
        while following is not None:
            answer = self._client.get(following)
            entries = self._read(answer)
            yield entries
            later = _earlier(max([since, *(said.updated for said in entries)]))
            following = answer.next
            if following is not None and later > since:
                since, following = later, self._address("asc", later)

    def _read(self, answer: ApiResponse) -> list[Said]:
        return self._client.said(self.kind, self._repository, self._client.entries(answer))

    def _address(self, direction: str, since: str = "") -> str:
        ordered = f"{_PATHS[self.kind]}sort=updated&direction={direction}&per_page={PAGE}"
        return f"/repos/{self._repository}/{ordered}{f'&since={since}' if since else ''}"


def _earlier(said: str) -> str:
    """A minute before; "" of ""."""
    return _text(datetime.fromisoformat(said) - _OVERLAP) if said else ""


def _text(at: datetime) -> str:
    """As the API writes it."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
