"""Responses on disk: of pages until their items are delivered, and the latest of each feed, list and robots.txt.

Files are not flushed to the disk: after a power cut a damaged one counts as missing, and its address is requested again.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from catchment.model import SUMMARY_END
from catchment.runtime import atomic_files
from connectors.web.client import WebResponse
from connectors.web.feeds import FeedEntry


class StoredResponse(NamedTuple):
    """The response of an address, or a substitute made from a feed.

    Attributes:
        key: The locator of the item, or the address of a feed or list.
        asked: Time of the request, aware UTC.
        version: The version of the item, or the kind of a feed or list.
        replaces: The content hash that the library had for the item at that time.
        summary: The texts of feeds about the page, as `RawContent.summary`.
    """

    key: str
    asked: datetime
    response: WebResponse
    version: str = ""
    title: str | None = None
    replaces: str | None = None
    summary: str = ""


class ResponseStore:
    """A folder of responses by key. Created on first use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.bytes = 0
        """Stored bytes. `put` adds to it; the user of this object counts responses that were stored before."""

    def put(self, response: StoredResponse) -> None:
        """Store a response in place of an earlier one with its key. Raises HomeUnavailable."""
        body = response.response.body
        facts = {**response.response._asdict(), "body": None}
        line = orjson.dumps({**response._asdict(), "response": facts, "length": len(body)})
        with atomic_files.explained():
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh = self._folder / f"~{threading.get_ident()}"
            try:
                with fresh.open("wb") as file:
                    fresh.chmod(0o600)
                    file.writelines((line, b"\n", body))
                fresh.replace(self._path(response.key))
            finally:
                fresh.unlink(missing_ok=True)
        self.bytes += len(body)

    def get(self, key: str) -> StoredResponse | None:
        """Return the response with this key, or None if there is none or it is damaged."""
        response = _read(self._path(key))
        return response if response is not None and response.key == key else None

    def drop(self, key: str) -> None:
        """Delete the response with this key, if there is one."""
        self._path(key).unlink(missing_ok=True)

    def __iter__(self) -> Iterator[tuple[StoredResponse, int]]:
        """Yield all responses without their bodies, and their sizes. Deletes damaged and unfinished files."""
        for path in sorted(self._folder.glob("*")):
            response = None if path.name.startswith("~") else _read(path, with_body=False)
            if response is None:
                path.unlink(missing_ok=True)
            else:
                yield response, path.stat().st_size

    def _path(self, key: str) -> Path:
        return self._folder / hashlib.blake2b(key.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _read(path: Path, *, with_body: bool = True) -> StoredResponse | None:
    try:
        with path.open("rb") as file:
            head = orjson.loads(file.readline())
            is_whole = os.fstat(file.fileno()).st_size - file.tell() == head.pop("length")
            body = file.read() if with_body else b""
        response = WebResponse(**{**head.pop("response"), "body": body})
        request_time = datetime.fromisoformat(head.pop("asked"))
        return StoredResponse(**head, asked=request_time, response=response) if is_whole else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def stored_entry(
    entries: Sequence[FeedEntry],
    locator: str,
    feed: str,
    request_time: datetime,
    version: str,
    replaces: str | None = None,
) -> StoredResponse:
    """Return the entries of an address as the response of a page. `feed`: the address of the first feed."""
    address = entries[0].address or feed
    body = _titled(entries[0], *(f"<h2>{escape(other.title)}</h2>{_markup(other)}" for other in entries[1:]))
    return StoredResponse(
        key=locator,
        asked=request_time,
        response=WebResponse(
            address=address, media_type="text/html", charset="utf-8", body=body.encode(errors="replace")
        ),
        version=version,
        title=entries[0].title,
        replaces=replaces,
    )


def page_with_entries(
    locator: str,
    request_time: datetime,
    response: WebResponse,
    text: str,
    entries: Sequence[FeedEntry],
    replaces: str | None = None,
) -> StoredResponse:
    """Return the response of a page with the entries that name it. `text`: the hash of its text."""
    summary = SUMMARY_END.join(dict.fromkeys(map(_titled, entries)))
    version = joined_version(text, entries)
    return StoredResponse(locator, request_time, response, version, replaces=replaces, summary=summary)


def _titled(entry: FeedEntry, *more: str) -> str:
    return f'<meta property="og:title" content="{escape(entry.title)}">{_markup(entry)}{"".join(more)}'


def _markup(entry: FeedEntry) -> str:
    dates = {"article:published_time": entry.published, "article:modified_time": entry.updated}
    meta = [f'<meta name="author" content="{escape(entry.author)}">'] if entry.author else []
    meta += [f'<meta property="{name}" content="{day.isoformat()}">' for name, day in dates.items() if day]
    meta += [f'<meta property="article:tag" content="{escape(tag)}">' for tag in entry.tags]
    # Without the tags of a whole page all of it counts as its text.
    return f"{''.join(meta)}<article>{entry.html}</article>"


def version_of(entry: FeedEntry) -> str:
    """Return a hash of the visible parts of an entry."""
    text = "\0".join((entry.title, entry.author, str(entry.published), entry.html, *entry.tags))
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=16).hexdigest()


def joined_version(page: str, entries: Iterable[FeedEntry]) -> str:
    """Return the version of a page with the entries that name it. `page`: the hash of its text; "" if it could not be read."""
    return ".".join((page, *sorted(set(map(version_of, entries)))))


def parts_of(version: str) -> tuple[str, frozenset[str]]:
    """Return the version of the page, "" if it is missing, and those of the entries."""
    page, *entries = version.split(".")
    return page, frozenset(entries)


def feeds_in(attributes: Mapping[str, Any]) -> dict[str, str]:
    """Return the feeds that name an item, with the ID of its entry in each, from its attributes."""
    own = {attributes["feed"]: attributes.get("id", "")} if "feed" in attributes else {}
    return {**own, **attributes.get("feeds", {})}


def feed_attributes(feeds: Mapping[str, str]) -> dict[str, Any]:
    """Return the attributes of an item that these feeds name. `feeds_in` reads them."""
    (feed, entry_id), *others = feeds.items() or [("", "")]
    return {"feed": feed, "id": entry_id, "feeds": dict(others)}
