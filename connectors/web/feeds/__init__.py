"""Read a feed: RSS 0.90 to 2.0, Atom 0.3 and 1.0, CDF and JSON Feed.

feedparser reads XML, well-formed or not. It is slow, so its input is bounded.
"""

from __future__ import annotations

import hashlib
import io
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import wraps
from html import escape, unescape
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import urldefrag

import feedparser

from catchment.content.foreign_json import read_json
from catchment.content.normalize.decode import declared_encoding, decode
from catchment.errors import BadInput, ParseError
from connectors.web.address import normalized
from connectors.web.feeds.feed_dates import FeedDates

MOST_ENTRIES = 5_000
MOST_TAGS = 200_000
"""feedparser reads 50,000 tags in a second. A feed of 5,000 entries has about 100,000."""
_MOST_TITLE = 1_000
_MOST_NAME = 3_000
_MOST_TAG, _MOST_ENTRY_TAGS = 100, 50
_MOST_HEAD = 1 << 16
_ROOT = re.compile(
    rb"[\s\xef\xbb\xbf\xfe\xff]*(?><(?>\?.*?\?|!--.*?--|!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?)>\s*)*"
    rb"(?P<element><)(?:[a-z_][\w.-]*:)?(?P<name>[a-z][\w.-]*)",
    re.IGNORECASE | re.DOTALL,
)
FEED_ROOTS = (b"rss", b"feed", b"rdf", b"channel")
_ENTRY_END = re.compile(rb"</(?:\w+:)?(?:item|entry)\s*>", re.IGNORECASE)
_REFERENCE = re.compile(rb"&#(?:x(?P<hex>[0-9a-f]+)|(?P<decimal>[0-9]+));?", re.IGNORECASE)
_MOST_REFERENCE = 8
_SURROGATES = range(0xD800, 0xE000)
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_OF, _MEDIA = "of", "media"
"""Key of the mark of a description, and the mark of descriptions of pictures and films."""
_EMAIL = re.compile(r"[^\s()<>@]+@[^\s()<>]+")
_SAYS = re.compile(r"<(?:img|audio|video|iframe|object|embed)\b|(?:\A|>)[^<]*\w", re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """An entry of a feed. `html` is as the feed has it, scripts included, with a `<base>` for its relative links.

    `id` is no other entry's of the feed. `link`: `address` with its fragment. `is_full`: `html` is the whole article, and not a
    summary of the page at `address`.
    """

    id: str
    address: str | None
    title: str
    author: str
    published: datetime | None
    updated: datetime | None
    html: str
    is_full: bool
    tags: tuple[str, ...] = ()
    link: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it has neither a title nor words or media."""
        return not self.title and not _SAYS.search(unescape(self.html))


@dataclass(frozen=True, slots=True)
class WebFeed:
    """A feed, its site and its entries in the feed's order, each once."""

    title: str
    home: str | None
    entries: tuple[FeedEntry, ...]


def read_feed(data: bytes, address: str, charset: str | None = None) -> WebFeed:
    """Read the feed that `address` answered with. At most 5,000 entries are returned.

    `charset` is that of the response. Raises ParseError if the data is not a feed, or has too many tags.
    """
    fields = _json_fields(data)
    if fields is not None:
        return _json_feed(fields, address)
    data, root = _elements(data, charset)
    # feedparser gets no address: it would resolve any ID to a link.
    parsed = feedparser.parse(
        io.BytesIO(_bounded(data, root)),
        response_headers={"content-type": "application/xml; charset=utf-8"},
        resolve_relative_uris=False,
        sanitize_html=False,
    )
    if not parsed.version and not parsed.entries:
        raise ParseError("not a feed")
    dates = FeedDates()
    entries = [_entry(entry, address, dates) for entry in parsed.entries[:MOST_ENTRIES]]
    # In Atom, entries with one ID are states of one entry (RFC 4287, 4.1.1).
    distinct = _distinct(_latest(entries) if parsed.version.startswith("atom") else entries)
    return WebFeed(_plain(parsed.feed, "title"), _link(parsed.feed.get("link"), address), distinct)


def with_characters(markup: bytes) -> bytes:
    """Replace references to invalid characters by references to the replacement character: parsers fail on them."""
    return _REFERENCE.sub(_valid_reference, markup)


def is_json_feed(data: bytes) -> bool:
    """Return whether the data is a JSON Feed."""
    return _json_fields(data) is not None


def root_element(data: bytes) -> bytes | None:
    """Return the local name of the first element, in lower case; None for text that is not markup."""
    head = data[:_MOST_HEAD]
    if b"\0" in head[:8]:
        head = head.replace(b"\0", b"")  # UTF-16 or UTF-32
    match = _ROOT.match(head)
    return match and match["name"].lower()


def _elements(data: bytes, charset: str | None) -> tuple[bytes, bytes]:
    """Return the elements of a feed in UTF-8, and the name of the first. Raises ParseError if it is not a feed."""
    text = decode(data, charset, declared_encoding(data)).text.encode()
    match = _ROOT.match(text[:_MOST_HEAD])
    if match is None or (root := match["name"].lower()) not in FEED_ROOTS:
        raise ParseError("not a feed")
    # A document type may declare entities that expand to gigabytes.
    return with_characters(text[match.start("element") :]), root


def _valid_reference(match: re.Match[bytes]) -> bytes:
    digits = (match["hex"] or match["decimal"]).lstrip(b"0")
    number = int(digits or b"0", 16 if match["hex"] else 10) if len(digits) <= _MOST_REFERENCE else _SURROGATES.start
    return match[0] if number <= sys.maxunicode and number not in _SURROGATES else b"&#xFFFD;"


def _bounded(data: bytes, root: bytes) -> bytes:
    for number, end in enumerate(_ENTRY_END.finditer(data), 1):
        if number == MOST_ENTRIES:
            data = data[: end.end()] + (b"</channel></rss>" if root == b"rss" else b"</%s>" % root)
            break
    tags = sum(part.partition(b"]]>")[2].count(b"<") for part in (b"]]>" + data).split(b"<![CDATA["))
    if tags > MOST_TAGS:
        raise ParseError(f"the feed has more than {MOST_TAGS:,} tags")
    return data


class _NamedEntry(NamedTuple):
    """An entry, and the names that may identify it, best first: its ID, link, file, title with date, and whole content."""

    entry: FeedEntry
    names: tuple[str | None, ...]


def _entry(entry: Any, feed: str, dates: FeedDates) -> _NamedEntry:
    links = entry.get("links", ())
    alternates = [link.get("href") for link in links if link.get("rel") == "alternate"]
    link = entry.get("feedburner_origlink") or entry.get("link") or next(iter(alternates), None)
    contents, is_full = _texts(entry)
    enclosures = [
        (link.get("href"), link.get("title") or link.get("type")) for link in links if link.get("rel") == "enclosure"
    ]
    authors = (_name(_words(author.get("name"))) for author in entry.get("authors", ()))
    tags = (tag.get("label") or tag.get("term") for tag in entry.get("tags", ()))
    return _named_entry(
        str(entry.get("id") or ""),
        # Without a link, feedparser takes the ID for one, also if it is only a number.
        (link, feed if alternates else "") if alternates or _link(link, "") else _source(entry, feed),
        enclosures,
        feed,
        title=_plain(entry, "title"),
        author=", ".join(filter(None, authors)),
        published=dates.moment_of(dict.get(entry, "published")) or dates.moment_of(dict.get(entry, "created")),
        updated=dates.moment_of(dict.get(entry, "updated")),
        html=_html(contents, feed),
        is_full=is_full,
        tags=_tags(tags),
    )


def _texts(entry: Any) -> tuple[list[Any], bool]:
    """Return the texts of an entry, and whether they are more than a summary.

    feedparser takes the second of two descriptions for the content, such as that of iTunes, or the caption of a picture.
    """
    contents = [content for content in entry.get("content", ()) if content["value"].strip()]
    if full := [content for content in contents if _OF not in content]:
        return full, True
    if entry.get("summary"):
        contents.append(entry.get("summary_detail") or {"type": "text/html", "value": entry["summary"]})
    texts = [content for content in contents if content.get(_OF) != _MEDIA]
    return sorted(texts or contents, key=lambda content: -len(content["value"]))[:1], len(texts) > 1


def _source(entry: Any, feed: str) -> tuple[str | None, str]:
    """Return the address of a content that is not in the feed (RFC 4287, 4.1.3.2), and its base."""
    sources = ((content["src"], content.get("base")) for content in entry.get("content", ()) if content.get("src"))
    source, base = next(sources, (None, None))
    return source, _link(base, feed) or feed


def _json_fields(data: bytes) -> Mapping[str, Any] | None:
    """Return a parsed JSON Feed; None for anything else."""
    if not data[:_MOST_HEAD].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return None
    try:
        fields = read_json(data)
    except ValueError:
        return None
    is_feed = isinstance(fields, dict) and "jsonfeed.org/version/" in str(fields.get("version"))
    return fields if is_feed else None


def _json_feed(fields: Mapping[str, Any], address: str) -> WebFeed:
    items = _list(fields.get("items"))[:MOST_ENTRIES]
    dates = FeedDates()
    entries = (_json_entry(item, address, dates) for item in items if isinstance(item, dict))
    return WebFeed(_words(fields.get("title")), _link(fields.get("home_page_url"), address), _distinct(entries))


def _json_entry(item: Mapping[str, Any], feed: str, dates: FeedDates) -> _NamedEntry:
    kinds = (("content_html", "text/html"), ("content_text", "text/plain"), ("summary", "text/plain"))
    contents = [{"type": kind, "value": item[name]} for name, kind in kinds if _words(item.get(name))][:1]
    people = _list(item.get("authors")) or [item.get("author")]
    attachments = [file for file in _list(item.get("attachments")) if isinstance(file, dict)]
    return _named_entry(
        str(entry_id).strip() if isinstance(entry_id := item.get("id"), str | int | float) else "",
        (item["url"] if _link(item.get("url"), feed) else item.get("external_url"), feed),
        [(file.get("url"), file.get("title") or file.get("mime_type")) for file in attachments],
        feed,
        title=_words(item.get("title")),
        author=", ".join(filter(None, (_words(person.get("name")) for person in people if isinstance(person, dict)))),
        published=dates.moment_of(item.get("date_published")),
        updated=dates.moment_of(item.get("date_modified")),
        html=_html(contents, feed),
        is_full=bool(_words(item.get("content_html")) or _words(item.get("content_text"))),
        tags=_tags(_list(item.get("tags"))),
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _named_entry(
    entry_id: str, link_and_base: tuple[Any, str], files: list[tuple[Any, Any]], feed: str, **fields: Any
) -> _NamedEntry:
    """Return an entry. `link_and_base`: its link and the base of that."""
    address = _link(*link_and_base)
    fragment = _UNPRINTABLE.sub("", urldefrag(link_and_base[0]).fragment) if address else ""
    link = f"{address}#{fragment}"[:_MOST_NAME] if fragment else address
    fields["author"] = _words(fields["author"])
    fields["is_full"] = fields["is_full"] or address is None
    fields["html"] += _attachment_links(files, feed)
    entry = FeedEntry(_UNPRINTABLE.sub("", entry_id)[:_MOST_TITLE], address, **fields, link=link)
    facts = (entry.id, entry.title, entry.published)
    names = (
        entry.id or None,
        link,
        next((file for name, _ in files if (file := _link(name, feed))), None),
        _digest(*facts) if entry.title or entry.published else None,
        _digest(*facts, entry.html),
    )
    return _NamedEntry(entry, names)


def _digest(*facts: object) -> str:
    return hashlib.sha256("\0".join(map(str, facts)).encode(errors="replace")).hexdigest()[:32]


def _latest(entries: Iterable[_NamedEntry]) -> Iterable[_NamedEntry]:
    """Return the latest state of each entry with an ID."""
    latest: dict[tuple[str | None, ...], _NamedEntry] = {}
    for named_entry in entries:
        _, link, *_, digest = named_entry.names
        key = (named_entry.entry.id, link, str(named_entry.entry.published)) if named_entry.entry.id else (digest,)
        updated, earlier = named_entry.entry.updated, latest.get(key)
        if earlier is None or (updated and earlier.entry.updated and updated > earlier.entry.updated):
            latest[key] = named_entry
    return latest.values()


def _distinct(entries: Iterable[_NamedEntry]) -> tuple[FeedEntry, ...]:
    """Return each entry once. Its ID is the best of its names that no other entry has."""
    entries_once = {named_entry.names[1:]: named_entry for named_entry in entries}.values()
    shared = Counter(name for named_entry in entries_once for name in set(named_entry.names) if name)
    return tuple(
        replace(entry, id=next((name for name in names if name and shared[name] == 1), entry.id))
        for entry, names in entries_once
    )


def _html(contents: list[Any], feed: str) -> str:
    """Return the HTML of the richest content."""
    for kind in ("html", "xml", "text/plain"):
        for content in contents:
            if kind in content.get("type", "text/html"):
                value = _UNPRINTABLE.sub("", content["value"])
                base = escape(_link(content.get("base"), feed) or feed)
                return f'<base href="{base}">{_paragraphs(value) if kind == "text/plain" else value}'
    return ""


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{escape(part)}</p>" for part in re.split(r"\n[^\S\n]*\n", text))


def _attachment_links(files: list[tuple[Any, Any]], feed: str) -> str:
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


def _tags(names: Iterable[Any]) -> tuple[str, ...]:
    """Return the categories of an entry, without addresses, which sort it for programs."""
    words = (word for name in names if (word := _words(name)) and "://" not in word and len(word) <= _MOST_TAG)
    return tuple(islice(dict.fromkeys(words), _MOST_ENTRY_TAGS))


def _keep_author(parser: Any, key: str = "author") -> None:
    """Keep the text of an author. feedparser searches it for an e-mail address, in quadratic time."""
    context = parser._get_context()
    authors = context.get(f"{key}s")
    if authors and not authors[-1] and context.get(key):
        authors[-1]["name"] = context[key]


def _with_kind(handle: Callable[..., None], kind: str) -> Callable[..., None]:
    """Return the handler of a description. It marks the text with this kind."""

    @wraps(handle)
    def handle_text(parser: Any, attributes: Any) -> None:
        handle(parser, attributes)
        parser.contentparams[_OF] = kind

    return handle_text


def _tolerant(handle: Callable[..., None]) -> Callable[..., None]:
    """Return a handler of an element; if it fails, feedparser takes the element for an unknown one."""

    @wraps(handle)
    def tolerant(*args: Any) -> None:
        try:
            handle(*args)
        except (LookupError, ValueError, TypeError) as error:
            raise AttributeError from error

    return tolerant


_Parser = feedparser.mixin._FeedParserMixin
_Parser._sync_author_detail = _keep_author
_Parser._start_description = _with_kind(_Parser._start_description, "text")
_Parser._start_summary = _with_kind(_Parser._start_summary, "text")
_Parser._start_media_description = _with_kind(_Parser._start_media_description, _MEDIA)
for _handler in [name for name in dir(_Parser) if name.startswith(("_start_", "_end_"))]:
    setattr(_Parser, _handler, _tolerant(getattr(_Parser, _handler)))


def _name(author: str) -> str:
    """Return an author without the e-mail address, if that is not all."""
    name = _EMAIL.sub(" ", author).strip(" ()<>")
    return name if name and "@" in author else author
