"""Deep, large, endless or cut feeds, lists and rules of strangers harm only themselves and cause no deletion."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from catchment.errors import SourceUnavailable
from catchment.model import Checkpoint
from catchment.parser_pool import ParserPool
from catchment.settings import Limits
from connectors.contract.memory_ledger import MemoryReport
from connectors.web.connector import WebConnector
from tests.connectors.web.conftest import Clock, Reader, entry, page, put_list, rss
from tests.connectors.web.server import Page, SmallWeb

_DEEP = 100_000
_LIMITS = Limits(stall_seconds=2, memory_mb=512)
_FEED = "application/rss+xml"
_SITEMAP = '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{}</urlset>'
_INDEX = '<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{}</sitemapindex>'


@pytest.fixture(scope="module")
def pool() -> Iterator[ParserPool]:
    with ParserPool(2, preload=["connectors.web.seed_reading", "connectors.web.feeds", "feedparser"]) as parser_pool:
        yield parser_pool


def sitemap(*addresses: str) -> str:
    return _SITEMAP.format("".join(f"<url><loc>{address}</loc></url>" for address in addresses))


def opml(*addresses: str) -> str:
    outlines = "".join(f'<outline xmlUrl="{address}"/>' for address in addresses)
    return f"<opml><body>{outlines}</body></opml>"


def parsing(source: WebConnector, pool: ParserPool) -> WebConnector:
    source.parse = partial(pool.call, _LIMITS)
    return source


HOSTILE = {
    "deep version": '{"version": ' + "[" * _DEEP + "]" * _DEEP + "}",
    "deep id": '{"version": "https://jsonfeed.org/version/1.1", "items": [{"id": ' + "[" * 900 + "]" * 900 + "}]}",
    "many attributes": "<rss " + " ".join(f'a{n}="1"' for n in range(60_000)) + "><channel></channel></rss>",
    "deep elements": "<rss><channel><item>" + "<a>" * _DEEP + "</item></channel></rss>",
    "cut gzip": "\x1f\x8b\x08\0",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_feed_harms_no_other(small_web: SmallWeb, reader: Reader, pool: ParserPool, kind: str) -> None:
    blog, other = small_web.hosts
    bad = blog.put("/bad", HOSTILE[kind], _FEED)
    good = other.put("/good", rss(entry(1, other.address("/1"), full="<p>Good</p>")), _FEED)
    source = parsing(reader.connector(bad, good), pool)
    for _ in range(2):
        report = reader.sync(source)
        assert other.address("/1") in reader.ledger.documents()
        assert is_quiet(report)


def is_quiet(report: MemoryReport) -> bool:
    """Return whether no further listing is due at once."""
    last = report.changes[-1]
    assert isinstance(last, Checkpoint)
    return last.again is None or last.again > Clock.now


@pytest.mark.parametrize("kind", ["entry", "list", "sitemap", "opml", "index"])
def test_page_that_is_a_feed_is_asked_once(
    small_web: SmallWeb, reader: Reader, pool: ParserPool, clock: Clock, kind: str
) -> None:
    """A feed named as a page makes the next listing due at once, but no later one."""
    host = small_web.hosts[0]
    inner = host.put("/inner", rss(entry(1, host.address("/1"), full="<p>Inner</p>")), _FEED)
    outer = {
        "entry": rss(entry(2, inner, summary="About the feed")),
        "list": inner,
        "sitemap": sitemap(inner),
        "opml": opml(inner),
        "index": _INDEX.format(f"<sitemap><loc>{inner}</loc></sitemap>"),
    }[kind]
    media_type = "text/plain" if kind == "list" else _FEED if kind == "entry" else "text/xml"
    source = parsing(reader.connector(host.put("/outer", outer, media_type)), pool)
    reports = [reader.sync(source) for _ in range(4)]
    assert all(is_quiet(report) for report in reports[1:])
    assert max(Counter(host.paths).values()) <= 5
    text = b"About the feed" if kind == "entry" else b"Inner"
    assert any(text in document for document in reader.ledger.documents().values())
    assert clock.now == Clock.now


def test_lists_in_each_other_are_read_ten_deep(small_web: SmallWeb, reader: Reader, pool: ParserPool) -> None:
    host = small_web.hosts[0]
    for number in range(300):
        host.put(
            f"/{number}", _INDEX.format(f"<sitemap><loc>{host.address(f'/{number + 1}')}</loc></sitemap>"), "text/xml"
        )
    source = parsing(reader.connector(host.address("/0")), pool)
    report = reader.sync(source)
    assert len(host.requests) == 12, "robots.txt, the first one, and those that it names"
    assert list(report.failed) == [host.address("/11")]
    assert is_quiet(report)


@pytest.mark.parametrize("where", ["/rules", "/rules/robots.txt", "/robots.txt?v=2", "/robots.txt"])
def test_rules_that_lead_elsewhere_are_followed(
    small_web: SmallWeb, reader: Reader, pool: ParserPool, where: str
) -> None:
    host = small_web.hosts[0]
    host.pages["/robots.txt"] = Page.moved(host.address(where))
    if where != "/robots.txt":
        host.put(where, "User-agent: *\nDisallow: /secret\n", "text/plain")
    addresses = [host.put("/open", page("open")), host.put("/secret", page("secret"))]
    source = parsing(reader.connector(put_list(host, *addresses)), pool)
    is_loop = where == "/robots.txt"
    with pytest.raises(SourceUnavailable, match=r"robots.txt cannot be read") if is_loop else nullcontext():
        reader.sync(source)
    assert list(reader.ledger.documents()) == ([] if where == "/robots.txt" else addresses[:1])
    assert len(host.requests) <= 18, "six for each try"


@pytest.mark.parametrize("cut", [0.3, 0.6, 0.95])
@pytest.mark.parametrize("kind", ["sitemap", "opml", "file", "index", "gzip"])
def test_list_that_breaks_off_deletes_nothing_and_says_so(
    small_web: SmallWeb, reader: Reader, pool: ParserPool, tmp_path: Path, kind: str, cut: float
) -> None:
    host = small_web.hosts[0]
    pages = [host.put(f"/page/{n}", page(f"text {n}")) for n in range(9)]
    feeds = [host.put(f"/feed/{n}", rss(entry(n, host.address(f"/{n}"), full=f"<p>{n}</p>")), _FEED) for n in range(9)]
    maps = [host.put(f"/map/{n}", sitemap(pages[n]), "text/xml") for n in range(9)]
    complete_data = {
        "sitemap": sitemap(*pages),
        "gzip": sitemap(*pages),
        "opml": opml(*feeds),
        "file": opml(*feeds),
        "index": _INDEX.format("".join(f"<sitemap><loc>{address}</loc></sitemap>" for address in maps)),
    }[kind].encode()
    complete_data = gzip.compress(complete_data, mtime=0) if kind == "gzip" else complete_data
    file = tmp_path / "feeds.opml"

    def put(data: bytes) -> None:
        if kind == "file":
            file.write_bytes(data)
        else:
            host.pages["/list"] = Page(data, "text/xml")

    put(complete_data)
    name = str(file) if kind == "file" else host.address("/list")
    source = parsing(reader.connector(name, hosts=[host.name]), pool)
    reader.sync(source)
    assert len(reader.ledger.documents()) == 9
    put(complete_data[: int(len(complete_data) * cut)])
    report = reader.sync(source)
    assert report.deleted == set()
    assert list(report.failed) == [file.name if kind == "file" else name]
    put(complete_data)
    report = reader.sync(source)
    assert report.failed == {} and len(reader.ledger.documents()) == 9
