"""Feeds and lists that name the same link: each one's text is kept."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest

from catchment.content.normalize import normalize
from catchment.model import Document
from tests.connectors.web.conftest import Clock, Reader, entry, page, put_list, rss
from tests.connectors.web.server import Host, Page, SmallWeb

_LONG = "The mill stands beside the lower sluice and has been repaired twice since the great flood."


@pytest.fixture
def blog(small_web: SmallWeb) -> Host:
    return small_web.hosts[0]


def _documents(reader: Reader) -> dict[str, Document]:
    return {place: normalize(row.content) for place, row in reader.ledger.present().items() if row.content}


def _texts(reader: Reader) -> list[str]:
    return sorted(document.text for document in _documents(reader).values())


def _full(blog: Host, name: str) -> str:
    return blog.put(f"/{name}", rss(entry(name, blog.address("/a"), full=f"<p>All of {name}</p>")))


def _summary(blog: Host, name: str, text: str = "") -> str:
    summary = text or f"Says {name} of {name}birds and {name}trees"
    return blog.put(f"/{name}", rss(entry(name, blog.address("/a"), summary=summary, title=f"Title of {name}")))


def test_full_entries_of_several_feeds_are_documents_of_their_own(blog: Host, reader: Reader, clock: Clock) -> None:
    first_feed, second_feed, third_feed = (_full(blog, name) for name in ("one", "two", "three"))
    reader.sync(reader.connector(first_feed))
    number = reader.ledger.rows[blog.address("/a")].number
    reader.sync(source := reader.connector(second_feed, first_feed, third_feed))
    assert _texts(reader) == ["All of one", "All of three", "All of two"]
    assert reader.ledger.rows[blog.address("/a")].number == number
    blog.change("/three", rss(entry("three", blog.address("/a"), full="<p>All of three, now longer</p>")))
    for deep in (False, True):
        clock.wait(days=1)
        report = reader.sync(source, deep=deep)
        assert (report.new, report.deleted, report.moved) == (set(), set(), {})
    assert _texts(reader) == ["All of one", "All of three, now longer", "All of two"]
    report = reader.sync(reader.connector(second_feed, third_feed))
    assert _texts(reader) == ["All of three, now longer", "All of two"]


def test_page_has_what_each_feed_says_of_it(blog: Host, reader: Reader, clock: Clock) -> None:
    source = reader.connector(_summary(blog, "one"), _summary(blog, "two"))
    address = blog.put("/a", page(_LONG))
    reader.sync(source)
    for name in ("one", "two"):
        assert f"Says {name} of {name}birds" in _documents(reader)[address].text
    assert list(_documents(reader)) == [address]
    for changed_name in ("one", "two"):
        blog.change(
            f"/{changed_name}",
            rss(entry(changed_name, address, summary=f"Now {changed_name}birds leave {changed_name}trees")),
        )
        clock.wait(days=8)
        assert reader.sync(source).changed == {address}
        assert f"Now {changed_name}birds leave {changed_name}trees" in (text := _documents(reader)[address].text)
        assert _LONG in text
    assert "Now onebirds" in _documents(reader)[address].text
    for deep in (False, True):
        clock.wait(days=8)
        report = reader.sync(source, deep=deep)
        assert (report.new, report.changed, report.deleted) == (set(), set(), set())
    content = source.fetch(reader.ledger.rows[address].item)
    assert "Now onebirds" in content.summary and "Now twobirds" in content.summary


def test_page_that_cannot_be_read_has_what_each_feed_says(blog: Host, reader: Reader, clock: Clock) -> None:
    source = reader.connector(_summary(blog, "one"), _summary(blog, "two"))
    reader.sync(source)
    [document] = _documents(reader).values()
    for text in ("Says one of", "Says two of", "Title of two"):
        assert text in document.text or text == document.title
    reader.sync(source)
    content = source.fetch(reader.ledger.rows[blog.address("/a")].item)
    assert normalize(content).text == document.text
    blog.put("/a", page(_LONG))
    clock.wait(days=8)
    reader.sync(source)
    [document] = _documents(reader).values()
    assert all(text in document.text for text in ("Says one of", "Says two of", _LONG))


def test_entry_that_left_one_feed_stays_in_its_page(blog: Host, reader: Reader, clock: Clock) -> None:
    source = reader.connector(_summary(blog, "one"), _summary(blog, "two"))
    address = blog.put("/a", page(_LONG))
    reader.sync(source)
    blog.change("/one", rss(entry("other", full="<p>Another</p>")))
    for _ in range(2):
        clock.wait(days=2)
        assert address not in reader.sync(source).changed
    assert "Says one of" in _documents(reader)[address].text
    blog.change("/a", page(f"{_LONG} The weir froze."))
    clock.wait(days=8)
    reader.sync(source)
    assert "Says two of" in (text := _documents(reader)[address].text) and "froze" in text


_NAMING: dict[str, Callable[[Host], str]] = {
    "list": lambda blog: put_list(blog, blog.address("/a")),
    "page": lambda blog: blog.address("/a"),
    "summary": lambda blog: _summary(blog, "summary"),
    "full": lambda blog: _full(blog, "full"),
    "other": lambda blog: _full(blog, "other"),
}
_SAID = {"list": _LONG, "page": _LONG, "summary": "Says summary of", "full": "All of full", "other": "All of other"}


@pytest.mark.parametrize("names", [*permutations(_NAMING, 2), *permutations(_NAMING, 3)], ids="-".join)
def test_nothing_is_lost_in_any_order(blog: Host, reader: Reader, clock: Clock, names: tuple[str, ...]) -> None:
    blog.put("/a", page(_LONG))
    addresses = [_NAMING[name](blog) for name in names]
    for known in range(1, len(names) + 1):
        clock.wait(days=8)
        reader.sync(reader.connector(*addresses[:known]))
        for name in names[:known]:
            assert any(_SAID[name] in text for text in _texts(reader)), (name, _texts(reader))
        numbers = {row.number for row in reader.ledger.present().values()}
    for source in (reader.connector(*addresses), reader.connector(*reversed(addresses))):
        clock.wait(days=8)
        report = reader.sync(source)
        assert (report.new, report.deleted, report.moved) == (set(), set(), {})
    assert {row.number for row in reader.ledger.present().values()} == numbers


def test_page_that_leads_to_a_host_without_consent_leaves_all_summaries(blog: Host, reader: Reader) -> None:
    text_list, first_feed, second_feed = (
        put_list(blog, blog.address("/a")),
        _summary(blog, "one"),
        _summary(blog, "two"),
    )
    blog.pages["/a"] = Page.moved("http://elsewhere.example/")
    report = reader.sync(reader.connector(text_list, first_feed, second_feed))
    [text] = _texts(reader)
    assert "Says one of" in text and "Says two of" in text and report.skipped == {}


def test_entry_that_an_earlier_version_missed_is_found(blog: Host, reader: Reader) -> None:
    first_feed, second_feed = _full(blog, "one"), _full(blog, "two")
    source = reader.connector(first_feed, second_feed)
    reader.sync(source)
    [missing_place] = [place for place in reader.ledger.present() if "#" in place]
    del reader.ledger.rows[missing_place]
    for name, mark in list(reader.ledger.marks.items()):
        if name.startswith("seed:"):
            reader.ledger.marks[name] = f"former {mark}"
    reader.sync(source)
    assert _texts(reader) == ["All of one", "All of two"]


def test_page_that_a_text_list_names_before_its_feeds_has_what_they_say(
    blog: Host, reader: Reader, clock: Clock
) -> None:
    """That an address of the list is a feed is known only when the page was read."""
    address = blog.put("/a", page(_LONG))
    source = reader.connector(put_list(blog, address, _summary(blog, "one"), _summary(blog, "two")))
    reports = [reader.sync(source)]
    while (next_time := reports[-1].changes[-1].again) is not None and next_time <= clock.now:  # type: ignore[union-attr]
        reports.append(reader.sync(source))
        assert len(reports) < 4
    text = _documents(reader)[address].text
    for name in ("one", "two"):
        assert f"Says {name} of {name}birds" in text
    assert _LONG in text
    assert list(_documents(reader)) == [address]
    clock.wait(days=1)
    report = reader.sync(source)
    assert (report.new, report.changed, report.deleted) == (set(), set(), set())
