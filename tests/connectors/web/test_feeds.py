"""Feeds of all formats, as sites write them. The cases cover the behaviours that feedparser and gofeed test."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson
import pytest

from catchment.errors import ParseError
from connectors.web.feeds import MOST_ENTRIES, MOST_TAGS, FeedEntry, WebFeed, read_feed

ADDRESS = "https://river.example/feeds/levels.xml"
BASE = f'<base href="{ADDRESS}">'
ATOM = "http://www.w3.org/2005/Atom"
RSS1 = "http://purl.org/rss/1.0/"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
DC = "http://purl.org/dc/elements/1.1/"
CONTENT = "http://purl.org/rss/1.0/modules/content/"
PAGE = "https://river.example/1"
NOON = datetime(2024, 5, 6, 12, tzinfo=UTC)


def rss(item: str = "", channel: str = "", version: str = "2.0", spaces: str = "") -> str:
    spaces += f' xmlns:dc="{DC}" xmlns:content="{CONTENT}" xmlns:atom="{ATOM}"'
    return (
        f'<rss version="{version}"{spaces}><channel><title>Levels</title>{channel}<item>{item}</item></channel></rss>'
    )


def atom(entry: str = "", feed: str = "", more: str = "") -> str:
    return f'<feed xmlns="{ATOM}"{more}><title>Levels</title>{feed}<entry>{entry}</entry></feed>'


def atom03(entry: str) -> str:
    return f'<feed version="0.3" xmlns="http://purl.org/atom/ns#"><title>Levels</title><entry>{entry}</entry></feed>'


def rdf(item: str, space: str = RSS1) -> str:
    return (
        f'<rdf:RDF xmlns:rdf="{RDF}" xmlns="{space}" xmlns:dc="{DC}" xmlns:content="{CONTENT}">'
        f"<channel><title>Levels</title><link>https://river.example/</link></channel>{item}</rdf:RDF>"
    )


def json_feed(item: Any, **feed: Any) -> str:
    fields = {"version": "https://jsonfeed.org/version/1.1", "title": "Levels", "items": [item], **feed}
    return orjson.dumps(fields).decode()


def read(text: str | bytes, charset: str | None = None) -> WebFeed:
    return read_feed(text if isinstance(text, bytes) else text.encode(), ADDRESS, charset)


def first(text: str | bytes, charset: str | None = None) -> FeedEntry:
    return read(text, charset).entries[0]


class Case(NamedTuple):
    """A feed and the expected attributes of its first entry; `html` is without the base, the feed's address."""

    behaviour: str
    feed: str | bytes
    expected: dict[str, Any]


CASES = [
    # Formats
    Case(
        "RSS 0.90",
        rdf(
            "<item><title>Weir</title><link>https://river.example/1</link></item>",
            "http://my.netscape.com/rdf/simple/0.9/",
        ),
        {"title": "Weir", "address": PAGE},
    ),
    Case(
        "RSS 0.91 with its document type",
        '<!DOCTYPE rss PUBLIC "-//Netscape Communications//DTD RSS 0.91//EN" '
        '"http://my.netscape.com/publish/formats/rss-0.91.dtd">' + rss("<title>Weir</title>", version="0.91"),
        {"title": "Weir"},
    ),
    Case("RSS 0.92", rss("<title>Weir</title>", version="0.92"), {"title": "Weir"}),
    Case(
        "RSS 1.0",
        rdf(
            '<item rdf:about="https://river.example/1"><title>Weir</title><dc:creator>Ada</dc:creator>'
            "<dc:date>2024-05-06T14:00:00+02:00</dc:date></item>"
        ),
        {"title": "Weir", "id": PAGE, "author": "Ada", "updated": NOON},
    ),
    Case(
        "RSS 1.0 with content",
        rdf("<item><description>Short</description><content:encoded>&lt;p&gt;Long&lt;/p&gt;</content:encoded></item>"),
        {"html": "<p>Long</p>", "is_full": True},
    ),
    Case("RSS without a version", "<rss><channel><item><title>Weir</title></item></channel></rss>", {"title": "Weir"}),
    Case(
        "RSS in capitals",
        "<RSS VERSION='2.0'><CHANNEL><ITEM><TITLE>Weir</TITLE></ITEM></CHANNEL></RSS>",
        {"title": "Weir"},
    ),
    Case(
        "Atom 0.3",
        atom03(
            "<title>Weir</title><id>tag:1</id><issued>2024-05-06T12:00:00Z</issued>"
            "<modified>2024-05-06T12:00:00Z</modified>"
        ),
        {"title": "Weir", "id": "tag:1", "published": NOON, "updated": NOON},
    ),
    Case(
        "Atom 1.0",
        atom(
            "<title>Weir</title><id>tag:1</id><published>2024-05-06T12:00:00Z</published>"
            "<updated>2024-05-06T12:00:00Z</updated>"
        ),
        {"title": "Weir", "id": "tag:1", "published": NOON, "updated": NOON},
    ),
    Case(
        "Atom with a prefix",
        f'<a:feed xmlns:a="{ATOM}"><a:entry><a:title>Weir</a:title></a:entry></a:feed>',
        {"title": "Weir"},
    ),
    Case(
        "CDF",
        '<CHANNEL HREF="https://river.example/"><ITEM HREF="https://river.example/1"><TITLE>Weir</TITLE>'
        "<ABSTRACT>Rising</ABSTRACT></ITEM></CHANNEL>",
        {"title": "Weir", "address": PAGE, "html": "<p>Rising</p>"},
    ),
    Case(
        "JSON Feed 1.0",
        json_feed({"id": "1", "title": "Weir", "author": {"name": "Ada"}}, version="https://jsonfeed.org/version/1"),
        {"title": "Weir", "id": "1", "author": "Ada"},
    ),
    Case(
        "JSON Feed 1.1",
        json_feed(
            {
                "id": "1",
                "url": "/1",
                "content_html": "<p>Rising</p>",
                "authors": [{"name": "Ada"}, {"name": "Bo"}],
                "date_published": "2024-05-06T14:00:00+02:00",
                "date_modified": "2024-05-06T12:00:00Z",
            }
        ),
        {
            "address": PAGE,
            "author": "Ada, Bo",
            "published": NOON,
            "updated": NOON,
            "html": "<p>Rising</p>",
            "is_full": True,
        },
    ),
    # Titles
    Case("title as text with brackets", rss("<title>1 &lt; 2 &gt; 0</title>"), {"title": "1 < 2 > 0"}),
    Case("title with escaped markup", rss("<title>&lt;b&gt;Weir&lt;/b&gt; closed</title>"), {"title": "Weir closed"}),
    Case("title in CDATA", rss("<title><![CDATA[<i>Weir</i> &amp; gauge]]></title>"), {"title": "Weir & gauge"}),
    Case("title escaped twice", rss("<title>Weir &amp;amp; gauge</title>"), {"title": "Weir & gauge"}),
    Case("title over several lines", rss("<title>\n  Weir\n  closed </title>"), {"title": "Weir closed"}),
    Case(
        "Atom title as text keeps what looks like markup",
        atom('<title type="text">&lt;b&gt; closes</title>'),
        {"title": "<b> closes"},
    ),
    Case(
        "Atom title as HTML",
        atom('<title type="html">&lt;b&gt;Weir&lt;/b&gt; &amp;amp; co</title>'),
        {"title": "Weir & co"},
    ),
    Case(
        "Atom title as XHTML",
        atom('<title type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">The <b>weir</b></div></title>'),
        {"title": "The weir"},
    ),
    Case(
        "Atom 0.3 title in Base64",
        atom03(f'<title type="text/plain" mode="base64">{base64.b64encode(b"Weir").decode()}</title>'),
        {"title": "Weir"},
    ),
    Case(
        "title of a picture is not the entry's",
        rss(
            '<title>Weir</title><media:content url="a.png"><media:title>Photo</media:title></media:content>',
            spaces=' xmlns:media="http://search.yahoo.com/mrss/"',
        ),
        {"title": "Weir"},
    ),
    Case("no title", rss("<description>Rising</description>"), {"title": ""}),
    Case("entities of HTML", rss("<title>Caf&eacute; &ndash; weir</title>"), {"title": "Café – weir"}),
    Case("numbers of characters", rss("<title>Caf&#233; &#x2013; weir</title>"), {"title": "Café – weir"}),
    Case("an unknown entity stays", rss("<title>a &doesnotexist; b</title>"), {"title": "a &doesnotexist; b"}),
    Case(
        "a declared entity is not expanded",
        '<!DOCTYPE rss [\n<!ENTITY weir "Upper weir">\n]>' + rss("<title>&weir;</title>"),
        {"title": "&weir;"},
    ),
    Case("quotes of Windows as control characters", rss("<title>&#147;Weir&#148;</title>"), {"title": "“Weir”"}),
    # Links and IDs
    Case("relative link", rss("<link>/1</link>"), {"address": PAGE}),
    Case("link with spaces around it", rss("<link>\n https://river.example/1 \n</link>"), {"address": PAGE}),
    Case("link without a scheme", rss("<link>//river.example/1</link>"), {"address": PAGE}),
    Case(
        "link with bare ampersands",
        rss("<link>https://river.example/?a=1&b=2</link>"),
        {"address": "https://river.example/?a=1&b=2"},
    ),
    Case(
        "link with tracking parameters", rss("<link>https://river.example/1?utm_source=rss</link>"), {"address": PAGE}
    ),
    Case(
        "unsafe link",
        rss("<link>javascript:alert(1)</link><guid isPermaLink='false'>7</guid>"),
        {"address": None, "id": "7"},
    ),
    Case("guid as link", rss("<guid>https://river.example/1</guid>"), {"address": PAGE}),
    Case(
        "guid that says it is no link",
        rss('<guid isPermaLink="false">https://river.example/1</guid>'),
        {"address": None},
    ),
    Case("number as guid", rss("<guid>17</guid>"), {"address": None, "id": "17"}),
    Case(
        "guid beside a link", rss("<guid>17</guid><link>https://river.example/1</link>"), {"address": PAGE, "id": "17"}
    ),
    Case("no guid", rss("<link>https://river.example/1</link>"), {"id": PAGE}),
    Case(
        "address before FeedBurner",
        rss(
            "<link>https://burner.example/x</link><fb:origLink>https://river.example/1</fb:origLink>",
            spaces=' xmlns:fb="http://rssnamespace.org/feedburner/ext/1.0"',
        ),
        {"address": PAGE},
    ),
    Case("Atom link without rel", atom('<link href="/1"/>'), {"address": PAGE}),
    Case("Atom link with a space before it", atom('<link href=" /1"/>'), {"address": PAGE}),
    Case(
        "Atom link among others",
        atom(
            '<link rel="self" href="/self"/><link rel="replies" href="/r"/><link rel="alternate" href="/1"/>'
            '<link rel="edit" href="/e"/>'
        ),
        {"address": PAGE},
    ),
    Case(
        "Atom link of another type",
        atom('<link rel="alternate" type="application/pdf" href="/1.pdf"/>'),
        {"address": "https://river.example/1.pdf"},
    ),
    Case(
        "Atom entry with no link but its own", atom('<id>tag:1</id><link rel="self" href="/self"/>'), {"address": None}
    ),
    Case("Atom link inside RSS", rss('<atom:link rel="alternate" href="https://river.example/1"/>'), {"address": PAGE}),
    Case(
        "xml:base of the feed",
        atom('<link href="1"/>', more=' xml:base="https://other.example/a/"'),
        {"address": "https://other.example/a/1"},
    ),
    Case(
        "xml:base of the entry",
        atom('<link xml:base="b/" href="1"/>', more=' xml:base="https://other.example/a/"'),
        {"address": "https://other.example/a/b/1"},
    ),
    Case(
        "relative xml:base", atom('<link href="1"/>', more=' xml:base="/a/"'), {"address": "https://river.example/a/1"}
    ),
    Case("unsafe xml:base", atom('<link href="/1"/>', more=' xml:base="javascript:alert(1)"'), {"address": PAGE}),
    Case(
        "link of the source is not the entry's",
        atom(
            '<source><link href="/source"/><title>S</title><id>s</id></source>'
            '<id>1</id><title>Weir</title><link href="/1"/>'
        ),
        {"address": PAGE, "title": "Weir", "id": "1"},
    ),
    Case(
        "ID of an inner element is not the entry's",
        atom('<id>1</id><x:box xmlns:x="urn:x"><x:id>2</x:id></x:box>'),
        {"id": "1"},
    ),
    Case("JSON number as ID", json_feed({"id": 17}), {"id": "17", "address": None}),
    Case(
        "JSON external link",
        json_feed({"id": "1", "external_url": "https://other.example/1"}),
        {"address": "https://other.example/1"},
    ),
    # Content
    Case(
        "description is a summary",
        rss("<link>/1</link><description>Rising</description>"),
        {"html": "Rising", "is_full": False},
    ),
    Case("description is all there is", rss("<description>Rising</description>"), {"html": "Rising", "is_full": True}),
    Case(
        "description with escaped markup",
        rss("<link>/1</link><description>&lt;p&gt;a &amp;amp; b&lt;/p&gt;</description>"),
        {"html": "<p>a &amp; b</p>", "is_full": False},
    ),
    Case(
        "description in CDATA",
        rss("<description><![CDATA[<p>a &amp; b</p>]]></description>"),
        {"html": "<p>a &amp; b</p>"},
    ),
    Case("description with bare markup", rss("<description><p>Rising</p></description>"), {"html": "<p>Rising</p>"}),
    Case(
        "content beside a description",
        rss("<link>/1</link><description>Short</description><content:encoded>Long</content:encoded>"),
        {"html": "Long", "is_full": True},
    ),
    Case(
        "content before a description",
        rss("<link>/1</link><content:encoded>Long</content:encoded><description>Short</description>"),
        {"html": "Long", "is_full": True},
    ),
    Case(
        "empty content beside a description",
        rss("<link>/1</link><description>Short</description><content:encoded> </content:encoded>"),
        {"html": "Short", "is_full": False},
    ),
    Case(
        "body in XHTML",
        rss('<body xmlns="http://www.w3.org/1999/xhtml"><p>Long</p></body>'),
        {"html": "<p>Long</p>", "is_full": True},
    ),
    Case(
        "Atom content as HTML",
        atom('<link href="/1"/><content type="html">&lt;p&gt;Long&lt;/p&gt;</content>'),
        {"html": "<p>Long</p>", "is_full": True},
    ),
    Case(
        "Atom content as XHTML",
        atom('<content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>Long</p></div></content>'),
        {"html": "<p>Long</p>"},
    ),
    Case(
        "Atom content as text",
        atom('<content type="text">1 &lt; 2\n\nThen</content>'),
        {"html": "<p>1 &lt; 2</p><p>Then</p>"},
    ),
    Case("Atom content without a type", atom("<content>1 &lt; 2</content>"), {"html": "<p>1 &lt; 2</p>"}),
    Case(
        "Atom content in Base64",
        atom(f'<content type="application/octet-stream">{base64.b64encode(b"Long").decode()}</content>'),
        {"html": ""},
    ),
    Case(
        "Atom content elsewhere",
        atom('<link href="/1"/><summary>Short</summary><content type="text/html" src="https://river.example/1"/>'),
        {"html": "<p>Short</p>", "is_full": False},
    ),
    Case(
        "Atom summary as text",
        atom('<link href="/1"/><summary>a &lt;b&gt; c</summary>'),
        {"html": "<p>a &lt;b&gt; c</p>", "is_full": False},
    ),
    Case(
        "Atom 0.3 content in Base64",
        atom03(f'<content type="text/html" mode="base64">{base64.b64encode(b"<p>Long</p>").decode()}</content>'),
        {"html": "<p>Long</p>"},
    ),
    Case(
        "Atom 0.3 escaped content",
        atom03('<content type="text/html" mode="escaped">&lt;p&gt;Long&lt;/p&gt;</content>'),
        {"html": "<p>Long</p>"},
    ),
    Case(
        "drawing in XHTML",
        atom(
            '<content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><svg xmlns="http://www.w3.org/2000/svg">'
            "<title>Gauge</title></svg>Long</div></content><title>Weir</title>"
        ),
        {"title": "Weir"},
    ),
    Case(
        "JSON text",
        json_feed({"id": "1", "url": "/1", "content_text": "1 < 2\n\nThen"}),
        {"html": "<p>1 &lt; 2</p><p>Then</p>", "is_full": True},
    ),
    Case(
        "JSON summary",
        json_feed({"id": "1", "url": "/1", "summary": "Short"}),
        {"html": "<p>Short</p>", "is_full": False},
    ),
    Case("NUL in a text", rss("<description>a\0b</description>"), {"html": "a\ufffdb"}),
    # Enclosures
    Case(
        "podcast",
        rss('<description>Talk</description><enclosure url="/a.mp3" type="audio/mpeg" length="1"/>'),
        {"html": 'Talk<p><a href="https://river.example/a.mp3">audio/mpeg</a></p>'},
    ),
    Case(
        "several enclosures",
        rss('<enclosure url="/a.mp3" type="audio/mpeg"/><enclosure url="/b.pdf" type="application/pdf"/>'),
        {
            "html": '<p><a href="https://river.example/a.mp3">audio/mpeg</a></p><p><a href="https://river.example/b.pdf">application/pdf</a></p>'
        },
    ),
    Case(
        "enclosure with a text",
        rss('<title>Weir</title><enclosure url="/a.mp3">x</enclosure>'),
        {"title": "Weir", "html": '<p><a href="https://river.example/a.mp3">https://river.example/a.mp3</a></p>'},
    ),
    Case(
        "Atom enclosure",
        atom('<link rel="enclosure" type="audio/ogg" title="The talk" href="/a.ogg"/>'),
        {"address": None, "html": '<p><a href="https://river.example/a.ogg">The talk</a></p>'},
    ),
    Case(
        "JSON attachment",
        json_feed({"id": "1", "attachments": [{"url": "/a.mp3", "mime_type": "audio/mpeg"}, 7]}),
        {"html": '<p><a href="https://river.example/a.mp3">audio/mpeg</a></p>'},
    ),
    # Authors
    Case("author as e-mail and name", rss("<author>ada@river.example (Ada)</author>"), {"author": "Ada"}),
    Case("author as name and e-mail", rss("<author>Ada &lt;ada@river.example&gt;</author>"), {"author": "Ada"}),
    Case("author as e-mail", rss("<author>ada@river.example</author>"), {"author": "ada@river.example"}),
    Case("author as name", rss("<author>Ada</author>"), {"author": "Ada"}),
    Case("creator", rss("<dc:creator>Ada</dc:creator>"), {"author": "Ada"}),
    Case("several creators", rss("<dc:creator>Ada</dc:creator><dc:creator>Bo</dc:creator>"), {"author": "Ada, Bo"}),
    Case(
        "Atom authors",
        atom("<author><name>Ada</name><email>a@river.example</email></author><author><name>Bo</name></author>"),
        {"author": "Ada, Bo"},
    ),
    Case("Atom author inside RSS", rss("<atom:author><atom:name>Ada</atom:name></atom:author>"), {"author": "Ada"}),
    # Times
    *(
        Case(f"time {text}", rss(f"<pubDate>{text}</pubDate>"), {"published": expected})
        for text, expected in [
            ("Mon, 06 May 2024 12:00:00 GMT", NOON),
            ("Mon, 06 May 2024 14:00:00 +0200", NOON),
            ("Mon, 06 May 2024 08:00:00 EDT", NOON),
            ("Mon, 6 May 24 12:00:00 Z", NOON),
            ("6 May 2024 12:00 UT", NOON),
            ("Mon, 06 May, 2024 12:00:00 UTC", NOON),
            ("Mon, 06 May 2024 12:00:00", NOON),
            ("Mon May  6 12:00:00 2024", NOON),
            ("2024-05-06T12:00:00Z", NOON),
            ("2024-05-06T14:00:00.123+02:00", NOON),
            ("2024-05-06T12:00:00", NOON),
            ("2024-05-06 12:00:00", NOON),
            ("2024-05-06", NOON.replace(hour=0)),
            ("Mon, 06 May 2024", NOON.replace(hour=0)),
            ("2024-02-30", datetime(2024, 3, 1, tzinfo=UTC)),
            ("Mon, 06 May 9999 12:00:00 GMT", NOON.replace(year=9999)),
            ("yesterday", None),
            ("", None),
        ]
    ),
    Case(
        "a leap second",
        atom("<published>2016-12-31T23:59:60Z</published>"),
        {"published": datetime(2017, 1, 1, tzinfo=UTC)},
    ),
    Case(
        "created",
        rss('<d:created xmlns:d="http://purl.org/dc/terms/">2024-05-06T12:00:00Z</d:created>'),
        {"published": NOON},
    ),
    Case(
        "JSON time without a zone", json_feed({"id": "1", "date_published": "2024-05-06T12:00:00"}), {"published": NOON}
    ),
    Case(
        "JSON time that is none",
        json_feed({"id": "1", "date_published": 7, "date_modified": "soon"}),
        {"published": None, "updated": None},
    ),
    # Damage
    Case("text before the feed", "\n \n" + rss("<title>Weir</title>"), {"title": "Weir"}),
    Case(
        "an element that is not closed",
        rss("<title>Weir</title><link>/1<description>x</description>"),
        {"title": "Weir"},
    ),
    Case(
        "CDATA that is not closed",
        "<rss version='2.0'><channel><item><title>Weir</title><description><![CDATA[Rising",
        {"title": "Weir"},
    ),
    Case("a feed that was cut", rss("<title>Weir</title>")[:-20], {"title": "Weir"}),
    Case("an undeclared prefix", rss("<title>Weir</title><nope:x>1</nope:x>"), {"title": "Weir"}),
    Case("an attribute without quotes", rss("<title>Weir</title><enclosure url=/a.mp3>"), {"title": "Weir"}),
    Case("bare ampersand", rss("<title>Weir & gauge</title>"), {"title": "Weir & gauge"}),
    Case(
        "content without its namespace",
        "<rss version='2.0'><channel><item><content:encoded>Long</content:encoded></item></channel></rss>",
        {"html": "Long", "is_full": True},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.behaviour)
def test_entry_is_read_as_its_site_meant_it(case: Case) -> None:
    entry = first(case.feed)
    values = {name: getattr(entry, name) for name in case.expected}
    if "html" in values:
        values["html"] = values["html"].removeprefix(BASE)
    assert values == case.expected


@pytest.mark.parametrize(
    ("encoded", "charset"),
    [
        pytest.param(rss("<title>Café</title>").encode(), None, id="UTF-8 by default"),
        pytest.param(b"\xef\xbb\xbf" + rss("<title>Café</title>").encode(), "iso-8859-1", id="BOM before the answer"),
        pytest.param(rss("<title>Café</title>").encode("utf-16"), "utf-8", id="UTF-16 with BOM"),
        pytest.param(rss("<title>Café</title>").encode("cp1252"), "windows-1252", id="charset of the answer"),
        pytest.param(
            b'<?xml version="1.0" encoding="iso-8859-1"?>' + rss("<title>Café</title>").encode("latin-1"),
            None,
            id="declared",
        ),
        pytest.param(
            b'<?xml version="1.0" encoding="utf-8"?>' + rss("<title>Café</title>").encode("latin-1"),
            None,
            id="declared wrongly",
        ),
        pytest.param(rss("<title>Café</title>").encode(), "nonsense", id="unknown charset"),
        pytest.param(rss("<title>Café</title>").encode(), "us-ascii", id="wrong charset"),
        *(
            pytest.param(
                f'<?xml version="1.0" encoding="{name}"?>{rss("<title>Café</title>")}{" " * pad}'.encode(),
                header,
                id=f"{name} {header} {pad}",
            )
            for name in ("utf-16", "utf-16-le", "cp037", "punycode", "undefined")
            for header in (None, name)
            for pad in (0, 1)
        ),
    ],
)
def test_character_set_is_recognized(encoded: bytes, charset: str | None) -> None:
    assert first(encoded, charset).title == "Café"


@pytest.mark.parametrize(
    "data",
    [b"", b"Rising", b"<html><body><rss></body></html>", b"{}", b'{"version": 1}', b"[1]", b"\0\0", b"<", b"<opml/>"],
)
def test_other_data_is_no_feed(data: bytes) -> None:
    with pytest.raises(ParseError):
        read(data)


@pytest.mark.parametrize(
    "text", [rss(channel="<link>/</link>"), atom(feed='<link href="/"/>'), json_feed({}, home_page_url="/")]
)
def test_feed_has_a_title_and_a_site(text: str) -> None:
    feed = read(text)
    assert (feed.title, feed.home) == ("Levels", "https://river.example/")


@pytest.mark.parametrize("text", [rss().replace("<item></item>", ""), json_feed({}, items=[]), json_feed({}, items=7)])
def test_feed_may_be_empty(text: str) -> None:
    assert read(text).entries == ()


@pytest.mark.parametrize(
    "odd",
    [
        r'"id": "odd", "title": "cut \ud83d"',
        r'"id": "odd", "content_text": "\udfc6 \ud83d\udfc6"',
        '"id": 1e999',
        f'"id": {"9" * 5_000}',
        '"id": "odd", "date_published": 1e999',
        '"id": NaN',
        '"id": "odd", "title": "a\x0bb\tc"',
        '"id": "odd", "title": "\udcff"',
    ],
    ids=lambda odd: ascii(odd[:40]),
)
def test_odd_value_of_a_json_feed_costs_no_other_entry(odd: str) -> None:
    entries = f'{{{odd}}}, {{"id": "good", "content_text": "Rising"}}'
    text = f'{{"version": "https://jsonfeed.org/version/1.1", "items": [{entries}]}}'
    feed_entries = read(text.encode(errors="surrogateescape")).entries
    assert len(feed_entries) == 2 and feed_entries[1].id == "good"
    assert repr(feed_entries).isprintable()
    "".join((feed_entries[0].id, feed_entries[0].title, feed_entries[0].html)).encode()


@pytest.mark.parametrize(
    "reference", ["&#xD83D;", "&#55357", "&#x110000;", "&#0;", f"&#{'9' * 5_000};", "&#x0000000041;"]
)
@pytest.mark.parametrize("make", [rss, atom])
def test_reference_to_no_character_costs_no_entry(make: Callable[[str], str], reference: str) -> None:
    element = f"<title>cut {reference}</title>"
    for text in (make(element), make("").replace("<title>", f"<title>{reference}", 1)):
        [entry] = read(text).entries
        entry.title.encode()
    assert first(make(element)).title.startswith("cut")


@pytest.mark.parametrize("element", ["<gml:pos>1 2</gml:pos>", "<cc:license>&lt;b</cc:license>"])
def test_element_that_the_parser_fails_on_costs_no_entry(element: str) -> None:
    spaces = 'xmlns:gml="http://www.opengis.net/gml" xmlns:cc="http://backend.userland.com/creativeCommonsRssModule"'
    assert first(rss(f"{element}<title>Weir</title>", element, spaces=spaces)).title == "Weir"


def test_relative_links_of_an_entry_have_their_base() -> None:
    inner = '<content type="html" xml:base="c/">&lt;a href="d"&gt;d&lt;/a&gt;</content>'
    html = first(atom(inner, more=' xml:base="https://other.example/a/"')).html
    assert html == '<base href="https://other.example/a/c/"><a href="d">d</a>'


def test_repeated_entry_is_returned_once_in_its_latest_state() -> None:
    entries = "".join(
        f'</entry><entry><id>1</id><link href="/1"/><title>{title}</title><updated>2024-05-0{day}T12:00:00Z</updated>'
        for title, day in (("old", 1), ("new", 3), ("older", 2))
    )
    assert [entry.title for entry in read(atom(entries)).entries if entry.title] == ["new"]


def test_entries_with_one_id_and_several_links_are_several() -> None:
    items = "".join(f"</item><item><guid isPermaLink='false'>same</guid><link>/{number}</link>" for number in (1, 2))
    assert [(entry.id, entry.address) for entry in read(rss(items)).entries[1:]] == [
        ("https://river.example/1", "https://river.example/1"),
        ("https://river.example/2", "https://river.example/2"),
    ]


_ITEMS = {
    "one ID": "<guid isPermaLink='false'>N/A</guid><title>Level {n}</title>",
    "one ID and title": "<guid isPermaLink='false'>N/A</guid><title>Level</title><pubDate>0{n} May 2024</pubDate>",
    "one ID, no title": "<guid isPermaLink='false'>N/A</guid>",
    "one ID and link": "<guid>https://river.example/log</guid><link>/log</link><title>Level {n}</title>",
    "one link": "<link>/log</link><title>Level {n}</title>",
    "own IDs, one link": "<guid isPermaLink='false'>{n}</guid><link>/log</link>",
    "fragments": "<link>/log#n{n}</link>",
    "files": "<link>/show</link><title>Show</title><enclosure url='/{n}.mp3' type='audio/mpeg'/>",
    "files alone": "<enclosure url='/{n}.mp3' type='audio/mpeg'/>",
    "nothing": "",
}
_WITHOUT_NAME = (_ITEMS["one ID, no title"], _ITEMS["nothing"])
"""An edit of these is another entry."""


@pytest.mark.parametrize("item", _ITEMS.values(), ids=_ITEMS)
def test_each_entry_has_an_id_of_its_own(item: str) -> None:
    items = [item.format(n=n) + f"<description>It was {n} m</description>" for n in (1, 2, 3)]
    entries = read(rss("</item><item>".join((*items, items[0])))).entries
    assert sorted(re.findall("It was . m", entry.html)[0] for entry in entries) == [
        "It was 1 m",
        "It was 2 m",
        "It was 3 m",
    ]
    assert len({entry.id for entry in entries}) == 3
    edited = read(rss("</item><item>".join(items).replace("It was 1 m", "It was 4 m"))).entries
    assert len({entry.id for entry in (*entries, *edited)}) == (4 if item in _WITHOUT_NAME else 3)


def test_entry_without_id_and_link_keeps_its_derived_id() -> None:
    same, other = rss("<description>Rising</description>"), rss("<description>Falling</description>")
    assert first(same).id == first(same).id != first(other).id


@pytest.mark.parametrize("end", ["</channel></rss>", ""], ids=["well-formed", "cut"])
def test_entries_beyond_the_limit_are_left_out(end: str) -> None:
    items = "".join(f"<item><guid>{number}</guid></item>" for number in range(MOST_ENTRIES + 100))
    entries = read(f"<rss version='2.0'><channel>{items}{end}").entries
    assert [entry.id for entry in entries] == [str(number) for number in range(MOST_ENTRIES)]


def test_too_many_tags_are_refused_before_they_are_parsed() -> None:
    with pytest.raises(ParseError, match="tags"):
        read("<rss><channel>" + "<a>" * MOST_TAGS)


def _laughing(levels: int) -> str:
    entities = "".join(f'<!ENTITY e{level} "{f"&e{level - 1};" * 10}">\n' for level in range(1, levels))
    return f'<!DOCTYPE rss [\n<!ENTITY e0 "ha">\n{entities}]>' + rss(f"<title>&e{levels - 1};</title>")


@pytest.mark.parametrize(
    "text",
    [
        _laughing(12),
        f'<!DOCTYPE rss [\n<!ENTITY a "{"a" * 50_000}">\n]>' + rss(f"<description>{'&a;' * 50_000}</description>"),
        '<!DOCTYPE rss [\n<!ENTITY a SYSTEM "file:///etc/passwd">\n]>' + rss("<title>&a;</title>"),
        _laughing(12).replace("[\n", "[").replace("\n", ""),
        rss(f"<author>{'a' * 300_000}</author>"),
    ],
    ids=["entities in entities", "one long entity", "a file as an entity", "entities on one line", "a long author"],
)
def test_hostile_feed_does_not_grow(text: str) -> None:
    entry = first(text)
    assert len(entry.title) + len(entry.html) + len(entry.author) < 1_000_000
    assert "root:" not in entry.title


_DATES = {
    "Mon, 06 May 2024 24:00:00 GMT": (7, 0, 0),
    "2024-05-06T24:00:00Z": (7, 0, 0),
    "2024-05-06T24:00Z": (7, 0, 0),
    "Mon, 06 May 2024 23:59:60 GMT": (6, 23, 59),
    "1714996800": (6, 12, 0),
    "1714996800000": (6, 12, 0),
    "1714996800.25": (6, 12, 0),
    "Mon, 06 May 2024 08:00:00 EDT": (6, 12, 0),
    "Mon, 06 May 2024 14:00:00 CEST": (6, 12, 0),
    "Mon, 06 May 2024 21:00:00 JST": (6, 12, 0),
    "Mon, 06 May 2024 14:00:00 GMT+0200": (6, 12, 0),
    "Mon, 06 May 2024 12:00 UT": (6, 12, 0),
    "06 May 24 12:00 GMT": (6, 12, 0),
    "Mon, 6 May 2024 12:00": (6, 12, 0),
    "Monday, 6 May 2024 12:00:00 +0000": (6, 12, 0),
    "Mo, 06 Mai 2024 14:00:00 +0200": (6, 12, 0),
    "lun., 06 mai 2024 14:00:00 +0200": (6, 12, 0),
    "6. Mai 2024 um 12:00 Uhr": (6, 12, 0),
    "6 de mayo de 2024 12:00": (6, 12, 0),
    "Пн, 06 мая 2024 15:00:00 +0300": (6, 12, 0),
    "2024年5月6日 12:00": (6, 12, 0),
    "May 6, 2024 12:00 pm": (6, 12, 0),
    "Mon May  6 12:00:00 2024": (6, 12, 0),
    "2024-05-06 12:00:00 UTC": (6, 12, 0),
    "2024-05-06 14:00:00 +0200": (6, 12, 0),
    "20240506T120000Z": (6, 12, 0),
    "2024-05-06": (6, 0, 0),
}


@pytest.mark.parametrize(("text", "moment"), _DATES.items(), ids=_DATES)
@pytest.mark.parametrize("make", [rss, atom, json_feed])
def test_date_is_read_in_any_notation(make: Callable[[Any], str], text: str, moment: tuple[int, int, int]) -> None:
    name = "published" if make is atom else "pubDate"
    stated = {"id": "1", "date_published": text} if make is json_feed else f"<{name}>{text}</{name}>"
    published = first(make(stated)).published
    assert published is not None
    assert published.replace(second=0) == datetime(2024, 5, moment[0], *moment[1:], tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "", "0", "12", "Monday", "March", "yesterday", "5 minutes ago", "05/06/2024", "0000-00-00 00:00:00",
        "-0001-11-30T00:00:00+00:00", "Thu, 01 Jan 1970 00:00:00 +0000", "Mon, 45 Foo 2024 99:00:00 GMT",
    ],
)  # fmt: skip
def test_text_that_names_no_day_is_no_date(text: str) -> None:
    assert first(rss(f"<pubDate>{text}</pubDate>")).published is None


def test_date_in_the_future_is_that_of_its_entry() -> None:
    assert first(rss("<pubDate>Sun, 06 May 2096 12:00:00 GMT</pubDate>")).published == datetime(
        2096, 5, 6, 12, tzinfo=UTC
    )


def test_unreadable_dates_of_a_large_feed_cost_little() -> None:
    items = "</item><item>".join(
        f"<guid>{number}</guid><pubDate>{number}. Foobar im Xyz</pubDate>" for number in range(3_000)
    )
    before = time.process_time()
    assert len(read(rss(items)).entries) == 3_000
    assert time.process_time() - before < 10


_MORE = 'xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd" xmlns:media="http://search.yahoo.com/mrss/"'


@pytest.mark.parametrize(
    ("text", "expected", "is_full"),
    [
        (rss("<link>/1</link><itunes:summary>On the butty</itunes:summary>", spaces=_MORE), "On the butty", False),
        (
            rss("<itunes:summary>On the long butty</itunes:summary><description>short</description>", spaces=_MORE),
            "On the long butty",
            True,
        ),
        (
            rss("<description>On the long butty</description><itunes:summary>short</itunes:summary>", spaces=_MORE),
            "On the long butty",
            True,
        ),
        *(
            (
                rss(f"<link>/1</link>{'<media:description>A caption</media:description>'.join(parts)}", spaces=_MORE),
                expected_text,
                full,
            )
            for parts, expected_text, full in (
                (("<description>The teaser</description>", ""), "The teaser", False),
                (("", "<description>The teaser</description>"), "The teaser", False),
                (("", "<content:encoded>All of it</content:encoded>"), "All of it", True),
                (("", ""), "A caption", False),
            )
        ),
        (
            atom(
                "<link href='/1'/><media:group><media:title>Film</media:title>"
                "<media:description>How it was painted</media:description></media:group>",
                more=" " + _MORE,
            ),
            "How it was painted",
            False,
        ),
        (atom("<link href='/1'/><summary>Short</summary><content>All of it</content>"), "All of it", True),
    ],
)
def test_text_of_an_entry_is_the_longest_that_its_feed_has(text: str, expected: str, is_full: bool) -> None:
    entry = first(text)
    assert (re.sub("<[^<>]*>", "", entry.html), entry.is_full) == (expected, is_full)


def test_content_that_is_elsewhere_is_the_page() -> None:
    inner = "<id>urn:x:1</id><content type='text/html' src='full.html'/>"
    assert first(atom(inner)).address == "https://river.example/feeds/full.html"
    assert first(atom(f"{inner}<link href='/1'/>")).address == PAGE


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        (rss("<category>Canals</category><category domain='x'>Oak</category><category>Canals</category>"), ("Canals", "Oak")),
        (rss("<dc:subject>Canals</dc:subject>"), ("Canals",)),
        (rdf("<item><link>/1</link><dc:subject>Canals</dc:subject></item>"), ("Canals",)),
        (atom("<category term='c' label='Canals'/><category term='oak'/><category term='http://x/#post'/>"), ("Canals", "oak")),
        (json_feed({"id": "1", "tags": ["Canals", 7, None, "Oak Trade"]}), ("Canals", "Oak Trade")),
        (json_feed({"id": "1", "tags": "Canals"}), ()),
        (rss("", "<itunes:category text='Arts'/><category>News</category>", spaces=_MORE), ()),
        (rss("<itunes:keywords>canals, oak trade</itunes:keywords>", spaces=_MORE), ("canals", "oak trade")),
        (rss("<category></category>" + "<category>a</category>" * 3 + f"<category>{'b' * 200}</category>"), ("a",)),
    ],
)  # fmt: skip
def test_categories_of_an_entry_are_its_tags(text: str, tags: tuple[str, ...]) -> None:
    assert first(text).tags == tags
