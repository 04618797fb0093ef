"""Seeds: their type, by their content, and the addresses that they list."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime

import pytest

from catchment.errors import ParseError
from connectors.web.seeds import MOST_ADDRESSES, ListedAddress, SeedKind, addresses_in, feeds_of, kind_of_seed

BASE = "https://river.example/lists/all"
SITEMAPS = "http://www.sitemaps.org/schemas/sitemap/0.9"
SITEMAP = f"""<?xml version="1.0" encoding="UTF-8"?>
<!-- made by hand --><urlset xmlns="{SITEMAPS}" xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">
<url><loc> https://river.example/?a=1&amp;b=2 </loc><lastmod>2024-05-06</lastmod>
  <image:image><image:loc>https://river.example/photo.jpg</image:loc></image:image></url>
<url><loc>/relative</loc><lastmod>2024-05-06T14:00:00+02:00</lastmod></url>
<url><loc>javascript:alert(1)</loc></url><url/>
</urlset>"""
INDEX = f'<sitemapindex xmlns="{SITEMAPS}"><sitemap><loc>https://river.example/1.xml.gz</loc></sitemap></sitemapindex>'
OPML = """<?xml version="1.0"?><opml version="2.0"><head><title>Mine</title></head><body>
<outline text="Rivers & lakes"><outline text="Levels" title="All levels" type="rss" xmlUrl="https://river.example/feed"/>
<outline><outline text="Lake" xmlurl="https://lake.example/atom.xml" htmlUrl="https://lake.example/"/></outline></outline>
<outline text="Again" xmlUrl="https://river.example/feed"/><outline text="A note"/></body></opml>"""
PAGE = """<!DOCTYPE html><html><head><base href="/b/"><title>Levels</title>
<link rel="alternate" type="application/rss+xml" title="Posts" href="feed.xml">
<link rel="Alternate" type="application/feed+json" href="/feed.json"><link rel="alternate" hreflang="de" href="/de">
<link rel="alternate" type="application/json" href="/wp-json"><link rel="stylesheet" href="a.css"></head>
<body><a href="one">1</a><a href="one#part">1</a><a href="mailto:a@river.example">m</a><a rel="nofollow" href="two">2</a>
<a name="x">x</a></body></html>"""
LINES = "\ufeff# my queue\r\nhttps://river.example/1\r\n\r\n  https://river.example/2  the second\r\nnothing\r\n"
JSON_LINES = '{"url": "https://river.example/1", "title": "One"}\n{"address": "https://river.example/2"}\n"https://river.example/3"\n{"x'


@pytest.mark.parametrize(
    ("text", "media_type", "kind"),
    [
        ('<rss version="2.0"/>', "text/html", SeedKind.FEED),
        ("<?xml version='1.0'?>\n<?xml-stylesheet href='a'?><feed/>", "", SeedKind.FEED),
        ("<rdf:RDF xmlns:rdf='x'/>", "application/xml", SeedKind.FEED),
        ("<!DOCTYPE rss [<!ENTITY a 'b>'>]><rss/>", "", SeedKind.FEED),
        ('{"version": "https:\\/\\/jsonfeed.org\\/version\\/1.1", "items": []}', "application/json", SeedKind.FEED),
        (SITEMAP, "text/xml", SeedKind.SITEMAP),
        (INDEX, "", SeedKind.SITEMAP_INDEX),
        (OPML, "", SeedKind.OPML),
        (LINES, "text/plain", SeedKind.ADDRESSES),
        (JSON_LINES, "", SeedKind.ADDRESSES),
        (LINES, "text/html", SeedKind.PAGE),
        (PAGE, "text/html", SeedKind.PAGE),
        ("See https://river.example/1\nand others.\n", "text/plain", SeedKind.PAGE),
        ("%PDF-1.7", "application/pdf", SeedKind.PAGE),
        ("", "", SeedKind.PAGE),
    ],
)
def test_seed_is_recognized_by_its_content(text: str, media_type: str, kind: SeedKind) -> None:
    assert kind_of_seed(text.encode(), media_type, "odd.name") == kind
    assert kind_of_seed(gzip.compress(text.encode()), media_type, "odd.name") == kind


def test_list_without_addresses_is_known_by_its_name() -> None:
    assert kind_of_seed(b"# later\n", None, "inbox.txt") == SeedKind.ADDRESSES
    assert addresses_in(b"# later\n", SeedKind.ADDRESSES, "").addresses == []


_BAD = ["foo", "ftp://a.example/", "http://ada:secret@a.example/", '{"nourl": 1}', "{broken", '"']


@pytest.mark.parametrize("bad", _BAD)
@pytest.mark.parametrize("before", [True, False])
def test_line_without_an_address_costs_no_address(bad: str, before: bool) -> None:
    good = "http://a.example/1"
    lines = ("# mine", bad, good, "", bad) if before else (good, "", bad)
    data = "".join(f"{line}\n" for line in lines).encode()
    assert kind_of_seed(data, None, "list") == SeedKind.ADDRESSES
    listing = addresses_in(data, SeedKind.ADDRESSES, "")
    assert [entry.address for entry in listing.addresses] == [good]
    assert listing.refused == ((2, 5) if before else (3,))
    assert ("2 lines name no address: first line 2 (" if before else "1 line names no address") in listing.refusal
    assert "secret" not in listing.refusal


@pytest.mark.parametrize(
    "line",
    [
        "- [x](http://a.example/1)",
        "* [x](http://a.example/1) a title",
        "<http://a.example/1>",
        "1. http://a.example/1",
        "http://a.example/1 a title http://b.example/",
        "> http://a.example/1",
    ],
)
def test_address_within_a_line_is_found(line: str) -> None:
    data = f"{line}\n".encode()
    assert kind_of_seed(data, None, "list") == SeedKind.ADDRESSES
    assert addresses_in(data, SeedKind.ADDRESSES, "").addresses == [ListedAddress("http://a.example/1")]


def test_address_has_the_brackets_that_it_opens() -> None:
    data = b"http://a.example/\nsee (http://a.example/wiki/Weir_(river)), please\nhttp://a.example/x_(y)"
    entries = addresses_in(data, SeedKind.ADDRESSES, "").addresses
    assert [entry.address for entry in entries][1:] == ["http://a.example/wiki/Weir_(river)", "http://a.example/x_(y)"]


def test_outlines_name_pages_and_other_lists() -> None:
    outlines = (
        '<outline type="link" url="http://a.example/page"/><outline type="link" url="http://a.example/x.opml"/>'
        '<outline type="include" url="http://a.example/more"/><outline xmlUrl="http://a.example/feed" url="http://no/"/>'
    )
    entries = addresses_in(f"<opml><body>{outlines}</body></opml>".encode(), SeedKind.OPML, "").addresses
    assert [(entry.address.rpartition("/")[2], entry.is_page) for entry in entries] == [
        ("page", True),
        ("x.opml", False),
        ("more", False),
        ("feed", False),
    ]


def test_list_in_utf16_is_recognized() -> None:
    data = LINES[1:].encode("utf-16")
    assert kind_of_seed(data, "", "") == SeedKind.ADDRESSES
    assert len(addresses_in(data, SeedKind.ADDRESSES, "").addresses) == 2


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_sitemap_lists_its_pages(pack: type[bytes]) -> None:
    day = datetime(2024, 5, 6, tzinfo=UTC)
    assert addresses_in(pack(SITEMAP.encode()), SeedKind.SITEMAP, BASE).addresses == [
        ListedAddress("https://river.example/?a=1&b=2", modified=day),
        ListedAddress("https://river.example/relative", modified=day.replace(hour=12)),
    ]


def test_sitemap_index_lists_its_sitemaps() -> None:
    assert addresses_in(INDEX.encode(), SeedKind.SITEMAP_INDEX, BASE).addresses == [
        ListedAddress("https://river.example/1.xml.gz")
    ]


def test_opml_lists_each_feed_once() -> None:
    assert addresses_in(OPML.encode(), SeedKind.OPML, BASE).addresses == [
        ListedAddress("https://river.example/feed", "All levels"),
        ListedAddress("https://lake.example/atom.xml", "Lake"),
    ]


def test_text_lists_an_address_on_each_line() -> None:
    assert [entry.address for entry in addresses_in(LINES.encode(), SeedKind.ADDRESSES, BASE).addresses] == [
        "https://river.example/1",
        "https://river.example/2",
    ]


def test_json_lines_list_addresses_and_titles() -> None:
    assert addresses_in(JSON_LINES.encode(), SeedKind.ADDRESSES, BASE).addresses == [
        ListedAddress("https://river.example/1", "One"),
        ListedAddress("https://river.example/2"),
        ListedAddress("https://river.example/3"),
    ]


def test_odd_title_of_an_address_costs_no_address() -> None:
    line = b'{"url": "https://a.example/", "title": "cut \\ud83d", "size": 1e999}\n'
    assert [entry.address for entry in addresses_in(line, SeedKind.ADDRESSES, "").addresses] == ["https://a.example/"]


@pytest.mark.parametrize("media_type", ["application/feed+json", "application/rss+xml"])
def test_answer_that_says_it_is_a_feed_and_is_none_is_refused(media_type: str) -> None:
    with pytest.raises(ParseError, match="not a feed"):
        kind_of_seed(b'{"version": "https://jsonfeed.org/version/1.1", "items": [', media_type, "/feed")


@pytest.mark.parametrize("kind", [SeedKind.SITEMAP, SeedKind.OPML])
def test_reference_to_no_character_costs_no_address(kind: SeedKind) -> None:
    text = {
        SeedKind.SITEMAP: "<urlset><url><loc>/&#xD83D;</loc></url><url><loc>/1</loc></url></urlset>",
        SeedKind.OPML: '<opml><outline title="&#x110000;" xmlUrl="/&#xD83D;"/><outline xmlUrl="/1"/></opml>',
    }[kind]
    assert [entry.address for entry in addresses_in(text.encode(), kind, "https://a.example/").addresses][1:] == [
        "https://a.example/1"
    ]


def test_page_lists_its_links() -> None:
    assert addresses_in(PAGE.encode(), SeedKind.PAGE, BASE).addresses == [ListedAddress("https://river.example/b/one")]


def test_page_names_its_feeds() -> None:
    assert feeds_of(PAGE.encode(), BASE) == [
        ListedAddress("https://river.example/b/feed.xml", "Posts"),
        ListedAddress("https://river.example/feed.json"),
    ]


@pytest.mark.parametrize(("bad_lines", "number"), [(MOST_ADDRESSES - 1, 1), (MOST_ADDRESSES, 0)])
def test_long_list_is_cut(bad_lines: int, number: int) -> None:
    assert (
        len(addresses_in(b'""\n' * bad_lines + b"https://river.example/", SeedKind.ADDRESSES, BASE).addresses) == number
    )


@pytest.mark.parametrize(
    "data",
    [gzip.compress(bytes(1 << 20)) * 51, gzip.compress(SITEMAP.encode())[:-9], b"\x1f\x8b broken"],
    ids=["bomb", "cut", "broken"],
)
def test_damaged_archive_is_refused(data: bytes) -> None:
    with pytest.raises(ParseError, match="compressed"):
        kind_of_seed(data, "", "")
    with pytest.raises(ParseError, match="compressed"):
        addresses_in(data, SeedKind.SITEMAP, BASE)


def test_list_in_several_compressed_members_is_read_whole() -> None:
    """As `pigz` and `cat` write them."""
    addresses = [f"https://river.example/{number}" for number in range(4)]
    data = b"".join(gzip.compress(f"{address}\n".encode()) for address in addresses)
    assert kind_of_seed(data, "application/gzip", "list.txt.gz") is SeedKind.ADDRESSES
    assert [listing.address for listing in addresses_in(data, SeedKind.ADDRESSES, BASE).addresses] == addresses


def test_entities_of_a_list_are_not_expanded() -> None:
    entities = "".join(f'<!ENTITY e{level} "{f"&e{level - 1};" * 10}">' for level in range(1, 12))
    bomb = f'<!DOCTYPE urlset [<!ENTITY e0 "ha"><!ENTITY f SYSTEM "file:///etc/passwd">{entities}]>'
    data = f"{bomb}<urlset><url><loc>https://river.example/&e11;&f;</loc></url></urlset>".encode()
    assert addresses_in(data, SeedKind.SITEMAP, BASE).addresses in ([], [ListedAddress("https://river.example/")])
