"""Web pages: the main text, its structure and the metadata of the page. The expected phrases were written first.

A new case is a page and its JSON file in `web_pages`; no code is needed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import orjson
import pytest

from catchment.content.normalize import normalize
from catchment.content.parsing import Read, ReadTask, read
from catchment.model import Document, Item, RawContent

_PAGES = sorted((Path(__file__).parent / "web_pages").glob("*.html"))


def _facts(document: Document) -> dict[str, Any]:
    moments = {name: getattr(document, name) for name in ("created", "modified")}
    return {
        "title": document.title,
        "author": document.author,
        "language": document.language,
        **{name: moment.isoformat() for name, moment in moments.items() if moment},
        **{name: document.properties[name] for name in ("canonical", "site") if name in document.properties},
    }


@pytest.mark.parametrize("path", _PAGES, ids=lambda path: path.stem)
def test_page_gives_its_main_text_and_facts(path: Path) -> None:
    expected = orjson.loads(path.with_suffix(".json").read_bytes())
    document = normalize(RawContent(path.read_bytes(), path.name, address=expected.pop("address")))
    text = document.text
    missing = [phrase for phrase in expected.pop("has") if phrase not in text]
    surplus = [phrase for phrase in expected.pop("lacks") if phrase in text]
    found = {key: value for key, value in _facts(document).items() if value is not None}
    assert (missing, surplus, found) == ([], [], expected)


def _page(body: str, address: str = "https://example.org/a/b") -> Document:
    return normalize(RawContent(f"<html><body>{body}</body></html>".encode(), "page.html", address=address))


def test_linked_data_with_half_an_emoji_is_read() -> None:
    data = r'{"@type": "Article", "datePublished": "2024-03-01", "headline": "\ud83d", "author": "Ada \ud83c\udf3e", "x": NaN}'
    document = _page(f'<script type="application/ld+json">{data}</script><p>The pump is back.')
    assert (document.author, document.created and document.created.isoformat()[:10]) == ("Ada 🌾", "2024-03-01")


def test_same_bytes_at_two_addresses_are_two_contents_and_files_keep_theirs() -> None:
    raw = b"<p><a href=x>y</a>"
    keys = [
        Read.decode(
            read(ReadTask(Item("x", None, "1"), b"", RawContent(raw, "page.html", address=address)))
        ).content_hash
        for address in ("https://example.org/a/", "https://example.org/b/", "")
    ]
    assert len(set(keys)) == 3
    assert keys[2] == hashlib.sha256(raw).hexdigest()


def test_links_that_are_no_addresses_stay_as_they_are() -> None:
    text = _page('<a href="http://[1">one</a> <a href="mailto:a@example.org">two</a> <a href="?q=1">three</a>').text
    assert text == "[one](http://[1) [two](mailto:a@example.org) [three](https://example.org/a/b?q=1)"


def test_pictures_that_load_late_have_their_address() -> None:
    assert (
        _page('<p>low <img alt=Weir src="data:x" data-src="w.jpg">').text == "low ![Weir](https://example.org/a/w.jpg)"
    )


def test_text_that_only_the_library_sees_is_not_lost() -> None:
    words = "The council voted late on Tuesday to build the tram line between the harbour and the university."
    assert words in _page(f"<noscript><p>{words}</p><p>{words[::-1]}</p></noscript>").text


def test_a_login_page_says_so() -> None:
    assert _page("<form><p>Your name</p><input><input type=password></form>").warnings == ("the page asks for a login",)


@pytest.mark.parametrize("page", ["<div><b>" * 5_000 + "words", "<ul><li>" * 30_000 + "words", "<p>words" * 11_000])
def test_deep_and_large_pages_keep_their_text(page: str) -> None:
    assert "words" in _page(page).text


def test_soft_hyphens_do_not_split_words() -> None:
    assert _page("<p>Mit&shy;tel\u00adalter").text == "Mittelalter"
