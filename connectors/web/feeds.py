"""Read a feed: RSS 0.90 to 2.0, Atom 0.3 and 1.0, CDF and JSON Feed.

feedparser does the XML formats, also when they are not well-formed. It is slow, so what it is given is bounded.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from html import escape, unescape
from time import struct_time
from typing import Any
from urllib.parse import urljoin

import feedparser
import orjson

from catchment.errors import BadInput, ParseError
from connectors.web.address import normalized

MOST_ENTRIES = 5_000
MOST_TAGS = 250_000
"""feedparser reads 50,000 tags in a second. A feed of 5,000 entries has about 100,000."""
_MOST_TITLE = 1_000
_BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_MOST_HEAD = 1 << 16
_ROOT = re.compile(
    rb"[\s\xef\xbb\xbf\xfe\xff]*(?><(?>\?.*?\?|!--.*?--|!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?)>\s*)*"
    rb"<(?:[a-z_][\w.-]*:)?([a-z][\w.-]*)",
    re.IGNORECASE | re.DOTALL,
)
_ROOTS = (b"rss", b"feed", b"rdf", b"channel")
_ENTRY_END = re.compile(rb"</(?:\w+:)?(?:item|entry)\s*>", re.IGNORECASE)
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """An entry of a feed. `html` is as the feed has it, scripts included, with a `<base>` for its relative links.

    `is_full` tells that `html` is the article, or all that there is of it, and not a summary of the page at `address`.
    """

    id: str
    address: str | None
    title: str
    author: str
    published: datetime | None
    updated: datetime | None
    html: str
    is_full: bool


@dataclass(frozen=True, slots=True)
class WebFeed:
    """A feed, its site and its entries in the feed's order, each once."""

    title: str
    home: str | None
    entries: tuple[FeedEntry, ...]


def read_feed(data: bytes, address: str, charset: str | None = None) -> WebFeed:
    """Read the feed that `address` answered with. At most 5,000 entries are returned.

    `charset` is the one that the answer names. Raises ParseError if the data is not a feed, or is too complex.
    """
    loaded = _loaded(data)
    if loaded is not None:
        return _json_feed(loaded, address)
    root = root_element(data)
    if root not in _ROOTS:
        raise ParseError("not a feed")
    data = _bounded(data, root)
    # The order of bytes at the beginning of a file is surer than what a server says about all its files.
    named = f"; charset={charset}" if charset and not data.startswith(_BOMS) else ""
    # Without an address, feedparser leaves relative links alone: it would take any ID for a link.
    parsed = feedparser.parse(
        io.BytesIO(data),
        response_headers={"content-type": f"application/xml{named}"},
        resolve_relative_uris=False,
        sanitize_html=False,
    )
    if not parsed.version and not parsed.entries:
        raise ParseError("not a feed")
    entries = (_entry(entry, address) for entry in parsed.entries[:MOST_ENTRIES])
    return WebFeed(_plain(parsed.feed, "title"), _link(parsed.feed.get("link"), address), _distinct(entries))


def is_json_feed(data: bytes) -> bool:
    """Return whether the data is a JSON Feed."""
    return _loaded(data) is not None


def root_element(data: bytes) -> bytes | None:
    """Return the local name of the first element, in lower case; None for text that is not markup."""
    head = data[:_MOST_HEAD]
    if b"\0" in head[:8]:
        head = head.replace(b"\0", b"")  # UTF-16 or UTF-32
    match = _ROOT.match(head)
    return match and match[1].lower()


def _bounded(data: bytes, root: bytes) -> bytes:
    for number, end in enumerate(_ENTRY_END.finditer(data), 1):
        if number == MOST_ENTRIES:
            data = data[: end.end()] + (b"</channel></rss>" if root == b"rss" else b"</%s>" % root)
            break
    tags = sum(part.partition(b"]]>")[2].count(b"<") for part in (b"]]>" + data).split(b"<![CDATA["))
    if tags > MOST_TAGS:
        raise ParseError(f"the feed has more than {MOST_TAGS:,} tags")
    return data


def _entry(entry: Any, feed: str) -> FeedEntry:
    given = str(entry.get("id") or "").strip()
    alternate = (link.get("href") for link in entry.get("links", ()) if link.get("rel") == "alternate")
    link = entry.get("feedburner_origlink") or entry.get("link") or next(alternate, None)
    # An ID is a link by default, also if it is only a number.
    address = _link(link, "" if entry.get("guidislink") else feed)
    contents = [content for content in entry.get("content", ()) if content.get("value", "").strip()]
    is_full = bool(contents)
    if not is_full and entry.get("summary"):
        contents = [entry.get("summary_detail") or {"type": "text/html", "value": entry["summary"]}]
    enclosures = [
        (link.get("href"), link.get("title") or link.get("type"))
        for link in entry.get("links", ())
        if link.get("rel") == "enclosure"
    ]
    authors = [author.get("name") or author.get("email") for author in entry.get("authors", ()) if author]
    return _made(
        given,
        address,
        title=_plain(entry, "title"),
        author=", ".join(filter(None, authors)) or entry.get("author") or "",
        published=_time(entry.get("published_parsed") or entry.get("created_parsed")),
        updated=_time(dict.get(entry, "updated_parsed")),
        html=_html(contents, feed) + _attached(enclosures, feed),
        is_full=is_full,
    )


def _loaded(data: bytes) -> Mapping[str, Any] | None:
    """Return a parsed JSON Feed; None for anything else."""
    text = data.removeprefix(_BOMS[0])
    if not text[:_MOST_HEAD].lstrip().startswith(b"{"):
        return None
    try:
        loaded = orjson.loads(text)
    except ValueError:
        return None
    is_feed = isinstance(loaded, dict) and "jsonfeed.org/version/" in str(loaded.get("version"))
    return loaded if is_feed else None


def _json_feed(loaded: Mapping[str, Any], address: str) -> WebFeed:
    items = _list(loaded.get("items"))[:MOST_ENTRIES]
    entries = (_json_entry(item, address) for item in items if isinstance(item, dict))
    return WebFeed(_words(loaded.get("title")), _link(loaded.get("home_page_url"), address), _distinct(entries))


def _json_entry(item: Mapping[str, Any], feed: str) -> FeedEntry:
    kinds = (("content_html", "text/html"), ("content_text", "text/plain"), ("summary", "text/plain"))
    contents = [{"type": kind, "value": item[name]} for name, kind in kinds if _words(item.get(name))][:1]
    people = _list(item.get("authors")) or [item.get("author")]
    attached = [file for file in _list(item.get("attachments")) if isinstance(file, dict)]
    return _made(
        str(item.get("id") or "").strip(),
        _link(item.get("url"), feed) or _link(item.get("external_url"), feed),
        title=_words(item.get("title")),
        author=", ".join(filter(None, (_words(person.get("name")) for person in people if isinstance(person, dict)))),
        published=iso_time(item.get("date_published")),
        updated=iso_time(item.get("date_modified")),
        html=_html(contents, feed)
        + _attached([(file.get("url"), file.get("title") or file.get("mime_type")) for file in attached], feed),
        is_full=bool(_words(item.get("content_html")) or _words(item.get("content_text"))),
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _made(given: str, address: str | None, **rest: Any) -> FeedEntry:
    """Return an entry with an ID, also if the feed gives none."""
    rest["author"] = _words(rest["author"])
    parts = "\0".join(map(str, (rest["title"], rest["published"], rest["html"])))
    identity = _UNPRINTABLE.sub("", given)[:_MOST_TITLE] or address
    rest["is_full"] = rest["is_full"] or address is None
    return FeedEntry(identity or hashlib.sha256(parts.encode()).hexdigest()[:32], address, **rest)


def _distinct(entries: Iterable[FeedEntry]) -> tuple[FeedEntry, ...]:
    """Return each entry once, and the latest of several. Entries of one ID and several addresses lose the ID."""
    latest: dict[tuple[str, str | None], FeedEntry] = {}
    addresses: dict[str, set[str | None]] = {}
    for entry in entries:
        key = (entry.id, entry.address)
        other = latest.get(key)
        if other is None or (entry.updated and other.updated and entry.updated > other.updated):
            latest[key] = entry
        addresses.setdefault(entry.id, set()).add(entry.address)
    return tuple(
        replace(entry, id=entry.address) if entry.address and len(addresses[entry.id]) > 1 else entry
        for entry in latest.values()
    )


def _html(contents: list[Any], feed: str) -> str:
    """Return the HTML of the richest content."""
    for kind in ("html", "xml", "text/plain"):
        for content in contents:
            if kind in content.get("type", "text/html"):
                value = _UNPRINTABLE.sub("", content["value"])
                base = escape(urljoin(feed, content.get("base") or ""))
                return f'<base href="{base}">{_paragraphs(value) if kind == "text/plain" else value}'
    return ""


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{escape(part)}</p>" for part in re.split(r"\n[^\S\n]*\n", text))


def _attached(files: list[tuple[Any, Any]], feed: str) -> str:
    links = ((_link(address, feed), _words(name)) for address, name in files)
    return "".join(f'<p><a href="{escape(link)}">{escape(name or link)}</a></p>' for link, name in links if link)


def _link(link: Any, base: str) -> str | None:
    try:
        return normalized(link, base) if isinstance(link, str) and link.strip() else None
    except BadInput:
        return None


def _plain(of: Any, name: str) -> str:
    """Return a text without its tags, if it is HTML."""
    value = of.get(name) or ""
    is_html = "html" in (of.get(f"{name}_detail") or {}).get("type", "")
    return _words(unescape(_TAG.sub("", value)) if is_html else value)


def _words(text: Any) -> str:
    return " ".join(_UNPRINTABLE.sub("", text).split())[:_MOST_TITLE] if isinstance(text, str) else ""


def _time(parsed: struct_time | None) -> datetime | None:
    """Return a time, which is UTC already."""
    try:
        return datetime(*parsed[:5], min(parsed[5], 59), tzinfo=UTC) if parsed else None
    except ValueError:
        return None


def iso_time(text: Any) -> datetime | None:
    """Return the time that an ISO 8601 text names, in UTC; None if it is no such text."""
    try:
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=time.tzinfo or UTC).astimezone(UTC)
    except (ValueError, TypeError, OverflowError):
        return None
