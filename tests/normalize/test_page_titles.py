"""Titles of pages: that of the article, not the name of the site, in files and in fetched pages."""

from __future__ import annotations

import pytest

from catchment.content.normalize import normalize
from catchment.model import RawContent

_TEXT = "<p>The mill stands beside the lower sluice and has been repaired twice since the great flood.</p>" * 3
_SITE = '<meta property="og:site_name" content="Tern End Notes">'
_LINK = "<h1><a href=/>Tern End Notes</a></h1>"


@pytest.mark.parametrize(
    ("head", "body", "title"),
    [
        # The name of the site is the first heading
        ("<title>Sourdough | Tern End Notes</title>", f"<header>{_LINK}</header><article><h2>Sourdough</h2>", "Sourdough"),
        ("<title>Sourdough | Tern End Notes</title>", "<h1><a href=https://tern.example/>Tern End Notes</a></h1>", "Sourdough"),
        ("<title>Sourdough - Tern End Notes</title>", "<h1>Tern End Notes</h1>", "Sourdough"),
        ("<title>Rye – Part 2 | Tern End Notes</title>", "<h1>Tern End Notes</h1>", "Rye – Part 2"),
        ("<title>Tern End Notes - Locks</title>", "<h1>Tern End Notes</h1><article><h2>Locks</h2>", "Locks"),
        ("<title>Tern End Notes - Locks</title>", "<h1><a href=/index.html>Tern End Notes</a></h1><h3>Locks</h3>", "Locks"),
        (f"<title>Weirs – Tern End Notes</title>{_SITE}", "<h1>Tern End Notes</h1><article><h1>Weirs</h1>", "Weirs"),
        (f"<title>Tern End Notes: all</title>{_SITE}", "<h1>Tern End Notes</h1>", "Tern End Notes: all"),
        (f"<title>tern end notes | Locks</title>{_SITE}", "<h1>Tern End Notes</h1>", "Locks"),
        (f'<title>Locks</title><meta property="og:title" content="Tern End Notes">{_SITE}', "<h1>Tern End Notes</h1>", "Locks"),
        (_SITE, "<h1>Tern End Notes</h1><h1>Locks</h1>", "Locks"),
        ("", f"{_LINK}<h1>Locks</h1>", "Locks"),
        # The name of the site is the only title
        ("<title>Tern End Notes</title>", "<h1>Tern End Notes</h1>", "Tern End Notes"),
        (_SITE, _LINK, "Tern End Notes"),
        # The first heading is the title
        ("<title>The cost of coal – Tern End Notes</title>", "<h1>The cost of coal</h1>", "The cost of coal"),
        ("<title>Tern End Notes - Locks</title>", "<main><h1>Locks</h1>", "Locks"),
        ("<title>ARM: a history</title>", "<h1>ARM: a history</h1>", "ARM: a history"),
        ("<title>Spain – France: 2–1 | Sport</title>", "<h1>Spain – France: 2–1</h1>", "Spain – France: 2–1"),
        ("<title>Locks | News | Tern End Notes</title>", "<h1>Locks</h1><h2>News</h2>", "Locks"),
        ("<title>古い水車小屋｜山里だより</title>", "<h1>古い水車小屋</h1>", "古い水車小屋"),
        ("", "<h1>The <ruby>水車<rt>すいしゃ</rt></ruby></h1>", "The 水車"),
        # Titles that are no names with a site
        ("<title>Levels - draft 2</title>", "<h1>What we measured</h1>", "Levels - draft 2"),
        ("<title>Levels\n of May</title>", "<p>", "Levels of May"),
        ("", "<svg><title>Menu</title></svg><h1>Locks</h1>", "Locks"),
        ("", "<p>x", None),
        ("<title></title>", '<h1><a href="http://[1">Locks</a></h1>', "Locks"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("address", ["", "https://tern.example/a/b"])
def test_title_is_that_of_the_page_and_not_of_its_site(head: str, body: str, title: str | None, address: str) -> None:
    page = f"<html><head>{head}</head><body>{body}{_TEXT}</body></html>"
    assert normalize(RawContent(page.encode(), "a.html", address=address)).title == title
