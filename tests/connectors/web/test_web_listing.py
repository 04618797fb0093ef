"""Reading, rechecking, keeping and giving up pages of a web source, against hosts on loopback."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from unittest.mock import ANY

import pytest

from catchment.errors import (
    AccessDenied,
    BadInput,
    FailureClass,
    FetchFailed,
    LoginFailed,
    RateLimited,
    SkipReason,
    SourceInvalid,
    SourceUnavailable,
    StillChanging,
)
from catchment.model import Checkpoint, Tombstone
from connectors.web import hosts, web_listing
from connectors.web.address import MOST_BYTES
from connectors.web.client import WebClient, WebResponse
from connectors.web.hosts import HostAway
from connectors.web.settings import WebSettings
from connectors.web.store import ResponseStore, StoredResponse
from tests.connectors.web.conftest import Clock, Reader, entry, page, put_list, rss
from tests.connectors.web.server import Host, Page, SmallWeb


def test_feed_gives_full_entries_and_reads_pages_of_summaries(small_web: SmallWeb, reader: Reader) -> None:
    blog, other = small_web.hosts
    article = blog.put("/article", page("The whole article"))
    full = entry(1, blog.address("/full"), full="<p>All of it</p>", title="Full one")
    summary = entry(2, article, summary="Only a teaser")
    elsewhere = entry(3, other.address("/elsewhere"), summary="On another host")
    feed = blog.put("/feed.xml", rss(full, summary, elsewhere, entry(4, full="<p>No link</p>")), "application/rss+xml")
    source = reader.connector(feed)
    requests = reader.requests_of(lambda: reader.sync(source))
    assert [request.path for request in requests] == ["/feed.xml", "/article"]
    documents = reader.ledger.documents()
    assert set(documents) == {blog.address("/full"), article, f"{feed}#3", f"{feed}#4"}
    assert b"All of it" in documents[blog.address("/full")]
    assert b"The whole article" in documents[article]
    assert b"On another host" in documents[f"{feed}#3"]
    raw = source.fetch(reader.ledger.rows[f"{feed}#3"].item)
    assert raw.metadata == {"url": other.address("/elsewhere")}
    assert source.fetch(reader.ledger.rows[blog.address("/full")].item).title == "Full one"


def test_entries_are_updated_by_id_and_kept_when_they_leave(small_web: SmallWeb, reader: Reader, clock: Clock) -> None:
    blog = small_web.hosts[0]
    first, second = blog.address("/1"), blog.put("/2", page("second"))
    feed = blog.put("/feed", rss(entry("a", first, full="old"), entry("b", second, summary="s")), "application/rss+xml")
    source = reader.connector(feed)
    reader.sync(source)
    blog.change("/feed", rss(entry("a", first, full="new")))
    report = reader.sync(source)
    assert (report.new, report.changed, report.deleted) == (set(), {first}, set())
    clock.wait(days=9)
    assert [request.path for request in reader.requests_of(lambda: reader.sync(source))] == ["/feed"]
    assert set(reader.ledger.documents()) == {first, second}


def test_entry_whose_address_changed_is_a_move(small_web: SmallWeb, reader: Reader) -> None:
    blog = small_web.hosts[0]
    old, new = blog.address("/old"), blog.put("/new", page("moved page"))
    feed = blog.put("/feed", rss(entry("a", old, full="text")), "application/rss+xml")
    source = reader.connector(feed)
    reader.sync(source)
    blog.change("/feed", rss(entry("a", new, summary="text")))
    assert reader.sync(source).moved == {old: new}
    assert list(reader.ledger.documents()) == [new]


def test_entries_that_share_their_page_are_documents_of_their_own(small_web: SmallWeb, reader: Reader) -> None:
    blog = small_web.hosts[0]
    log = blog.put("/log", page("All versions"))
    feed = blog.put("/feed", rss(entry("a", log, summary="first")), "application/rss+xml")
    source = reader.connector(feed)
    reader.sync(source)
    assert list(reader.ledger.documents()) == [log]
    blog.change("/feed", rss(*(entry(name, log, summary=f"text {name}") for name in "abc")))
    report = reader.sync(source)
    assert (report.moved, report.deleted) == ({log: f"{feed}#a"}, set())
    assert set(reader.ledger.documents()) == {f"{feed}#{name}" for name in "abc"}
    assert b"text b" in reader.ledger.documents()[f"{feed}#b"]


def test_renumbered_ids_change_no_entries(small_web: SmallWeb, reader: Reader) -> None:
    blog = small_web.hosts[0]
    links = [blog.address(f"/{number}") for number in range(3)]
    feed = blog.put("/feed", rss(*(entry(n, link, full=link, title="x") for n, link in enumerate(links))))
    source = reader.connector(feed)
    reader.sync(source)
    blog.change("/feed", rss(*(entry((n + 1) % 3, link, full=link, title="x") for n, link in enumerate(links))))
    report = reader.sync(source)
    assert (report.new, report.changed, report.moved, report.deleted) == (set(), set(), {}, set())


def test_unchanged_pages_cost_conditional_requests_only(small_web: SmallWeb, reader: Reader, clock: Clock) -> None:
    host = small_web.hosts[0]
    addresses = [host.put(f"/{number}", page(f"text {number}")) for number in range(5)]
    source = reader.connector(put_list(host, *addresses))
    assert reader.sync(source).fetched == set(addresses)
    assert [request.path for request in reader.requests_of(lambda: reader.sync(source))] == ["/list.txt"]
    clock.wait(days=2)
    requests = reader.requests_of(lambda: reader.sync(source))
    assert len(requests) == 6
    assert all(request.is_conditional and request.status == 304 for request in requests)
    host.change("/3", page("another text"))
    clock.wait(days=2)
    assert reader.sync(source).fetched == {addresses[3]}


def test_new_markup_around_an_equal_text_is_no_change(small_web: SmallWeb, reader: Reader, clock: Clock) -> None:
    host = small_web.hosts[0]
    source = reader.connector(put_list(host, host.put("/", page("text"))))
    reader.sync(source)
    host.change("/", page("text").replace("<p>", "<p class='n7'>") + "<script>token = 7</script><!-- 7 -->")
    clock.wait(days=2)
    report = reader.sync(source)
    assert (report.changed, len(report.item_changes)) == (set(), 1)
    clock.wait(days=7)
    assert all(request.status == 304 for request in reader.requests_of(lambda: reader.sync(source)))


def test_interval_follows_how_often_a_page_changes(small_web: SmallWeb, reader: Reader, clock: Clock) -> None:
    host = small_web.hosts[0]
    quiet, busy = host.put("/quiet", page("quiet")), host.put("/busy", page("busy 0"))
    source = reader.connector(put_list(host, quiet, busy))
    reader.sync(source)
    for number in range(20):
        clock.wait(hours=12)
        host.change("/busy", page(f"busy {number + 1}"))
        reader.sync(source)
    looks = {path: host.paths.count(path) for path in ("/quiet", "/busy")}
    assert looks["/quiet"] <= 6
    assert looks["/busy"] >= 19


def test_gone_page_is_deleted_after_three_looks_over_three_days(
    small_web: SmallWeb, reader: Reader, clock: Clock
) -> None:
    host = small_web.hosts[0]
    address = host.put("/page", page("text"))
    source = reader.connector(put_list(host, address))
    reader.sync(source)
    del host.pages["/page"]
    for _ in range(3):
        clock.wait(days=1)
        for _ in range(5):
            assert address not in reader.sync(source, deep=True).deleted
    clock.wait(days=1.5)
    assert reader.sync(source).deleted == {address}
    assert reader.requests_of(lambda: reader.sync(source))[1:] == []
    host.put("/page", page("it is back"))
    clock.wait(days=31)
    reader.sync(source)
    assert list(reader.ledger.documents()) == [address]


def test_gone_page_that_returns_starts_over(small_web: SmallWeb, reader: Reader, clock: Clock) -> None:
    host = small_web.hosts[0]
    address = host.put("/page", page("text"))
    source = reader.connector(put_list(host, address))
    reader.sync(source)
    for host_page in (None, host.pages["/page"]) * 4:
        host.always = None if host_page else Page(status=410)
        clock.wait(days=2)
        assert address not in reader.sync(source, deep=True).deleted


def test_hosts_that_are_dead_refuse_or_throttle_defer_only_their_addresses(reader: Reader, clock: Clock) -> None:
    web = reader.web
    good, busy, down = web.hosts[0], web.hosts[1], web.add()
    dead = web.dead()
    busy.always = Page(status=429, headers={"Retry-After": "7200"})
    down.always = Page(status=503)
    pages = [good.put(f"/{number}", page(f"text {number}")) for number in range(3)]
    others = [host.address(f"/{number}") for host in (busy, down, dead) for number in range(20)]
    source = reader.connector(put_list(good, *others, *pages), hosts=[host.name for host in (busy, down, dead)])
    report = reader.sync(source)
    assert report.fetched == set(pages)
    assert (report.failed, len(busy.requests), len(down.requests)) == ({}, 1, 3)
    busy.always = down.always = None
    busy.make = down.make = lambda path: Page.of(page(f"late {path}"))
    clock.wait(hours=1)
    assert len(reader.sync(source).fetched) == 20
    assert len(busy.requests) == 1
    clock.wait(hours=1.1)
    assert len(reader.sync(source).fetched) == 20
    failed = {}
    for _ in range(3):
        clock.wait(days=1)
        failed |= reader.sync(source).failed
    assert {type(error) for error in failed.values()} == {HostAway}
    assert set(failed) == {dead.address(f"/{number}") for number in range(20)}
    assert [key for key in reader.ledger.marks if key.startswith("host:")] == [f"host:{dead.name}"]
    assert list(reader.pace.breakers) == [dead.name]


def test_host_left_by_an_earlier_version_is_asked_and_keeps_its_first_failure(
    small_web: SmallWeb, reader: Reader, clock: Clock
) -> None:
    good, dead = small_web.hosts[0], small_web.dead()
    since = clock.now - timedelta(days=3)
    reader.ledger.marks[f"host:{dead.name}"] = json.dumps([7, since.isoformat(), "2026-03-03T09:00:00+00:00"])
    source = reader.connector(put_list(good, good.put("/a", page("a")), dead.address("/b")), hosts=[dead.name])
    report = reader.sync(source)
    assert {type(error) for error in report.failed.values()} == {HostAway}
    assert f"since {since:%Y-%m-%d}" in str(report.failed[dead.address("/b")])
    assert reader.ledger.marks[f"host:{dead.name}"] == f"{since.isoformat()} cannot connect"


def test_dead_host_is_asked_ever_more_seldom_and_again_when_it_lives(
    small_web: SmallWeb, reader: Reader, clock: Clock
) -> None:
    good, down = small_web.hosts
    down.always = Page(status=503)
    address = down.address("/a")
    source = reader.connector(put_list(good, address), hosts=[down.name])
    requests = []
    for _ in range(48 * 4):
        number = len(down.requests)
        reader.sync(source)
        requests.append(len(down.requests) - number)
        clock.wait(minutes=30)
    days = [sum(requests[48 * day : 48 * day + 48]) for day in range(4)]
    assert requests[:3] == [3, 2, 1]
    assert days[0] <= 16 and days[2:] == [1, 1]
    down.always = None
    down.put("/a", page("back"))
    clock.wait(days=1)
    assert address in reader.sync(source).fetched
    assert (reader.ledger.marks.get(f"host:{down.name}"), reader.pace.breakers) == (None, {})


def test_source_fails_while_its_only_host_is_away(reader: Reader, clock: Clock) -> None:
    host = reader.web.add()
    article = host.put("/article", page("The heron"))
    source = reader.connector(host.put("/feed", rss(entry(1, article, full="text"))))
    reader.sync(source)
    expected = reader.ledger.documents()
    for answer in [Page(status=503)] * 6:
        host.always = answer
        with pytest.raises(SourceUnavailable, match=f"^{host.name}: HTTP status 503; "):
            reader.sync(source)
        clock.wait(minutes=1)
    assert reader.ledger.marks[f"host:{host.name}"].endswith(" HTTP status 503"), "also while no request is sent"
    assert list(source.left()) == [host.address("/feed")]
    clock.wait(days=1)
    host.always = Page(status=429, headers={"Retry-After": "7200"})
    with pytest.raises(RateLimited):
        reader.sync(source)
    host.always = None
    clock.wait(hours=3)
    reader.sync(source)
    assert (reader.ledger.documents(), reader.ledger.marks.get(f"host:{host.name}")) == (expected, None)


def test_page_that_is_due_alone_fails_no_source(small_web: SmallWeb, reader: Reader, clock: Clock) -> None:
    good, dead, file = small_web.hosts[0], small_web.dead(), reader.folder.parent / "list.txt"
    file.write_text(f"{good.put('/a', page('a'))}\n{dead.address('/b')}\n")
    source = reader.connector(str(file), hosts=[good.name, dead.name])
    for _ in range(4):
        reader.sync(source)
        clock.wait(minutes=30)
    assert good.paths.count("/a") == 1
    assert f"host:{dead.name}" in reader.ledger.marks
    file.write_text(good.address("/a"))
    reader.sync(source)
    assert f"host:{dead.name}" not in reader.ledger.marks


def test_proof_of_an_unchanged_site_finds_no_difference(small_web: SmallWeb, reader: Reader, clock: Clock) -> None:
    host = small_web.hosts[0]
    front = host.put("/", page("front", "/a", "/b"))
    host.put("/a", page("a", "/")), host.put("/b", page("b"))
    source = reader.connector(front, depth=1)
    reader.sync(source)
    clock.wait(days=2)
    assert reader.sync(source, deep=True).item_changes == []


def test_silent_host_costs_one_time_limit(small_web: SmallWeb, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    good, silent = small_web.hosts
    silent.always = Page(delay=600)
    monkeypatch.setattr(hosts, "WebClient", partial(WebClient, seconds=0.3))
    source = reader.connector(put_list(good, silent.address("/a"), silent.address("/b")), hosts=[silent.name])
    assert reader.sync(source).failed == {}
    assert (len(silent.requests), f"host:{silent.name}" in reader.ledger.marks) == (1, True)
    assert source.left().keys() == {silent.address("/a"), silent.address("/b")}


def test_one_broken_page_does_not_stop_its_host(small_web: SmallWeb, reader: Reader) -> None:
    host = small_web.hosts[0]
    pages = [host.put(f"/{number}", page(f"text {number}")) for number in range(9)]
    host.pages["/4"] = Page(status=500)
    report = reader.sync(reader.connector(put_list(host, *pages)))
    assert len(report.fetched) == 8
    assert {type(error) for error in report.failed.values()} == {FetchFailed}


def test_page_that_needs_a_login_fails_and_a_read_one_is_kept(
    small_web: SmallWeb, reader: Reader, clock: Clock
) -> None:
    host = small_web.hosts[0]
    source = reader.connector(put_list(host, host.put("/a", page("a")), host.address("/b")))
    host.pages["/b"] = Page(status=403)
    assert {type(error) for error in reader.sync(source).failed.values()} == {AccessDenied}
    host.pages["/a"] = Page(status=401)
    clock.wait(days=2)
    reader.sync(source)
    assert list(reader.ledger.documents()) == [host.address("/a")]


def test_robots_rules_exclude_new_pages_and_keep_read_ones(small_web: SmallWeb, reader: Reader, clock: Clock) -> None:
    host = small_web.hosts[0]
    source = reader.connector(put_list(host, host.put("/a", page("a"))))
    reader.sync(source)
    host.put("/robots.txt", "User-agent: catchment\nDisallow: /a\nDisallow: /b\n", "text/plain")
    put_list(host, host.address("/a"), host.put("/b", page("b")), host.put("/c", page("c")))
    clock.wait(days=2)
    report = reader.sync(source)
    assert report.skipped == {host.address("/b"): SkipReason.EXCLUDED}
    assert set(reader.ledger.documents()) == {host.address("/a"), host.address("/c")}
    assert host.paths.count("/a") == 1
    del host.pages["/robots.txt"]
    clock.wait(days=2)
    reader.sync(source)
    assert set(reader.ledger.documents()) == {host.address(f"/{name}") for name in "abc"}


@pytest.mark.parametrize(
    ("status", "is_allowed"),
    [(404, True), (410, True), (401, True), (403, True), (429, False), (500, False), (503, False)],
)
def test_status_of_robots_decides_when_there_are_no_rules(
    small_web: SmallWeb, reader: Reader, status: int, is_allowed: bool
) -> None:
    lists, host = small_web.hosts
    host.put("/a", page("a"))
    host.pages["/robots.txt"] = Page(status=status)
    reader.sync(reader.connector(put_list(lists, host.address("/a")), hosts=[host.name]))
    assert ("/a" in host.paths) is is_allowed


def test_summary_is_the_content_if_the_page_cannot_be_read(small_web: SmallWeb, reader: Reader, clock: Clock) -> None:
    host = small_web.hosts[0]
    host.put("/robots.txt", "User-agent: *\nDisallow: /a\n", "text/plain")
    address = host.put("/a", page("page"))
    source = reader.connector(host.put("/feed", rss(entry(1, address, summary="the summary"))))
    reader.sync(source)
    assert b"the summary" in reader.ledger.documents()[address]
    del host.pages["/robots.txt"]
    clock.wait(days=2)
    reader.sync(source)
    assert b"page" in reader.ledger.documents()[address]


def test_list_without_an_address_deletes_it(small_web: SmallWeb, reader: Reader, tmp_path: Path) -> None:
    host = small_web.hosts[0]
    pages = [host.put(f"/{number}", page(f"text {number}")) for number in range(3)]
    file = tmp_path / "list.txt"
    file.write_text("\n".join(pages))
    source = reader.connector(str(file), put_list(host, pages[2]), hosts=[host.name])
    reader.sync(source)
    assert host.paths.count("/2") == 1
    file.write_text("\n".join(pages[:1]))
    assert reader.sync(source).deleted == {pages[1]}
    file.write_text("\n".join([*pages[1:], "# " + "-" * MOST_BYTES, pages[0]]))
    with pytest.raises(SourceUnavailable, match="larger than 20 MB; split it"):
        reader.sync(source)
    file.unlink()
    with pytest.raises(SourceUnavailable, match="restore the file"):
        reader.sync(source)


def test_unreadable_list_and_login_page_in_its_place_delete_nothing(
    small_web: SmallWeb, reader: Reader, clock: Clock
) -> None:
    lists, host = small_web.hosts
    pages = [host.put(f"/{number}", page(f"text {number}")) for number in range(3)]
    source = reader.connector(put_list(lists, *pages), hosts=[host.name])
    reader.sync(source)
    portal = Page.of(page("Please log in to the network"))
    for answer in (Page(status=500), Page(status=404), Page(status=503), Page.moved("http://portal.example/"), portal):
        lists.always = answer
        clock.wait(days=2)
        assert not reader.sync(source).deleted & set(pages)
    assert set(reader.ledger.documents()) == set(pages)


@pytest.mark.parametrize(
    "answer",
    [
        Page.of(page("Please log in to the network")),
        Page.of('{"version": "https://jsonfeed.org/version/1.1", "items": [', "application/json"),
        Page.of("", "text/plain"),
        Page(status=404),
        Page(status=403),
        Page(status=500),
    ],
    ids=["page", "cut", "empty", "404", "403", "500"],
)
def test_feed_that_answers_with_something_else_fails_and_keeps_its_entries(
    small_web: SmallWeb, reader: Reader, clock: Clock, answer: Page
) -> None:
    host = small_web.hosts[0]
    feed = host.put("/feed", rss(entry(1, full="the heron")), "application/rss+xml")
    pages = [host.put(f"/{number}", page(f"text {number}")) for number in range(2)]
    source = reader.connector(put_list(host, *pages), feed)
    reader.sync(source)
    good, host.pages["/feed"] = host.pages["/feed"], answer
    host.change("/list.txt", pages[0])
    clock.wait(days=2)
    report = reader.sync(source)
    assert set(report.failed) == {feed}
    assert report.deleted == {pages[1]}
    assert set(reader.ledger.documents()) == {pages[0], f"{feed}#1"}
    host.pages["/feed"] = good
    failed = reader.ledger.rows[feed].item
    with pytest.raises(StillChanging):
        source.fetch(failed)
    clock.wait(days=2)
    assert reader.sync(source).failed == {}
    assert set(reader.ledger.present()) == {pages[0], f"{feed}#1"}


@pytest.mark.parametrize("name", ["feed", "list"])
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Page.moved("http://elsewhere.example/feed"), "elsewhere.example: not an allowed host"),
        (Page(b"x", headers={"Content-Length": "99999999"}, etag=""), "larger than 20 MB"),
    ],
    ids=["moved", "large"],
)
def test_feed_that_may_not_be_read_any_more_fails_and_keeps_its_entries(
    small_web: SmallWeb, reader: Reader, clock: Clock, name: str, answer: Page, reason: str
) -> None:
    host = small_web.hosts[0]
    feed = host.put("/feed", rss(entry(1, full="the heron")), "application/rss+xml")
    address = feed if name == "feed" else put_list(host, host.put("/a", page("the heron")))
    source = reader.connector(address)
    reader.sync(source)
    [before] = reader.ledger.documents()
    good, path = host.pages, address.removeprefix(host.address(""))
    host.pages = {**good, path: answer}
    report = reader.sync(source)
    assert reason in str(report.failed[address])
    assert report.failed[address].failure_class is FailureClass.PERMANENT
    for deep in (False, True, False):
        clock.wait(days=2)
        assert set(reader.sync(source, deep=deep).failed) == (set() if deep else {address})
        assert before in reader.ledger.documents()
    assert report.skipped == ({"http://elsewhere.example/": SkipReason.EXCLUDED} if "host" in reason else {})
    host.pages = good
    report = reader.sync(source, deep=True)
    assert (report.failed, list(reader.ledger.documents())) == ({}, [before])
    assert address not in reader.ledger.present()


def test_proof_finds_no_difference_where_pages_fail_as_before(
    small_web: SmallWeb, reader: Reader, clock: Clock
) -> None:
    host, other = small_web.hosts
    host.pages |= {
        "/moved": Page.moved(other.address("/"), 302),
        "/missing": Page(status=404, etag=""),
        "/broken": Page(b"x", status=500),
        "/login": Page(b"x", status=401),
    }
    pages = [host.put("/good", page("the heron")), *(host.address(path) for path in [*host.pages])]
    feed = host.put("/feed", rss(*(entry(number, link, summary="short") for number, link in enumerate(pages))))
    text_list = put_list(host, *(host.address(f"/no/{number}") for number in range(2)), *pages[1:3])
    feed_address = host.address("/moved-feed")
    host.pages["/moved-feed"] = Page.moved(other.address("/feed"))
    source = reader.connector(feed, text_list, feed_address)
    for _ in range(2):
        reader.sync(source)
    clock.wait(hours=3)
    assert reader.sync(source, deep=True).item_changes == []


def test_page_with_an_odd_date_stops_no_other(small_web: SmallWeb, reader: Reader) -> None:
    host = small_web.hosts[0]
    pages = [host.put(f"/{number}", page(f"text {number}")) for number in range(3)]
    host.pages["/1"] = replace(host.pages["/1"], headers={"Last-Modified": "Fri, 31 Dec 9999 23:59:59 -0100"})
    assert reader.sync(reader.connector(put_list(host, *pages))).fetched == set(pages)


def test_sitemap_that_shrinks_to_nothing_reports_all_deletions(small_web: SmallWeb, reader: Reader) -> None:
    host = small_web.hosts[0]
    pages = [host.put(f"/{number}", page(f"text {number}")) for number in range(12)]
    urls = "".join(f"<url><loc>{address}</loc></url>" for address in pages)
    head = '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    source = reader.connector(host.put("/sitemap.xml", f"{head}{urls}</urlset>", "application/xml"))
    reader.sync(source)
    host.change("/sitemap.xml", f"{head}</urlset>")
    assert sum(isinstance(change, Tombstone) for change in reader.sync(source).changes) == 12


@pytest.mark.parametrize("number_of_pages", [2, 6, 30])
@pytest.mark.parametrize(
    "wall",
    [
        Page.of(page("Please accept our cookies")),
        Page.moved("/login"),
        Page.of('<html><link rel="canonical" href="/consent"><body>We value your privacy</body></html>'),
    ],
    ids=["answer", "redirect", "canonical"],
)
def test_equal_answer_for_several_addresses_replaces_no_text(
    small_web: SmallWeb, reader: Reader, clock: Clock, wall: Page, number_of_pages: int
) -> None:
    host = small_web.hosts[0]
    pages = [host.put(f"/{number}", page(f"text {number}")) for number in range(number_of_pages)]
    host.put("/login", '<html><link rel="canonical" href="/login"><body>Log in</body></html>')
    source = reader.connector(put_list(host, *pages))
    reader.sync(source)
    before = reader.ledger.documents()
    good = dict(host.pages)
    host.pages |= {f"/{number}": wall for number in range(number_of_pages)}
    for _ in range(5):
        clock.wait(days=8)
        report = reader.sync(source)
        assert (report.changed, report.deleted) == (set(), set())
    assert reader.ledger.documents() == before
    assert "same text" in str(reader.ledger.rows[pages[0]].item.attributes["warning"])
    host.pages = good
    host.change("/0", page("new text"))
    clock.wait(days=8)
    assert reader.sync(source).changed == {pages[0]}
    assert not any("warning" in row.item.attributes for row in reader.ledger.rows.values())


def test_wall_that_meets_pages_one_by_one_replaces_one_text(small_web: SmallWeb, reader: Reader, clock: Clock) -> None:
    host = small_web.hosts[0]
    pages = [host.put(f"/{number}", page(f"text {number}")) for number in range(4)]
    source = reader.connector(put_list(host, *pages))
    reader.sync(source)
    changed = set()
    for number in range(4):
        host.change(f"/{number}", page("Please accept our cookies"))
        clock.wait(days=8)
        changed |= reader.sync(source).changed
    assert changed == {pages[0]}


def test_pages_that_may_be_equal_are_kept(small_web: SmallWeb, reader: Reader, clock: Clock) -> None:
    host, other = small_web.hosts
    new = [host.put(f"/tag/{number}", page("No posts yet")) for number in range(3)]
    copies = [host.put(f"/copy/{number}", page("The mill")) for number in range(2)]
    own_pages = [host.put(f"/own/{number}", page(f"The weir {number}")) for number in range(2)]
    elsewhere = [host.put("/elsewhere", page("The lock")), other.put("/elsewhere", page("A lock"))]
    source = reader.connector(put_list(host, *new, *copies, *own_pages, *elsewhere), hosts=[other.name])
    assert reader.sync(source).fetched == {*new, *copies, *own_pages, *elsewhere}
    for number in range(2):
        host.change(f"/copy/{number}", page("The mill is closed"))
        own = f'<link rel="canonical" href="https://{host.name}/own/{number}/">'
        host.change(f"/own/{number}", own + page("The weir is closed"))
    host.change("/elsewhere", page("The lock is closed"))
    other.change("/elsewhere", page("The lock is closed"))
    clock.wait(days=2)
    assert reader.sync(source).changed == {*copies, *own_pages, *elsewhere}


def test_validators_of_an_unchanged_answer_are_kept(small_web: SmallWeb, reader: Reader, clock: Clock) -> None:
    host = small_web.hosts[0]
    address = host.put("/page", page("text"))
    feed = host.put("/feed", rss(entry(1, full="entry")))
    source = reader.connector(put_list(host, address), feed)
    reader.sync(source)
    for path in ("/page", "/feed"):
        host.pages[path] = Page(status=304, etag='"second"')
    clock.wait(days=2)
    reader.sync(source)
    clock.wait(days=2)
    requests = {request.path: request.headers for request in reader.requests_of(lambda: reader.sync(source))}
    assert [requests[path]["if-none-match"] for path in ("/page", "/feed")] == ['"second"', '"second"']
    assert set(reader.ledger.documents()) == {address, f"{feed}#1"}


@pytest.mark.parametrize(
    ("before", "media_type"),
    [
        ("<!-- <script> was here --><p>The {word} was painted", "text/html"),
        ("<!--<style>--><p>The {word} was painted", "text/html"),
        ("<svg><style/><path d='M0'/></svg><p>The {word} was painted", "text/html"),
        ("<svg><script/></svg><p>The {word} was painted", "text/html"),
        ("<textarea><script></textarea><p>The {word} was painted", "text/html"),
        ("<title>On <script></title><p>The {word} was painted", "text/html"),
        ("<p title='<script>'>The {word} was painted", "text/html"),
        ("<script>document.write('<script>')</script><p>The {word} was painted", "text/html"),
        ("<scripted>x</scripted><p>The {word} was painted", "text/html"),
        ("<p>1 < 2 <!DOCTYPE x> The {word} was painted", "text/html"),
        ("<p><noscript>The {word} was painted</noscript>", "text/html"),
        ("<p><img src=i.png alt='a {word} drawing'>", "text/html"),
        ("<title>On the {word}</title><p>text", "text/html"),
        ("<template><p>x</template><select><option>The {word}</select>", "text/html"),
        ("<script src='k.js'/><p>The {word}</p>", "application/xhtml+xml"),
    ],
)  # fmt: skip
def test_every_new_text_that_a_reader_sees_is_noticed(
    small_web: SmallWeb, reader: Reader, clock: Clock, before: str, media_type: str
) -> None:
    host = small_web.hosts[0]
    known = f"<p>The mill.</p>{before}"
    source = reader.connector(put_list(host, host.put("/page", known.format(word="gunwale"), media_type)))
    reader.sync(source)
    host.put("/page", known.format(word="bowsprit"), media_type)
    clock.wait(days=2)
    assert reader.sync(source).changed == {host.address("/page")}


@pytest.mark.parametrize(
    ("answer", "is_followed"),
    [
        (Page.moved("/b", 300), True),
        (Page.of('<meta http-equiv="refresh" content="0; url=/b">'), True),
        (Page.of("<META HTTP-EQUIV=Refresh CONTENT=\"0;URL='/b'\"><title>Moved</title><p>This page has moved."), True),
        (Page.of("<noscript><meta http-equiv=refresh content='1;/b'></noscript><script>go()</script>"), True),
        (replace(Page.of(page("moved")), headers={"Refresh": "0; url=/b"}), True),
        (replace(Page.of(""), headers={"Refresh": "0;/b"}), True),
        (Page.of('<meta http-equiv="refresh" content="300; url=/b"><p>News'), False),
        (Page.of('<meta http-equiv="refresh" content="5"><p>Ticker'), False),
        (Page.of('<meta http-equiv="refresh" content="0; url=/a"><p>Ticker'), False),
        (Page.of(f'<meta http-equiv="refresh" content="0; url=/b"><p>{"Much text. " * 99}'), False),
        (Page.of('<!-- <meta http-equiv="refresh" content="0; url=/b"> --><p>News'), False),
        (replace(Page.of("a text", "text/plain"), headers={"Refresh": "0; url=/b"}), False),
    ],
)
def test_page_that_only_leads_to_another_one_is_a_redirect(
    small_web: SmallWeb, reader: Reader, clock: Clock, answer: Page, is_followed: bool
) -> None:
    host = small_web.hosts[0]
    host.pages["/a"] = answer
    host.put("/b", page("The other page"))
    source = reader.connector(put_list(host, host.address("/a")))
    reader.sync(source)
    document = reader.ledger.documents()[host.address("/a")]
    assert (b"The other page" in document, "/b" in host.paths) == (is_followed, is_followed)
    if is_followed:
        clock.wait(days=2)
        assert reader.requests_of(lambda: reader.sync(source))[-1].status == 304


def test_page_leads_to_no_forbidden_place(small_web: SmallWeb, reader: Reader) -> None:
    host, other = small_web.hosts
    host.put("/robots.txt", "User-agent: *\nDisallow: /private", "text/plain")
    targets = {"/1": other.address("/x"), "/2": "/private", "/3": "/4", "/4": "/3"}
    for path, target in targets.items():
        host.put(path, f'<meta http-equiv="refresh" content="0; url={target}">')
    report = reader.sync(reader.connector(put_list(host, *map(host.address, targets))))
    assert reader.ledger.documents() == {}
    assert (other.requests, "/private" in host.paths, len(host.paths)) == ([], False, 16)
    assert set(report.skipped) == {host.address("/1"), host.address("/2")}


@pytest.mark.parametrize("charset", ["utf-8", "windows-1252"])
def test_links_beyond_ascii_are_followed_in_the_charset_of_the_header(
    small_web: SmallWeb, reader: Reader, charset: str
) -> None:
    host = small_web.hosts[0]
    links = '<html><body><a href="/größe">a</a> <a href="/plus?q=a+b&amp;c=ü">b</a> <a href="/pct%20done">c</a></body></html>'
    host.pages["/"] = Page(links.encode(charset), f"text/html; charset={charset}")
    paths = ["/gr%C3%B6%C3%9Fe", "/plus?q=a+b&c=%C3%BC", "/pct%20done"]
    for path in paths:
        host.put(path, page(f"text of {path}"))
    reader.sync(reader.connector(host.address("/"), depth=1))
    assert set(reader.ledger.documents()) == {host.address(path) for path in ("/", *paths)}


def test_endless_calendar_ends_at_most_pages(small_web: SmallWeb, reader: Reader) -> None:
    host = small_web.hosts[0]

    def month(path: str) -> Page | None:
        number = int(path.removeprefix("/m")) if path.startswith("/m") else None
        links = [f"/m{number * 2}", f"/m{number * 2 + 1}"] if number else []
        return Page.of(page(f"month {number}", *links)) if number else None

    host.make = month
    source = reader.connector(host.address("/m1"), depth=5, most_pages=10)
    assert len(reader.sync(source).fetched) == 10
    assert reader.requests_of(lambda: reader.sync(source)) == []
    assert len(reader.sync(reader.connector(host.address("/m1"), depth=2, most_pages=100)).deleted) == 3


def test_site_is_read_within_its_host_and_its_broken_links_are_skipped(small_web: SmallWeb, reader: Reader) -> None:
    host, other = small_web.hosts
    links = ("/a", "b?utm_source=x", "#top", "/image.png", "/broken", "mailto:x@y.example", other.address("/"))
    front = host.put("/", page("front", *links))
    pages = {front, host.put("/a", page("a", "/deeper")), host.put("/b", page("b"))}
    host.put("/deeper", page("deeper"))
    report = reader.sync(reader.connector(front, depth=1, hosts=[other.name]))
    assert report.fetched == pages
    assert report.skipped == {host.address("/broken"): SkipReason.EXCLUDED}
    assert other.requests == []


def test_listed_feed_that_is_a_page_at_first_fails_until_it_is_a_feed(small_web: SmallWeb, reader: Reader) -> None:
    host = small_web.hosts[0]
    feed = host.put("/feed", page("Sign in to this network"))
    opml = host.put("/reader.opml", f'<opml><body><outline xmlUrl="{feed}"/></body></opml>', "text/xml")
    report = reader.sync(reader.connector(opml))
    assert (report.fetched, set(report.failed)) == (set(), {feed})
    host.change("/feed", rss(entry(1, full="the heron")))
    assert len(reader.sync(reader.connector(opml)).fetched) == 1


def test_hosts_that_are_not_allowed_are_skipped_and_not_asked(small_web: SmallWeb, reader: Reader) -> None:
    host, other = small_web.hosts
    redirect = host.address("/moved")
    host.pages["/moved"] = Page.moved(other.address("/"))
    addresses = put_list(host, other.address("/page"), redirect)
    report = reader.sync(reader.connector(addresses))
    assert report.skipped == dict.fromkeys((other.address("/page"), redirect), SkipReason.EXCLUDED)
    assert other.requests == []
    other.put("/", page("target"))
    other.put("/page", page("page"))
    reader.clock.wait(days=2)
    report = reader.sync(reader.connector(addresses, hosts=[other.name]))
    assert report.fetched == {other.address("/page"), redirect}


def test_opml_reads_its_feeds_and_a_list_may_name_feeds(small_web: SmallWeb, reader: Reader) -> None:
    first_host, second_host = small_web.hosts
    feeds = [host.put("/feed", rss(entry(1, full=host.name))) for host in (first_host, second_host)]
    outlines = "".join(f'<outline xmlUrl="{feed}"/>' for feed in feeds)
    opml = first_host.put("/reader.opml", f"<opml><body>{outlines}</body></opml>", "text/xml")
    report = reader.sync(reader.connector(opml))
    assert report.skipped == {feeds[1]: SkipReason.EXCLUDED}
    assert second_host.requests == []
    assert reader.sync(reader.connector(opml, hosts=[second_host.name])).deleted == {feeds[1]}
    assert set(reader.ledger.documents()) == {f"{feed}#1" for feed in feeds}
    other = Reader(small_web, reader.clock, reader.folder / "other")
    source = other.connector(put_list(first_host, *feeds), hosts=[second_host.name])
    assert other.sync(source).changes[-1] == Checkpoint(ANY, again=ANY)
    assert set(other.ledger.documents()) == {f"{feed}#1" for feed in feeds}


def test_list_of_feeds_and_lists_is_read_in_one_listing(small_web: SmallWeb, reader: Reader) -> None:
    host, other = small_web.hosts
    listed_page, summary = host.put("/listed", page("a listed page")), host.put("/summary", page("a page of an entry"))
    entries = entry(1, full="whole"), entry(2, summary, summary="short"), entry(3, listed_page, full="of a listed page")
    feeds = [host.put(f"/feed{number}", rss(*entries)) for number in range(2)]
    linked = host.put("/linked", page("a page that an outline links"))
    outlines = f'<outline xmlUrl="{feeds[1]}"/><outline type="link" url="{linked}"/>'
    opml = host.put("/opml", f"<opml><body>{outlines}</body></opml>", "text/xml")
    inner = host.put("/inner.txt", f"{listed_page}\n{opml}\n{other.address('/no')}\n", "text/plain")
    source = reader.connector(put_list(host, feeds[0], inner))
    requests = reader.requests_of(lambda: reader.sync(source))
    assert sorted(request.path for request in requests) == sorted({request.path for request in requests})
    own = {f"{feed}#{number}" for feed in feeds for number in (1, 3)}
    assert set(reader.ledger.documents()) == {listed_page, summary, linked} | own
    report = reader.sync(source)
    assert (report.new, report.changed, report.deleted, report.moved) == (set(), set(), set(), {})


@pytest.mark.parametrize("depth", [0, 5])
def test_killed_listing_asks_for_nothing_twice(small_web: SmallWeb, reader: Reader, depth: int) -> None:
    host = small_web.hosts[0]
    pages = [host.put(f"/{number}", page(f"text {number}", f"/{number + 1}")) for number in range(6)]
    address = pages[0] if depth else put_list(host, *pages)
    for cut in range(1, 12):
        reader.sync(reader.connector(address, depth=depth), cut=cut, fetch=False)
    reader.sync(reader.connector(address, depth=depth))
    assert set(reader.ledger.documents()) == set(pages)
    paths = [path for path in host.paths if path not in ("/robots.txt", "/list.txt", "/6")]
    assert sorted(paths) == sorted(f"/{number}" for number in range(6))


def _site(host: Host, pages: int) -> str:
    """Serve a front page that links pages, each of which links one more. Returns its address."""
    for number in range(pages):
        host.put(f"/{number}", page(f"page {number}", f"/{number}/a"))
        host.put(f"/{number}/a", page(f"below page {number}"))
    return host.put("/", page("front", *(f"/{number}" for number in range(pages))))


def test_crawl_continues_from_the_ledger_of_any_checkpoint(
    small_web: SmallWeb, reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_listing, "_CHECKPOINT_LOOKS", 1)
    front = _site(small_web.hosts[0], 4)
    reader.sync(reader.connector(front, depth=2))
    expected = reader.ledger.documents()
    assert len(expected) == 9
    for cut in range(1, len(reader.ledger.documents()) * 2):
        later = Reader(small_web, reader.clock, tmp_path / f"{cut}")
        later.sync(later.connector(front, depth=2), cut=cut)
        shutil.rmtree(later.folder, ignore_errors=True)
        later.sync(later.connector(front, depth=2))
        assert later.ledger.documents() == expected
        assert [mark for mark in later.ledger.marks if mark.startswith("link:")] == []


def test_checkpoint_writes_only_the_links_that_changed(
    small_web: SmallWeb, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_listing, "_CHECKPOINT_LOOKS", 1)
    front = _site(small_web.hosts[0], 40)
    changes = reader.sync(reader.connector(front, depth=1), fetch=False).changes
    mark_numbers = [len(change.marks) for change in changes if isinstance(change, Checkpoint)]
    assert max(mark_numbers[:2]) >= 40
    assert max(mark_numbers[2:]) <= 2
    assert sum(mark_numbers) <= 2 * 41


def test_links_are_read_again_until_the_ledger_had_them_all(small_web: SmallWeb, reader: Reader, clock: Clock) -> None:
    front = _site(small_web.hosts[0], 3)
    source = reader.connector(front, depth=1)
    reader.sync(source)
    clock.wait(days=2)
    statuses = {request.path: request.status for request in reader.requests_of(lambda: reader.sync(source))}
    assert statuses == {"/": 200, "/0": 304, "/1": 304, "/2": 304}
    clock.wait(days=2)
    assert {request.status for request in reader.requests_of(lambda: reader.sync(source))} == {304}


def test_links_that_were_lost_are_found_at_the_next_look(small_web: SmallWeb, reader: Reader, clock: Clock) -> None:
    front = _site(small_web.hosts[0], 4)
    source = reader.connector(front, depth=2)
    reader.sync(source, cut=4, fetch=False)
    reader.ledger.marks.clear()
    former = ResponseStore(reader.folder / "lists")
    former.put(StoredResponse("frontier", clock.now, WebResponse(body=b"[]")))
    for _ in range(4):
        clock.wait(days=2)
        reader.sync(source)
    assert len(reader.ledger.documents()) == 9
    assert former.get("frontier") is None


def test_more_depth_and_more_pages_apply_to_pages_that_did_not_change(
    small_web: SmallWeb, reader: Reader, clock: Clock
) -> None:
    front = _site(small_web.hosts[0], 4)
    numbers = []
    for settings in ({"depth": 1, "most_pages": 3}, {"depth": 1}, {"depth": 2}):
        for _ in range(3):
            reader.sync(reader.connector(front, **settings))
            clock.wait(days=4)
        numbers.append(len(reader.ledger.documents()))
    assert numbers == [3, 5, 9]


def test_lost_responses_of_lists_delete_nothing(small_web: SmallWeb, reader: Reader, clock: Clock) -> None:
    lists, host = small_web.hosts
    pages = [host.put(f"/{number}", page(f"text {number}")) for number in range(3)]
    feed = host.put("/feed", rss(entry(1, full="one"), entry(2, full="two")))
    source = reader.connector(put_list(lists, *pages, feed), hosts=[host.name])
    for _ in range(2):
        reader.sync(source)
    host.change("/feed", rss(entry(2, full="two")))
    reader.sync(source)
    expected = reader.ledger.documents()
    assert len(expected) == 5
    portal = Page.of(page("Please log in to the network"))
    for answer in (None, Page(status=500), Page(status=404), Page(status=503), portal):
        lists.always = host.always = answer
        for _ in range(3):
            shutil.rmtree(reader.folder, ignore_errors=True)
            with suppress(SourceUnavailable):
                reader.sync(source)
            assert reader.ledger.documents() == expected
            clock.wait(days=1)


def test_older_response_of_a_list_deletes_nothing_while_its_host_is_away(
    small_web: SmallWeb, reader: Reader, clock: Clock, tmp_path: Path
) -> None:
    lists, host = small_web.hosts
    pages = [host.put(f"/{number}", page(f"text {number}")) for number in range(3)]
    source = reader.connector(put_list(lists, *pages[:1]), hosts=[host.name])
    reader.sync(source)
    shutil.copytree(reader.folder, tmp_path / "older")
    put_list(lists, *pages)
    reader.sync(source)
    for answer in (Page(status=503), Page(status=404)):
        lists.always = answer
        shutil.rmtree(reader.folder)
        shutil.copytree(tmp_path / "older", reader.folder)
        for _ in range(2):
            with suppress(SourceUnavailable):
                reader.sync(source)
            clock.wait(days=2)
        assert set(reader.ledger.documents()) == set(pages)


def test_older_response_of_a_page_replaces_no_newer_content(
    small_web: SmallWeb, reader: Reader, clock: Clock, tmp_path: Path
) -> None:
    host = small_web.hosts[0]
    old_page, deleted_page = host.put("/kept", page("old")), host.put("/gone", page("was here"))
    source = reader.connector(put_list(host, old_page, deleted_page))
    reader.sync(source)
    shutil.copytree(reader.folder, tmp_path / "older")
    host.change("/kept", page("new"))
    del host.pages["/gone"]
    for _ in range(4):
        clock.wait(days=1.5)
        reader.sync(source)
    assert list(reader.ledger.documents()) == [old_page]
    shutil.rmtree(reader.folder)
    shutil.copytree(tmp_path / "older", reader.folder)
    report = reader.sync(source)
    assert (report.new, report.changed) == (set(), set())


def test_response_that_waits_for_its_job_outlives_a_further_look(
    small_web: SmallWeb, reader: Reader, clock: Clock
) -> None:
    host = small_web.hosts[0]
    source = reader.connector(put_list(host, host.put("/page", page("text"))))
    reader.sync(source, fetch=False)
    clock.wait(days=2)
    assert [request.status for request in reader.requests_of(lambda: reader.sync(source, fetch=False))] == [304, 304]
    assert [request.status for request in reader.requests_of(lambda: reader.sync(source))] == [304]
    assert len(reader.ledger.documents()) == 1


def test_truncated_response_of_a_list_is_requested_again(small_web: SmallWeb, reader: Reader, clock: Clock) -> None:
    host = small_web.hosts[0]
    pages = [host.put(f"/{number}", page(f"text {number}")) for number in range(3)]
    source = reader.connector(put_list(host, *pages))
    reader.sync(source)
    for file in (reader.folder / "lists").iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    assert reader.requests_of(lambda: reader.sync(source))[0].status == 200
    assert set(reader.ledger.documents()) == set(pages)


def test_delivered_responses_are_deleted_and_can_be_fetched_again(
    small_web: SmallWeb, reader: Reader, clock: Clock
) -> None:
    host = small_web.hosts[0]
    address = host.put("/page", page("text"))
    feed = host.put("/feed", rss(entry(1, full="entry")))
    source = reader.connector(put_list(host, address), feed)
    reader.sync(source)
    assert [file.stat().st_mode & 0o777 for file in (reader.folder / "pages").iterdir()] == [0o600] * 2
    reader.sync(source)
    assert list((reader.folder / "pages").iterdir()) == []
    for row in reader.ledger.rows.values():
        assert row.content and source.fetch(row.item).data == row.content.data
    host.change("/page", page("changed"))
    with pytest.raises(Exception, match="next sync"):
        source.fetch(reader.ledger.rows[address].item)


def test_next_listing_is_requested_for_the_earliest_look(small_web: SmallWeb, reader: Reader, clock: Clock) -> None:
    host = small_web.hosts[0]
    source = reader.connector(put_list(host, host.put("/page", page("text"))))
    last = reader.sync(source).changes[-1]
    assert isinstance(last, Checkpoint)
    assert last.again is not None
    assert (last.again - clock.now).days == 1


def test_source_whose_feed_has_no_pages_is_synced_again(small_web: SmallWeb, reader: Reader, clock: Clock) -> None:
    source = reader.connector(small_web.hosts[0].put("/feed", rss(entry(1, full="entry"))))
    last = reader.sync(source).changes[-1]
    assert isinstance(last, Checkpoint)
    assert last.again == clock.now + timedelta(hours=6)


def test_probe_describes_the_first_address(small_web: SmallWeb, reader: Reader, tmp_path: Path) -> None:
    host = small_web.hosts[0]
    feed = host.put("/feed", rss(entry(1), entry(2), title="A blog"))
    assert reader.connector(feed).probe() == "A blog: feed with 2 entries"
    front = host.put("/", '<html><head><link rel="alternate" type="application/rss+xml" href="/feed"></head></html>')
    assert reader.connector(front).probe().endswith(f": a page; its site has a feed, which can be added: {feed}")
    file = tmp_path / "list.txt"
    file.write_text(f"{feed}\nhttp://one.example/\nhttp://two.example/a\n")
    assert reader.connector(str(file), feed).probe() == "list.txt: 3 addresses of 3 hosts, and 1 more"
    host.pages["/private"] = Page(b"who are you", status=401)
    with pytest.raises(LoginFailed, match="needs a login"):
        reader.connector(host.address("/private")).probe()
    for problem in (host.address("/missing"), small_web.dead().address()):
        with pytest.raises(Exception, match="; "):
            reader.connector(problem).probe()
    host.put("/robots.txt", "User-agent: *\nDisallow: /", "text/plain")
    reader.clock.wait(days=2)
    with pytest.raises(SourceInvalid, match="robots"):
        reader.connector(feed).probe()


_HTML = "<!DOCTYPE html>\n<html>\n<a href='https://a.example/'>a</a></html>"


@pytest.mark.parametrize("text", ["exmaple\n", "<opml><body/></opml>", "%PDF-1.4\n/URI (http://a.example)", _HTML])
def test_file_without_an_address_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "list"
    file.write_text(text)
    with pytest.raises(BadInput, match="names no address"):
        WebSettings.located(str(file))
