"""Entries of feeds keep their identity: each stays one document, with any kind of ID and through any change around it."""

from __future__ import annotations

from collections.abc import Callable

import orjson
import pytest

from catchment.content.normalize import normalize
from tests.connectors.web.conftest import Clock, Reader, page
from tests.connectors.web.server import Host, SmallWeb

_WORDS = ("abacus", "slidewheel", "planimeter", "pantograph")
Entry = dict[str, str]
Make = Callable[[list[Entry]], str]


def _rss(version: str) -> Make:
    def make(entries: list[Entry]) -> str:
        items = "".join(
            "<item>"
            + (f"<guid isPermaLink='false'>{entry['id']}</guid>" if "id" in entry else "")
            + (f"<link>{entry['link']}</link>" if "link" in entry else "")
            + (f"<enclosure url='{entry['file']}' type='audio/mpeg' length='1'/>" if "file" in entry else "")
            + (f"<title>{entry['title']}</title>" if "title" in entry else "")
            + f"<description>{entry['text']}</description></item>"
            for entry in entries
        )
        return f'<rss version="{version}"><channel><title>F</title>{items}</channel></rss>'

    return make


def _rdf(entries: list[Entry]) -> str:
    items = "".join(
        f"<item rdf:about='{entry.get('id', '')}'><title>{entry.get('title', '')}</title>"
        f"<link>{entry.get('link', '')}</link><description>{entry['text']}</description></item>"
        for entry in entries
    )
    spaces = 'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"'
    return f"<rdf:RDF {spaces}><channel rdf:about='x'><title>F</title></channel>{items}</rdf:RDF>"


def _atom(entries: list[Entry]) -> str:
    items = "".join(
        "<entry>"
        + (f"<id>{entry['id']}</id>" if "id" in entry else "")
        + (f"<link href='{entry['link']}'/>" if "link" in entry else "")
        + (f"<link rel='enclosure' href='{entry['file']}'/>" if "file" in entry else "")
        + f"<title>{entry.get('title', '')}</title><summary>{entry['text']}</summary></entry>"
        for entry in entries
    )
    return f'<feed xmlns="http://www.w3.org/2005/Atom"><title>F</title>{items}</feed>'


def _json(entries: list[Entry]) -> str:
    items = [
        {
            **{name: entry[key] for name, key in (("id", "id"), ("url", "link"), ("title", "title")) if key in entry},
            "summary": entry["text"],
            "attachments": [{"url": entry["file"], "mime_type": "audio/mpeg"}] if "file" in entry else [],
        }
        for entry in entries
    ]
    return orjson.dumps({"version": "https://jsonfeed.org/version/1.1", "title": "F", "items": items}).decode()


_FORMATS = {"0.91": _rss("0.91"), "2.0": _rss("2.0"), "rdf": _rdf, "atom": _atom, "json": _json}
_IDENTITIES = {
    "own IDs, one link": {"id": "v{n}", "link": "/log", "title": "Version {n}"},
    "fragments": {"link": "/log#n{n}", "title": "Note {n}"},
    "IDs and fragments": {"id": "tag:x,2024:{n}", "link": "/log#n{n}"},
    "links": {"link": "/{n}"},
    "one link": {"link": "/log", "title": "Note {n}"},
    "one ID": {"id": "N/A", "link": "/{n}"},
    "one ID, no link": {"id": "N/A", "title": "Note {n}"},
    "titles": {"title": "Note {n}"},
    "nothing": {},
    "files": {"file": "/{n}.mp3", "title": "Show"},
}
_IMPOSSIBLE = [("rdf", {"file", "title"}), ("atom", {"id", "title"})]


@pytest.fixture
def blog(small_web: SmallWeb) -> Host:
    return small_web.hosts[0]


def _entries(blog: Host, identity: dict[str, str], words: tuple[str, ...] = _WORDS) -> list[Entry]:
    return [
        {
            **{
                name: (blog.address() if text.startswith("/") else "")
                + text.removeprefix("/").format(n=_WORDS.index(word))
                for name, text in identity.items()
            },
            "text": f"On the {word}",
        }
        for word in words
    ]


_each_possible = pytest.mark.parametrize(
    ("form", "identity"),
    [
        pytest.param(form, identity, id=f"{form}-{name}")
        for form in _FORMATS
        for name, identity in _IDENTITIES.items()
        if (form, identity.keys()) not in _IMPOSSIBLE
    ],
)


def _texts(reader: Reader) -> dict[str, str]:
    return {place: normalize(row.content).text for place, row in reader.ledger.present().items() if row.content}


@_each_possible
def test_entries_are_documents_of_their_own_and_stay_so(
    blog: Host, reader: Reader, clock: Clock, form: str, identity: dict[str, str]
) -> None:
    make = _FORMATS[form]
    blog.put("/log", page("All versions"))
    feed = blog.put("/feed", make(_entries(blog, identity, _WORDS[1:])))
    source = reader.connector(feed)
    reader.sync(source)
    before = _texts(reader)
    numbers = {reader.ledger.rows[place].number for place in before}
    assert len(before) == 3
    for word in _WORDS[1:]:
        assert sum(word in text for text in before.values()) == 1
    blog.put("/feed", make(_entries(blog, identity)))
    report = reader.sync(source)
    after = _texts(reader)
    assert (len(after), len(report.new), report.deleted) == (4, 1, set())
    assert numbers < {reader.ledger.rows[place].number for place in after}
    clock.wait(days=9)
    report = reader.sync(source)
    assert (report.new, report.changed, report.moved, _texts(reader)) == (set(), set(), {}, after)


@_each_possible
def test_entry_that_gets_a_first_neighbour_keeps_its_identity(
    blog: Host, reader: Reader, form: str, identity: dict[str, str]
) -> None:
    blog.put("/log", "<html></html>")
    source = reader.connector(blog.put("/feed", _FORMATS[form](_entries(blog, identity, _WORDS[1:2]))))
    reader.sync(source)
    [row] = reader.ledger.present().values()
    number = row.number
    blog.put("/feed", _FORMATS[form](_entries(blog, identity, _WORDS[:2])))
    report = reader.sync(source)
    assert (len(report.new), report.deleted, len(reader.ledger.present())) == (1, set(), 2)
    [place] = [place for place, text in _texts(reader).items() if _WORDS[1] in text]
    assert reader.ledger.rows[place].number == number


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"id": "http://blog.example/?p=1"}, {"id": "https://blog.example/?p=1"}),
        ({"id": "http://blog.example/A/"}, {"id": "https://blog.example/a"}),
        ({"id": "ABC-1"}, {"id": "abc-1"}),
        ({"id": "a", "link": "/old"}, {"id": "a", "link": "/new"}),
        ({"id": "a", "link": "/same"}, {"id": "b", "link": "/same"}),
        ({"link": "/same"}, {"id": "b", "link": "/same"}),
        ({"id": "a"}, {"id": "other"}),
    ],
)
def test_entry_whose_id_or_link_changes_is_the_same(
    blog: Host, reader: Reader, before: dict[str, str], after: dict[str, str]
) -> None:
    source = reader.connector(blog.put("/feed", _atom(_entries(blog, before, _WORDS[:1]))))
    reader.sync(source)
    [row] = reader.ledger.present().values()
    number = row.number
    blog.put("/feed", _atom(_entries(blog, after, _WORDS[:1])))
    report = reader.sync(source)
    [row] = reader.ledger.present().values()
    assert (row.number, report.new, report.deleted) == (number, set(), set())


def test_ids_that_differ_in_case_are_two_entries(blog: Host, reader: Reader) -> None:
    entries = [{"id": name, "title": name, "text": f"On the {name}"} for name in ("yt:abC", "yt:abc")]
    source = reader.connector(blog.put("/feed", _atom(entries[:1])))
    reader.sync(source)
    blog.put("/feed", _atom(entries))
    assert len(reader.sync(source).new) == 1
    blog.put("/feed", _atom(entries[1:]))
    reader.sync(source)
    assert len(_texts(reader)) == 2
