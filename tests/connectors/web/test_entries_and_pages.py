"""A feed entry and its page are both kept, however the page responds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from catchment.content.normalize import normalize
from catchment.model import Document
from tests.connectors.web.conftest import Clock, Reader, entry, page, rss
from tests.connectors.web.server import Host, Page, SmallWeb

_LONG = "The mill stands beside the lower sluice and has been repaired twice since the great flood."
_DATED = "<pubDate>Mon, 06 May 2024 10:00:00 GMT</pubDate><author>ada@river.example (Ada Weir)</author><category>Oak</category>"


def _document(reader: Reader, address: str) -> Document:
    content = reader.ledger.rows[address].content
    assert content is not None
    return normalize(content)


def _warning(reader: Reader, address: str) -> str:
    return str(reader.ledger.rows[address].item.attributes.get("warning", ""))


@pytest.fixture
def blog(small_web: SmallWeb) -> Host:
    return small_web.hosts[0]


def _feed(blog: Host, summary: str = "A summary about the stile") -> str:
    return blog.put(
        "/feed", rss(entry(1, blog.address("/a"), summary=summary).replace("</title>", f"</title>{_DATED}"))
    )


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        *(
            (Page(b"gone", status=status), f"HTTP status {status}")
            for status in (400, 401, 403, 404, 410, 418, 451, 500)
        ),
        (Page(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nhalf"), "damaged"),
        (Page(b"x", headers={"Content-Encoding": "br"}), "encoding br"),
        (Page(b"x", headers={"Content-Length": "99999999"}), "too large"),
        (Page.moved("http://elsewhere.example/"), "not an allowed host"),
        (Page.moved("/a"), "loop"),
        (Page.of(rss(entry(1, full="x")), "application/rss+xml"), "a feed, not a page"),
    ],
    ids=lambda value: str(value)[:24] if isinstance(value, str) else "",
)
def test_summary_is_the_document_until_the_page_can_be_read(
    blog: Host, reader: Reader, clock: Clock, answer: Page, reason: str
) -> None:
    source = reader.connector(_feed(blog))
    blog.pages["/a"] = replace(answer, etag="")
    report = reader.sync(source)
    address = blog.address("/a")
    assert report.failed == {}
    document = _document(reader, address)
    assert "A summary about the stile" in document.text
    assert (document.author, document.created and document.created.date().isoformat()) == ("Ada Weir", "2024-05-06")
    assert reason in _warning(reader, address)
    assert reader.requests_of(lambda: reader.sync(source)) == [
        request for request in blog.requests[-1:] if request.path == "/feed"
    ]
    blog.put("/a", page(_LONG))
    clock.wait(days=8)
    reader.sync(source)
    assert _LONG in _document(reader, address).text and "stile" in _document(reader, address).text
    assert _warning(reader, address) == ""


@pytest.mark.parametrize(
    "answer",
    [
        Page.of(
            "<html><head><title>App</title></head><body><div id=app></div><script src=a.js></script></body></html>"
        ),
        Page.of(page("Subscribe to read.")),
        Page(b"\x89PNG\r\n\x1a\n" + bytes(99), "image/png"),
        Page(b"%PDF-1.7 damaged", "application/pdf"),
        Page(bytes(range(256)), "video/mp4"),
        Page(b"", "text/html"),
    ],
    ids=["script", "paywall", "picture", "damaged", "film", "empty"],
)
def test_page_without_text_does_not_replace_the_summary(blog: Host, reader: Reader, answer: Page) -> None:
    source = reader.connector(_feed(blog))
    blog.pages["/a"] = answer
    assert reader.sync(source).failed == {}
    document = _document(reader, blog.address("/a"))
    assert "A summary about the stile" in document.text
    assert (document.author, document.properties["tags"]) == ("Ada Weir", ["Oak"])


def test_page_with_the_words_of_the_summary_is_kept_alone(blog: Host, reader: Reader) -> None:
    teaser = _LONG[:60] + f"… [&lt;a href='{blog.address('/a')}'&gt;Read more&lt;/a&gt;]"
    source = reader.connector(_feed(blog, teaser))
    blog.put("/a", page(f"{_LONG}</p><p>{_LONG} It has a new wheel."))
    reader.sync(source)
    assert _document(reader, blog.address("/a")).text.count("The mill stands") == 2


@pytest.mark.parametrize(
    ("meta", "author", "created"),
    [
        ("", "Ada Weir", "2024-05-06"),
        ('<meta name="author" content="Ben Lock">', "Ben Lock", "2024-05-06"),
        ('<meta property="article:published_time" content="2014-01-02">', "Ada Weir", "2014-01-02"),
        ('<link rel="canonical" href="/2019/03/04/a">', "Ada Weir", "2024-05-06"),
    ],
)
def test_feed_states_what_its_page_does_not(blog: Host, reader: Reader, meta: str, author: str, created: str) -> None:
    source = reader.connector(_feed(blog))
    blog.put("/a", f"<html><head>{meta}</head><body><p>{_LONG}</p></body></html>")
    reader.sync(source)
    document = _document(reader, blog.address("/a"))
    assert (document.author, document.created and document.created.date().isoformat()) == (author, created)
    modified = reader.ledger.rows[blog.address("/a")].item.modified
    assert modified is not None and modified.date().isoformat() == "2024-05-06"
    assert "date-from" not in document.properties


def test_entry_with_its_page_costs_no_further_request_and_is_not_read_twice(
    blog: Host, reader: Reader, clock: Clock
) -> None:
    source = reader.connector(_feed(blog))
    address = blog.put("/a", page(_LONG))
    reader.sync(source)
    for number in range(3):
        blog.change("/feed", rss(entry(number + 2, full="another"), _entry_alone(blog)))
        report = reader.sync(source)
        assert (address in report.changed, len(blog.paths)) == (False, 4 + number)
    clock.wait(days=2)
    assert [request.status for request in reader.requests_of(lambda: reader.sync(source))] == [304, 304]


def _entry_alone(blog: Host) -> str:
    return entry(1, blog.address("/a"), summary="A summary about the stile").replace("</title>", f"</title>{_DATED}")


def test_changed_page_of_an_unchanged_feed_keeps_its_summary(blog: Host, reader: Reader, clock: Clock) -> None:
    source = reader.connector(_feed(blog))
    address = blog.put("/a", page(_LONG))
    reader.sync(source)
    blog.change("/a", page(f"{_LONG} The weir froze."))
    clock.wait(days=2)
    assert reader.sync(source).changed == {address}
    document = _document(reader, address)
    assert "froze" in document.text and "stile" in document.text and document.author == "Ada Weir"


def test_changed_summary_is_taken_at_the_next_look_at_the_page(blog: Host, reader: Reader, clock: Clock) -> None:
    source = reader.connector(_feed(blog))
    address = blog.put("/a", page(_LONG))
    reader.sync(source)
    _feed(blog, "A summary about the turnstile")
    assert [request.path for request in reader.requests_of(lambda: reader.sync(source))] == ["/feed"]
    clock.wait(days=2)
    assert [(request.path, request.status) for request in reader.requests_of(lambda: reader.sync(source))] == [
        ("/feed", 304),
        ("/a", 200),
    ]
    assert "turnstile" in _document(reader, address).text
    clock.wait(days=7)
    assert [request.status for request in reader.requests_of(lambda: reader.sync(source))] == [304, 304]


def test_changed_summary_of_a_page_that_cannot_be_read_is_taken_at_once(blog: Host, reader: Reader) -> None:
    source = reader.connector(_feed(blog))
    reader.sync(source)
    _feed(blog, "A summary about the turnstile")
    assert [request.path for request in reader.requests_of(lambda: reader.sync(source))] == ["/feed"]
    assert "turnstile" in _document(reader, blog.address("/a")).text


def test_page_that_vanishes_leaves_its_summary(blog: Host, reader: Reader, clock: Clock) -> None:
    source = reader.connector(_feed(blog))
    address = blog.put("/a", page(_LONG))
    reader.sync(source)
    blog.pages["/a"] = Page(status=410)
    for _ in range(2):
        clock.wait(days=2)
        reader.sync(source)
        assert _LONG in _document(reader, address).text
        assert "HTTP status 410" in _warning(reader, address)
    clock.wait(days=2)
    report = reader.sync(source)
    assert (report.deleted, report.failed) == (set(), {})
    assert _document(reader, address).text == "A summary about the stile"
    blog.put("/a", page(_LONG))
    clock.wait(days=8)
    reader.sync(source)
    assert _LONG in _document(reader, address).text


def test_page_that_moves_or_has_a_second_address_is_read(blog: Host, reader: Reader) -> None:
    source = reader.connector(_feed(blog))
    blog.put("/a", page(_LONG))
    reader.sync(source)
    old_address, second = blog.put("/b", page(_LONG)), blog.put("/c", page(_LONG))
    blog.put("/feed", rss(entry(1, old_address, summary="On the stile"), entry(2, second, summary="On the gate")))
    assert reader.sync(source).moved == {blog.address("/a"): old_address}
    for address, word in ((old_address, "stile"), (second, "gate")):
        text = _document(reader, address).text
        assert _LONG in text and word in text


def test_entry_of_a_host_that_is_away_has_its_summary(
    blog: Host, small_web: SmallWeb, reader: Reader, clock: Clock
) -> None:
    dead = small_web.dead()
    address = dead.address("/a")
    feed = blog.put("/feed", rss(entry(1, address, summary="About the stile")))
    source = reader.connector(feed, hosts=[dead.name])
    for _ in range(3):
        assert reader.sync(source).failed == {}
        assert "About the stile" in _document(reader, address).text
        assert "does not answer" in _warning(reader, address)
        clock.wait(hours=1)


def test_entry_without_title_and_text_fails_if_its_page_cannot_be_read(blog: Host, reader: Reader) -> None:
    empty = f"<item><guid>1</guid><link>{blog.address('/a')}</link></item>"
    report = reader.sync(reader.connector(blog.put("/feed", rss(empty))))
    assert set(report.failed) == {blog.address("/a")}


def test_entry_and_page_are_fetched_again_by_one_request(blog: Host, reader: Reader) -> None:
    source = reader.connector(_feed(blog))
    address = blog.put("/a", page(_LONG))
    reader.sync(source)
    row = reader.ledger.rows[address]
    for _ in range(2):
        reader.sync(source)
    assert row.content is not None
    before = len(blog.paths)
    content = source.fetch(row.item)
    assert (content.data, content.summary) == (row.content.data, row.content.summary)
    assert blog.paths[before:] in (["/a"], ["/robots.txt", "/a"])


def test_pages_of_earlier_versions_stay_as_they_are(blog: Host, reader: Reader, clock: Clock) -> None:
    source = reader.connector(_feed(blog))
    address = blog.put("/a", page(_LONG))
    for _ in range(2):
        reader.sync(source)
    row = reader.ledger.rows[address]
    row.item = replace(row.item, version=row.item.version.partition(".")[0])
    clock.wait(days=2)
    report = reader.sync(source)
    assert (report.changed, report.deleted, blog.requests[-1].status) == (set(), set(), 304)


def test_title_of_the_feed_is_first_and_that_of_the_page_an_alias(blog: Host, reader: Reader) -> None:
    source = reader.connector(_feed(blog))
    address = blog.put("/a", f"<html><head><title>Quite another</title></head><body><p>{_LONG}</p></body></html>")
    reader.sync(source)
    document = _document(reader, address)
    assert (document.title, document.properties["aliases"]) == ("Entry 1", ["Quite another"])
    blog.change("/a", f"<html><head><title>entry 1 | Blog</title></head><body><h1>entry 1</h1><p>{_LONG}</p>")
    reader.sync(source, deep=True)
    document = _document(reader, address)
    assert document.title == "Entry 1" and "aliases" not in document.properties


def test_titles_of_all_feeds_are_kept(blog: Host, reader: Reader) -> None:
    address = blog.put("/a", f"<html><head><title>Quite another</title></head><body><p>{_LONG}</p></body></html>")
    feeds = [blog.put(f"/{name}", rss(entry(name, address, summary=_LONG, title=name))) for name in ("One", "Two")]
    reader.sync(reader.connector(*feeds))
    document = _document(reader, address)
    assert (document.title, document.properties["aliases"], document.text) == ("One", ["Two", "Quite another"], _LONG)


@pytest.mark.parametrize("title", ["You need to enable JavaScript to run this app.", "Bitte Javascript aktivieren!"])
def test_request_for_scripts_is_no_text_of_an_entry(blog: Host, reader: Reader, title: str) -> None:
    source = reader.connector(_feed(blog, summary=""))
    body = f"<div id=root></div><noscript>{title}</noscript>"
    address = blog.put("/a", f"<!DOCTYPE html><html><head><title>App</title></head><body>{body}</body></html>")
    reader.sync(source)
    document = _document(reader, address)
    assert (document.title, document.text) == ("Entry 1", "")


@pytest.mark.parametrize("kind", ["full", "summary"])
def test_new_headline_of_an_entry_is_new_content(blog: Host, reader: Reader, kind: str) -> None:
    source = reader.connector(blog.put("/feed", rss(entry(1, blog.address("/a"), title="Old", **{kind: "Same"}))))
    reader.sync(source)
    [row] = reader.ledger.present().values()
    before = row.content_hash
    blog.change("/feed", rss(entry(1, blog.address("/a"), title="New", **{kind: "Same"})))
    reader.sync(source)
    assert row.content is not None and (row.content.title, normalize(row.content).text) == ("New", "Same")
    assert row.content_hash != before


@pytest.mark.parametrize("kind", ["full", "summary"])
def test_date_of_an_entry_in_the_future_is_none(blog: Host, reader: Reader, kind: str) -> None:
    dates = "<pubDate>Fri, 07 Mar 2025 10:00:00 GMT</pubDate><atom:updated>2099-03-07T10:00:00Z</atom:updated>"
    future = "<pubDate>Sat, 07 Mar 2099 10:00:00 GMT</pubDate>"
    first, second = (
        entry(number, blog.address(f"/{number}"), **{kind: "Some text"}).replace("</title>", f"</title>{date}")
        for number, date in enumerate((dates, future))
    )
    blog.put("/0", page(_LONG))
    blog.pages["/1"] = Page.of(page(_LONG + " More of it."), "text/html")
    blog.pages["/1"] = replace(blog.pages["/1"], modified="Sat, 07 Mar 2099 10:00:00 GMT")
    feed = rss(first, second).replace("<rss ", '<rss xmlns:atom="http://www.w3.org/2005/Atom" ')
    reader.sync(reader.connector(blog.put("/feed", feed)))
    days = [reader.ledger.rows[blog.address(f"/{number}")].item.modified for number in range(2)]
    assert [day and day.year for day in days] == [2025, None]


def test_new_address_of_a_redirect_is_kept(blog: Host, reader: Reader) -> None:
    old_address, target = blog.address("/a"), blog.put("/target", page(_LONG))
    blog.pages["/a"] = Page.moved("/target")
    entries = entry(1, old_address, summary="Short"), entry(2, target, summary="Other"), entry(3, full="Whole")
    reader.sync(reader.connector(blog.put("/feed", rss(*entries))))
    metadata = {place: row.content.metadata for place, row in reader.ledger.rows.items() if row.content}
    assert metadata.pop(old_address) == {"url": old_address, "redirected": target}
    assert all("redirected" not in facts for facts in metadata.values()) and len(metadata) == 2


def test_fragment_of_a_link_is_kept(blog: Host, reader: Reader) -> None:
    blog.put("/a", page(_LONG))
    blog.put("/b", page(f"{_LONG} Again."))
    links = [blog.address(path) for path in ("/a#part", "/b#!/x", "/c#one", "/c#two")]
    entries = [entry(number, link, summary="Short" * (number + 1)) for number, link in enumerate(links[:1] + links[2:])]
    text_list = blog.put("/list", f"{links[1]}\n", "text/plain")
    reader.sync(reader.connector(blog.put("/feed", rss(*entries)), text_list))
    addresses = sorted(row.content.metadata["url"] for row in reader.ledger.rows.values() if row.content)
    assert addresses == links


@pytest.mark.parametrize(
    "entries",
    [
        "<item></item>",
        "<item><guid>1</guid><title> </title><description></description></item>",
        "<item><guid>1</guid><description>&lt;p&gt;&amp;nbsp;&lt;/p&gt;</description></item>",
        "".join(f"<item><guid>{name}</guid><link>http://{{host}}/a</link></item>" for name in "xy"),
    ],
)
def test_entry_without_title_and_text_is_no_document(blog: Host, reader: Reader, entries: str) -> None:
    source = reader.connector(blog.put("/feed", rss(entries.replace("{host}", blog.name), entry(2, full="Other"))))
    for _ in range(2):
        report = reader.sync(source)
        assert (len(reader.ledger.present()), report.failed, report.deleted) == (1, {}, set())
    picture = rss("<item><guid>1</guid><description>&lt;img src='/x.png'&gt;</description></item>")
    assert len(reader.sync(reader.connector(blog.put("/pictures", picture))).new) == 1


def test_page_with_a_nul_character_is_read(blog: Host, reader: Reader) -> None:
    address = blog.put("/a", f"<!DOCTYPE html><html><body><p>A \0 in it. {_LONG}</p></body></html>")
    reader.sync(reader.connector(address))
    document = _document(reader, address)
    assert _LONG in document.text and document.media_type == "text/html"
