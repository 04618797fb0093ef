"""The day and the author of a page: the stated ones before the shown ones, and never those of other content."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from catchment.content.extract import extract
from catchment.content.normalize import normalize
from catchment.model import Document, EntityKind, RawContent

_TEXT = "<p>The mill stands beside the lower sluice and has been repaired twice since the great flood.</p>" * 5
_ADDRESS = "https://river.example/notes/mill"
_TODAY = f"{datetime.now(UTC):%Y-%m-%d}"


def _page(body: str, head: str = "", address: str = _ADDRESS) -> Document:
    page = f"<!doctype html><html><head><title>The mill</title>{head}</head><body>{body}</body></html>"
    return normalize(RawContent(page.encode(), "mill.html", address=address))


def _article(byline: str) -> str:
    return f"<nav><a href=/>Home</a></nav><article><h1>The mill</h1>{byline}{_TEXT}</article><footer>© 2015–2023 River</footer>"


def _day(document: Document) -> str | None:
    return f"{document.created:%Y-%m-%d}" if document.created else None


@pytest.mark.parametrize(
    "head",
    [
        '<meta property="article:published_time" content="2024-05-17T10:00:00+02:00">',
        '<meta name="date" content="17 May 2024">',
        '<meta name="pubdate" content="2024/05/17">',
        '<meta name="citation_publication_date" content="2024/05/17">',
        '<meta name="DC.date.created" content="Fri, 17 May 2024 10:00:00 GMT">',
        '<meta property="article:published_time" content="0001-01-01"><meta name="date" content="2024-05-17">',
        '<meta property="article:published_time" content="2099-01-01"><meta name="date" content="2024-05-17">',
        '<script type="application/ld+json">{"@type": "BlogPosting", "datePublished": "2024-05-17"}</script>',
    ],
)
def test_page_states_its_day(head: str) -> None:
    document = _page(_article("<time datetime=2020-01-01>2020</time>"), head, "https://river.example/2021/01/02/mill")
    assert (_day(document), "date-from" in document.properties) == ("2024-05-17", False)


@pytest.mark.parametrize(
    "body",
    [
        _article("<p>By Ada on <time datetime='2024-05-17T09:00'>17 May</time></p>"),
        _article("<span itemprop=datePublished content=2024-05-17>May</span>"),
        _article("<abbr class=published title=2024-05-17T10:00:00Z>May 17</abbr>"),
        _article(
            "<time class=updated datetime=2025-07-01>1 July</time><time class=published datetime=2024-05-17>May</time>"
        ),
        _article("<time datetime=2025-07-01>Updated 1 July</time><time datetime=2024-05-17>17 May</time>"),
        _article("").replace("</article>", "<time datetime=2024-05-17>17 May</time></article>"),
        f"<aside><time datetime=2026-01-02>2 Jan</time></aside>{_article('<time datetime=2024-05-17>17 May</time>')}",
        f"<header><time datetime={_TODAY}>Today</time></header>{_article('<time datetime=2024-05-17>17 May</time>')}",
        _article("<time datetime=2024-05-17>17 May</time><p>The flood of <time datetime=1947-03-18>1947</time>"),
        f"<header><h1>The mill</h1><time datetime=2024-05-17>17 May</time></header><main>{_TEXT}</main>",
    ],
)
def test_time_of_the_article_is_its_day(body: str) -> None:
    document = _page(body)
    assert (_day(document), "date-from" in document.properties) == ("2024-05-17", False)


@pytest.mark.parametrize(
    "path",
    [
        "2024/05/17/mill",
        "2024/5/17/mill",
        "blog/2024-05-17-mill.html",
        "2024/may/17/mill",
        "world/2024/May/17/mill",
        "20240517/mill",
    ],
)
def test_day_in_the_address_is_a_guess(path: str) -> None:
    for document in (
        _page(_article(""), address=f"https://river.example/{path}"),
        _page(_article(""), f'<link rel=canonical href="/{path}">', "https://river.example/?p=17"),
    ):
        assert (_day(document), document.properties["date-from"]) == ("2024-05-17", "address")


@pytest.mark.parametrize(
    "byline",
    [
        "<div class=post-meta>Posted on May 17, 2024 by Ada</div>",
        "<span class=date>17 May 2024</span>",
        "<p class=byline>By Ada Weir | 17 May 2024</p>",
        "<p class=meta>Veröffentlicht am 17. Mai 2024 von Ada Wehr</p>",
        "<span class=datum>17.05.2024</span>",
        "<p class=date>Publié le 17 mai 2024</p>",
        "<p class=date>2024年5月17日</p>",
        "<p class=info>2024-05-17</p>",
        "<time>May 17, 2024</time>",
        "<p class=fecha>17 de mayo de 2024 por José Molina</p>",
        "<section><span>May 17, 2024</span> · <span>Ada Weir</span></section>",
        "<div><a href=/@ada>Ada Weir</a><div>May 17, 2024</div></div>",
    ],
)
def test_day_beside_the_heading_is_a_guess(byline: str) -> None:
    document = _page(_article(byline))
    assert (_day(document), document.properties["date-from"]) == ("2024-05-17", "text")


@pytest.mark.parametrize(
    ("body", "address"),
    [
        (_article(""), _ADDRESS),
        (_article("").replace("2015–2023", f"{datetime.now(UTC):%Y}"), _ADDRESS),
        (_article("").replace("</article>", "<p>It burned on 12 March 2019 and again on 4 June 2021."), _ADDRESS),
        (_article(f"<div class=date>{datetime.now(UTC):%A, %B %d, %Y}</div>"), _ADDRESS),
        (_article("<p>Last updated: May 17, 2024</p>"), _ADDRESS),
        (f"<aside><time datetime=2026-01-02>2 Jan</time></aside>{_article('')}", _ADDRESS),
        (f"{_article('')}<section class=comments><time datetime=2025-03-04>4 March</time></section>", _ADDRESS),
        (f"{_article('')}<article><h2>Other</h2><time datetime=2025-03-04>4 March</time></article>", _ADDRESS),
        (f"{_article('')}<section class=related><span class=date>3 June 2025</span></section>", _ADDRESS),
        (_article("<div class=reviews><div class=review>3 June 2025: good</div></div>"), _ADDRESS),
        (_article("<p>Released 2019</p>"), _ADDRESS),
        (_article(""), "https://river.example/2024/05/mill"),
        (_article(""), "https://river.example/2024/13/45/mill"),
        (_article(""), "https://river.example/2024/02/30/mill"),
        (_article(""), "https://river.example/2099/05/17/mill"),
        (_article(""), "https://river.example/products/20240517890"),
        (_article("<time datetime=2099-05-17>2099</time>"), _ADDRESS),
    ],
)
def test_page_without_a_day_gets_none(body: str, address: str) -> None:
    document = _page(body, address=address)
    assert (_day(document), "date-from" in document.properties) == (None, False)


def test_list_of_posts_has_no_day() -> None:
    posts = "".join(
        f"<article><h2>{n}</h2><time datetime=2024-05-0{n}>{n} May</time>{_TEXT}</article>" for n in range(1, 6)
    )
    assert _day(_page(f"<h1>River notes</h1>{posts}")) is None


@pytest.mark.parametrize(
    ("body", "author"),
    [
        (
            _article("<p>By <a rel=author href=/a>Ada Weir</a> and <a rel=author href=/b>Ben Lock</a></p>"),
            "Ada Weir, Ben Lock",
        ),
        (_article("<span itemprop=author itemscope><b>By</b> <span itemprop=name>Ada Weir</span></span>"), "Ada Weir"),
        (_article("<p>Posted by <a href=/author/ada>Ada Weir</a></p>"), "Ada Weir"),
        (_article("<p class=byline>By Ada Weir | 17 May 2024</p>"), "Ada Weir"),
        (_article("<p>Veröffentlicht am 17. Mai 2024 von Ada Wehr</p>"), "Ada Wehr"),
        (_article("<div class=author-name>Ada Weir</div>"), "Ada Weir"),
        (_article("<span class=post-author>Posted by <span>Ada Weir</span></span>"), "Ada Weir"),
        (_article("<span class=author>admin</span>"), None),
        (_article("<p>Photo by Ada Weir</p>"), None),
        (_article("<p>Powered by the river</p>"), None),
        (f"{_article('')}<section class=comments><span class=author>Troll</span></section>", None),
    ],
)
def test_author_is_that_of_the_article(body: str, author: str | None) -> None:
    assert _page(body).author == author


def test_author_of_linked_data_may_be_a_reference() -> None:
    data = '[{"@type": "Article", "datePublished": "2024-05-17", "author": {"@id": "#a"}}, {"@id": "#a", "name": "Ada Weir"}]'
    assert _page("<p>text", f'<script type="application/ld+json">{data}</script>').author == "Ada Weir"


def test_tags_of_an_article_are_tags() -> None:
    document = _page(
        "<p>text", '<meta property="article:tag" content="Canals"><meta property="article:tag" content="Oak trade">'
    )
    assert document.properties["tags"] == ["Canals", "Oak trade"]
    assert {entity.value for entity in extract(document).entities if entity.kind is EntityKind.TAG} == {
        "canals",
        "oak trade",
    }
