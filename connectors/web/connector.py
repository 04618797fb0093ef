"""The connector for pages, feeds and lists of addresses of the web."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar
from urllib.parse import unquote, urldefrag, urlsplit

from catchment.contracts import Known, Manifest, Parse, parse_here
from catchment.errors import (
    AccessDenied,
    FetchFailed,
    ItemError,
    LoginFailed,
    Skipped,
    SourceError,
    SourceInvalid,
    SourceUnavailable,
    StillChanging,
)
from catchment.model import Change, Item, RawContent
from catchment.pacing import Pace
from catchment.settings import Limits, Policy, RetryPolicy, SourceSettings
from connectors.own_folder import own_folder
from connectors.web import looks
from connectors.web.address import MOST_BYTES, host_of
from connectors.web.feeds import FeedEntry
from connectors.web.hosts import Hosts, NoSuchAddress, PageRequest
from connectors.web.seed_reading import Seed, WebRun
from connectors.web.seeds import SeedKind, feeds_of
from connectors.web.settings import WebSettings
from connectors.web.store import (
    ResponseStore,
    StoredResponse,
    feeds_in,
    page_with_entries,
    parts_of,
    stored_entry,
    version_of,
)
from connectors.web.web_listing import WebListing

_SUFFIXES = {"text/html": ".html", "application/xhtml+xml": ".html", "text/plain": ".txt", "application/pdf": ".pdf"}


def present() -> datetime:
    """Return the present time, aware UTC."""
    return datetime.now(UTC)


class WebConnector:
    """The connector for the web: one item for each address, and for each entry of a feed."""

    kind: ClassVar[str] = "web"
    manifest: ClassVar[Manifest] = Manifest(
        "Web pages and feeds",
        "pages, feeds and lists of addresses",
        "web",
        "Address or file: of a feed or page, or the path of a file with addresses (OPML of a reader, list, sitemap)",
        "https://blog.example.org/feed.xml",
        deep="Ask for all addresses now, not only for those that are due.",
        fixed="A host without consent is refused; edit sources.yaml, or give consent.",
        level="gold",
    )
    settings: ClassVar[type[SourceSettings]] = WebSettings
    policy: ClassVar[Policy] = Policy(
        retry=RetryPolicy(attempts=3, initial=3_600, maximum=86_400, multiplier=5),
        limits=Limits(max_mb=MOST_BYTES // 1_000_000),
        at_once=4,
    )
    fetch_in_parser: ClassVar[bool] = False

    def __init__(self, settings: WebSettings) -> None:
        self._settings = settings
        self._hosts: Hosts | None = None
        self.pace = Pace()
        self.parse: Parse = parse_here
        self.folder: Path | None = None
        self._unreachable: dict[str, str] = {}

    def __reduce__(self) -> tuple[type[WebConnector], tuple[Any, ...]]:
        return WebConnector, (self._settings,)

    def limits(self) -> None:
        """Each request names its host."""

    def scopes(self) -> Mapping[str, str]:
        return {host: f"pages of {host}" for host in sorted(self._settings.allowed.names)}

    def scope_of(self, locator: str) -> str:
        return self._settings.allowed.host_for(locator) or host_of(locator)

    def probe(self) -> str:
        """Read the first address and describe it in one line."""
        name, *others = self._settings.addresses
        try:
            seed = self._seed(name)
        except Skipped as error:
            raise SourceInvalid(str(error)) from error
        except AccessDenied as error:
            raise LoginFailed(str(error)) from error
        except ItemError as error:
            raise SourceUnavailable(f"{error}; correct the address, or try again later") from error
        finally:
            self.close()
        return f"{_described(seed)}{f', and {len(others)} more' if others else ''}"

    def changes(self, known: Known, *, deep: bool = False) -> Iterator[Change]:
        list_store, page_store = self._store("lists"), self._store("pages")
        self._unreachable = {}
        run = WebRun(
            self._settings, self._open_hosts(), list_store, page_store, self.parse, present, deep, self._unreachable
        )
        return WebListing(run, known).changes()

    def left(self) -> Mapping[str, str]:
        return self._unreachable

    def expect(self, items: Sequence[Item]) -> None:
        """Does not read ahead: the listing has stored the responses."""

    def fetch(self, item: Item) -> RawContent:
        stored_page = self._store("pages").get(item.locator)
        if stored_page is None or stored_page.version != item.version:
            stored_page = self._request_again(item)
        response = stored_page.response
        url = item.attributes.get("url") or item.locator
        own_addresses = (urldefrag(url).url, item.locator, *feeds_in(item.attributes), "")
        path = PurePosixPath(unquote(urlsplit(url).path))
        name = path.name or host_of(url)
        if path.suffix.lower() not in (suffix := _SUFFIXES.get(response.media_type, path.suffix), ".htm"):
            name += suffix
        return RawContent(
            response.body,
            name,
            title=stored_page.title,
            media_type=response.media_type or None,
            modified=item.modified,
            metadata={"url": url} | ({"redirected": response.address} if response.address not in own_addresses else {}),
            encoding=response.charset,
            address=response.address,
            summary=stored_page.summary,
        )

    def close(self) -> None:
        """Close the connections. The next request connects again, and reads robots.txt again."""
        if self._hosts is not None:
            self._hosts.close()
            self._hosts = None

    # Requests

    def _open_hosts(self) -> Hosts:
        if self._hosts is None:
            self._hosts = Hosts(self._settings, lambda: self.pace, lambda: self.parse, self._store("lists"), present)
        return self._hosts

    def _seed(self, name: str) -> Seed:
        """Request an address of the settings, or read a file of addresses, and return it as a seed.

        Raises ItemError, SourceUnavailable or SourceInvalid.
        """
        if "://" not in name:
            return Seed.in_file(Path(name), self.parse)
        response = self._open_hosts().get(PageRequest(name))
        if response.status != 200:
            problem = NoSuchAddress.of_status(name, response.status)
            raise SourceInvalid(f"{problem}; correct it, or copy it from a browser")
        return Seed.of(name, response, self.parse)

    def _request_again(self, item: Item) -> StoredResponse:
        """Request an item again, because its response is no longer stored. Raises ItemError."""
        page, entry_versions = parts_of(item.version)
        is_unread = item.version.startswith("+")
        feeds = feeds_in(item.attributes)
        entries: list[FeedEntry] = []
        try:
            if feeds and (entry_versions or is_unread or "next" not in item.attributes):
                entries = [self._entry_of(item, feed, name) for feed, name in feeds.items()]
                if not is_unread and (entry_versions or {page}) != set(map(version_of, entries)):
                    raise StillChanging("an entry changed since it was listed; the next sync reads it")
                if not page or "next" not in item.attributes:
                    return stored_entry(entries, item.locator, next(iter(feeds)), present(), item.version)
            response = self._open_hosts().get(PageRequest(item.locator))
        except SourceError as error:
            if "://" not in str(item.attributes.get("feed", "://")):
                raise
            raise FetchFailed(str(error)) from error
        if response.status != 200:
            raise NoSuchAddress.of_status(item.locator, response.status)
        if is_unread and "site" not in item.attributes:
            seed = Seed.of(item.locator, response, self.parse)
            if seed.kind is not SeedKind.PAGE:
                raise StillChanging("it is a feed or list again; the next sync reads it")
        version = looks.digest(response.body, response.media_type)
        if version != page and not is_unread:
            raise StillChanging("the page changed since it was listed; the next sync reads it")
        return page_with_entries(item.locator, present(), response, version, entries)

    def _entry_of(self, item: Item, feed: str, entry_id: str) -> FeedEntry:
        """Return the entry that names an item, from the stored feed, or else from a new response of the feed."""
        _, entry_versions = parts_of(item.version)
        stored_feed = self._store("lists").get(feed)
        for copy in (stored_feed, None) if stored_feed else (None,):
            try:
                seed = (
                    Seed(feed, SeedKind.FEED, copy.response, self.parse)
                    if copy
                    else self._seed(self._settings.seed_of(feed))
                )
                entries = seed.feed().entries
            except ItemError as error:
                raise FetchFailed(f"{host_of(item.locator)}: its feed cannot be read ({error})") from error
            for entry in entries:
                if entry.id == entry_id and (
                    item.version.startswith("+") or version_of(entry) in (item.version, *entry_versions)
                ):
                    return entry
        raise StillChanging("the entry changed or left its feed since it was listed; the next sync reads it")

    def _store(self, name: str) -> ResponseStore:
        return ResponseStore(own_folder(self) / name)


def _described(seed: Seed) -> str:
    """Describe a seed in a few words."""
    place = host_of(seed.name) or seed.name
    if seed.kind is SeedKind.PAGE:
        feeds = seed.parse(feeds_of, seed.response.body, seed.response.address, seed.response.charset)
        return f"{place}: a page" + (f"; its site has a feed, which can be added: {feeds[0].address}" if feeds else "")
    if seed.kind is SeedKind.FEED:
        try:
            feed = seed.feed()
        except ItemError as error:
            raise SourceInvalid(f"{place}: {error}; correct the address") from error
        return f"{feed.title or place}: feed with {len(feed.entries):,} entries"
    try:
        addresses = seed.listing.addresses
    except ItemError as error:
        raise SourceInvalid(f"{place}: {error}; correct the list") from error
    hosts = len({host_of(entry.address) for entry in addresses})
    noun = {SeedKind.OPML: "feeds", SeedKind.SITEMAP_INDEX: "sitemaps"}.get(seed.kind, "addresses")
    refusal = f"; {seed.listing.refusal}" if seed.listing.refused else ""
    return f"{place}: {len(addresses):,} {noun} of {hosts:,} host{'' if hosts == 1 else 's'}{refusal}"
