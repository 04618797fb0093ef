"""Recognize seeds by their content, and read the addresses in them."""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from itertools import islice
from urllib.parse import urldefrag

from lxml import etree, html

from catchment.content.foreign_json import read_json
from catchment.content.normalize.decode import charset_of, declared_encoding, decode
from catchment.errors import BadInput, ParseError, Skipped
from catchment.model import time_of
from connectors.web.address import MOST_CHARACTERS, normalized
from connectors.web.feeds import FEED_ROOTS, is_json_feed, root_element, with_characters

MOST_ADDRESSES = 200_000
_MOST_BYTES = 50 << 20
_SAMPLE = 20
"""Lines that decide whether a text is a list of addresses."""
_SAMPLE_BYTES = 1 << 16
_GZIP = b"\x1f\x8b"
_PIECE = 1 << 16
_ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)
_INSIDE = re.compile(r"https?://(?>[^\s<>\"()\[\]]+|\([^\s<>\"()]*\))+", re.IGNORECASE)
"""An address within a line, as in Markdown or `<…>`: it ends before a bracket that it does not open."""
_BEGINNING = re.compile(r"(?:[0-9]{1,4}[.)]|[^\w\[])*(?:\[[^\]\n]*\]\()?https?://\S", re.IGNORECASE)
_LINK_TYPES = ("link", "include")
"""Types of outlines that name a page or another OPML file in `url` (OPML 2.0)."""
_SITEMAP_END = re.compile(rb"</(?:[\w.-]+:)?(?:url|sitemap)\s*>")
_FEED_TYPE = re.compile(r"application/(rss|atom|rdf|feed)\+(xml|json)", re.IGNORECASE)


class SeedKind(StrEnum):
    """The kinds of seed, recognized by content."""

    FEED = "feed"
    SITEMAP = "sitemap"
    SITEMAP_INDEX = "sitemap_index"
    OPML = "opml"
    ADDRESSES = "addresses"
    PAGE = "page"


_KINDS = {
    **dict.fromkeys(FEED_ROOTS, SeedKind.FEED),
    b"urlset": SeedKind.SITEMAP,
    b"sitemapindex": SeedKind.SITEMAP_INDEX,
    b"opml": SeedKind.OPML,
}


@dataclass(frozen=True, slots=True)
class ListedAddress:
    """An address in a list, with its title and time if the list has them.

    `is_page`: it is that of a page in a list of feeds. `link`: the address with its fragment, if it has one. `line`: where it
    is in a text.
    """

    address: str
    title: str = ""
    modified: datetime | None = None
    is_page: bool = False
    link: str = field(default="", compare=False)
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class SeedAddresses:
    """The addresses that a seed names.

    Attributes:
        breaks: Why it may name fewer than it should, such as a cut; None if it is whole.
        refused: The lines of a text that name no address, and the reason for the first.
    """

    addresses: list[ListedAddress]
    breaks: str | None = None
    refused: tuple[int, ...] = ()
    problem: str = ""

    @property
    def refusal(self) -> str:
        """How many lines name no address, in words; "" if all do."""
        if not self.refused:
            return ""
        lines = f"{len(self.refused):,} {'line names' if len(self.refused) == 1 else 'lines name'}"
        return f"{lines} no address: first line {self.refused[0]:,} ({self.problem})"


def kind_of_seed(data: bytes, media_type: str | None, name: str) -> SeedKind:
    """Return the kind of a seed; only an empty file is recognized by its name. Raises ParseError if an archive is damaged.

    `media_type`: None of a file, which is a list as soon as it has an address; most lines of an answer have to be addresses.
    """
    data = _unpacked(data)
    root = root_element(data)
    kind = _KINDS.get(root or b"")
    if kind:
        return kind
    if is_json_feed(data):
        return SeedKind.FEED
    if _FEED_TYPE.match(media_type or ""):
        raise ParseError("not a feed, but its host says that it is one")
    if "html" in (media_type or ""):
        return SeedKind.PAGE
    is_file = media_type is None
    if is_file and root not in (None, b"http", b"https"):
        return SeedKind.PAGE
    lines = _content_lines(decode(data if is_file else data[:_SAMPLE_BYTES], None).text)
    sample = [_begins(text) for _, text in (lines if is_file else islice(lines, _SAMPLE))]
    is_list = any(sample) if is_file else sum(sample) * 2 > len(sample)
    return SeedKind.ADDRESSES if is_list or (not sample and name.endswith((".txt", ".jsonl"))) else SeedKind.PAGE


def addresses_in(data: bytes, kind: SeedKind, base: str, charset: str | None = None) -> SeedAddresses:
    """Return the addresses in a list or the links of a page: normalized, each once, of the first 200,000.

    `base` is the address of the seed, and `charset` the encoding that its host declares. Invalid addresses are left out.
    `read_feed` reads feeds. Raises ParseError if the seed is broken, or larger than 50 MB when unpacked.
    """
    data = _unpacked(data)
    breaks: list[str] = []
    match kind:
        case SeedKind.SITEMAP | SeedKind.SITEMAP_INDEX:
            entries = _in_sitemap(_markup(data, charset), breaks.append)
        case SeedKind.OPML:
            entries = _in_opml(_markup(data, charset), breaks.append)
        case SeedKind.ADDRESSES:
            entries, base = _lines(data, charset), ""
        case SeedKind.PAGE:
            page = _page(data, charset)
            entries, base = _links(page), _base(page, base)
        case SeedKind.FEED:
            raise ValueError(kind)
    refused: list[tuple[int, str]] = []
    addresses = _distinct(entries, base, refused)
    lines = tuple(line for line, _ in refused if line)
    return SeedAddresses(addresses, next(iter(breaks), None), lines, refused[0][1] if lines else "")


def feeds_of(data: bytes, base: str, charset: str | None = None) -> list[ListedAddress]:
    """Return the feeds that a page names in its head."""
    page = _page(data, charset)
    links = (
        ListedAddress(link.get("href", ""), link.get("title", ""))
        for link in page.iter("link")
        if "alternate" in link.get("rel", "").lower().split() and _FEED_TYPE.match(link.get("type", ""))
    )
    return _distinct(links, _base(page, base))


def canonical_of(data: bytes, base: str, charset: str | None = None) -> str | None:
    """Return the address that a page names as its own, or None."""
    page = _page(data, charset)
    links = (
        ListedAddress(link.get("href", ""))
        for link in page.iter("link")
        if "canonical" in link.get("rel", "").lower().split()
    )
    return next((listing.address for listing in _distinct(links, _base(page, base))), None)


def _distinct(
    entries: Iterator[ListedAddress], base: str, refused: list[tuple[int, str]] | None = None
) -> list[ListedAddress]:
    """Return the addresses, each once. `refused`: receives the line of each invalid address, with the reason."""
    distinct: dict[str, ListedAddress] = {}
    for listing in islice(entries, MOST_ADDRESSES):
        try:
            if listing.address or listing.line:
                address = normalized(listing.address, base)
                fragment = urldefrag(listing.address.strip()).fragment
                link = f"{address}#{fragment}"[:MOST_CHARACTERS] if fragment.isprintable() and fragment else ""
                distinct.setdefault(address, replace(listing, address=address, link=link))
        except BadInput as error:
            if refused is not None:
                refused.append((listing.line, str(error)))
    return list(distinct.values())


def _unpacked(data: bytes) -> bytes:
    if not data.startswith(_GZIP):
        return data
    # The client brings the library for HTTP, which the settings and the parsers do without.
    from connectors.web.client import decoded

    pieces = (data[at : at + _PIECE] for at in range(0, len(data), _PIECE))
    try:
        return decoded(pieces, "gzip", _MOST_BYTES)
    except (zlib.error, ValueError) as error:
        raise ParseError("the compressed list is damaged") from error
    except Skipped as error:
        raise ParseError("the compressed list is larger than 50 MB") from error


def _in_sitemap(data: bytes, report: Callable[[str], None]) -> Iterator[ListedAddress]:
    # In a truncated file, the last address may be cut, and would name another page.
    ends = len(_SITEMAP_END.findall(data))
    for number, element in enumerate(_elements(data, report, "{*}url", "{*}sitemap")):
        if number >= ends:
            continue
        # Images and videos also have a `loc`, below other elements.
        texts = {
            etree.QName(child).localname: child.text or "" for child in element.iterchildren("{*}loc", "{*}lastmod")
        }
        yield ListedAddress(texts.get("loc", ""), modified=time_of(texts.get("lastmod", "").strip()))


def _in_opml(data: bytes, report: Callable[[str], None]) -> Iterator[ListedAddress]:
    for element in _elements(data, report, "{*}outline"):
        fields = {name.lower(): value for name, value in element.attrib.items()}
        title = " ".join((fields.get("title") or fields.get("text") or "").split())
        kind = fields.get("type", "").lower()
        address = fields.get("xmlurl") or (fields.get("url") if kind in _LINK_TYPES else None) or ""
        is_page = kind == "link" and not fields.get("xmlurl") and not address.lower().endswith(".opml")
        yield ListedAddress(address, title, is_page=is_page)


def _elements(data: bytes, report: Callable[[str], None], *tags: str) -> Iterator[etree._Element]:
    parser = etree.iterparse(
        io.BytesIO(data),
        tag=tags,
        encoding="utf-8",
        recover=True,
        resolve_entities=False,
        load_dtd=False,
        no_network=True,
    )
    try:
        for _, element in parser:
            yield element
            element.clear(keep_tail=False)
    except etree.XMLSyntaxError as error:
        raise ParseError("the list is not well-formed XML") from error
    if fatal := parser.error_log.filter_from_fatals():
        report(f"the list is not well-formed XML at line {fatal[0].line}")


def _markup(data: bytes, charset: str | None) -> bytes:
    """Return XML in UTF-8."""
    return with_characters(decode(data, charset, declared_encoding(data)).text.encode())


def _lines(data: bytes, charset: str | None = None) -> Iterator[ListedAddress]:
    """Read a list: on each line an address, or JSON: an address, or an object with `url` or `address`.

    An address may be within a line. A line without one is listed, too.
    """
    for number, text in _content_lines(decode(data, charset).text):
        if text.startswith(("{", '"')):
            yield replace(_json_line(text), line=number)
        else:
            word = text.split()[0]
            inside = None if _ADDRESS.match(word) else _INSIDE.search(text)
            yield ListedAddress(inside[0] if inside else word, line=number)


def _content_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are neither empty nor comments, with their numbers."""
    for number, line in enumerate(text.splitlines(), 1):
        if (words := line.strip()) and not words.startswith("#"):
            yield number, words


def _begins(text: str) -> bool:
    """Return whether a line begins with an address, apart from marks as in Markdown."""
    return bool(_BEGINNING.match(_json_line(text).address if text.startswith(("{", '"')) else text))


def _json_line(line: str) -> ListedAddress:
    try:
        value = read_json(line)
    except ValueError:
        value = None
    fields = value if isinstance(value, dict) else {"url": value}
    address, title = fields.get("url") or fields.get("address"), fields.get("title")
    return ListedAddress(address if isinstance(address, str) else "", title if isinstance(title, str) else "")


def _links(page: etree._Element) -> Iterator[ListedAddress]:
    for link in page.iter("a"):
        if "nofollow" not in link.get("rel", "").lower():
            yield ListedAddress(link.get("href", ""))


def _page(data: bytes, charset: str | None) -> etree._Element:
    text = decode(data, charset, charset_of(data)).text
    try:
        return html.document_fromstring(text.encode(), html.HTMLParser(encoding="utf-8"))
    except etree.ParserError:  # It has no content.
        return html.Element("html")


def _base(page: etree._Element, address: str) -> str:
    for base in page.iter("base"):
        with suppress(BadInput):
            return normalized(base.get("href", ""), address)
    return address
