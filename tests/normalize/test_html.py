"""Web pages as Markdown: headings, links, rows and code keep their structure."""

from __future__ import annotations

from time import process_time

import pytest

from catchment.content.extract import extract
from catchment.content.normalize import normalize, unpacked
from catchment.content.normalize.html import html
from catchment.content.normalize.html.nesting import closed
from catchment.model import EntityKind, RawContent


def _links(page: str) -> list[tuple[str, str]]:
    return [(link.label, link.target) for link in extract(html(page.encode())).links]


def _headings(page: str) -> list[str]:
    return [each.value for each in extract(html(page.encode())).entities if each.kind is EntityKind.HEADING]


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<h2><div class=icon></div>Weir</h2><p>low", "## Weir\n\nlow"),
        ("<ul><li><div class=mark></div>one<li>two</ul>", "- one\n- two"),
        ("<h1>The upper<br>weir</h1>", "# The upper weir"),
        ('<ol start="5"><li>five<li>six</ol><ol start="x"><li>one</ol>', "5. five\n6. six\n\n1. one"),
        ("<table><tr><td><p>1</p></td><td> <p>2</p> </td></tr><tr><td>3<td>4</table>", "1 | 2\n3 | 4"),
        ("<table><tr><td><div><p>one</p><p>two</p></div></td></tr></table>", "one\n\ntwo"),
        ("<div>words</div><hr><div>more</div>", "words\n\n---\nmore"),
        ("<pre>```\nls\n```</pre>", "````\n```\nls\n```\n````"),
        ("<pre>a<pre>b</pre>c</pre>d", "```\na\nb\n\nc\n```\n\nd"),
    ],
)
def test_a_page_keeps_its_structure(page: str, text: str) -> None:
    assert html(page.encode()).text == text


@pytest.mark.parametrize(
    ("page", "links"),
    [
        ('<a href="a.html"><h3>Title</h3><p>Words</p></a>', [("Title", "a.html")]),
        ('<a href="a.html"><div></div><p>Words</p></a>', [("Words", "a.html")]),
        ('<div><a href="a.html"><p>One</p></a><a href="b.html"><p>Two</p></a>', [("One", "a.html"), ("Two", "b.html")]),
        ('<a href="a.html">one<br><br>two</a>', [("one two", "a.html")]),
        ('<a href="a.html"><table><tr><td>Map<td><h2>Weir</h2></table></a>', [("Map", "a.html")]),
        ('<a href="a.html">see [1</a>', [("see [1", "a.html")]),
        ('<a href="a.html">[1]</a>', [("[1]", "a.html")]),
        ('<a href="a.html">[[x]]</a>', [("[[x]]", "a.html")]),
        ('<a href="a\n b.html">x</a>', [("x", "a b.html")]),
        ('<a href="a<b>.html">x</a>', [("x", "a<b>.html")]),
    ],
)
def test_link_of_a_page_is_extracted_from_its_text(page: str, links: list[tuple[str, str]]) -> None:
    assert _links(page) == links


def test_code_that_contains_a_fence_is_fenced_longer() -> None:
    page = '<pre>```\n# no heading</pre><h2>Later</h2><p><a href="a.html">x</a>'
    assert _headings(page) == ["Later"]
    assert _links(page) == [("x", "a.html")]


def test_line_above_a_rule_is_not_a_heading() -> None:
    assert _headings("<div>From the weir</div><hr><div>Ada</div>") == []


def test_page_without_title_is_named_by_its_heading() -> None:
    assert html(b"<h1>The upper<br>weir</h1>").title == "The upper weir"


def test_encoding_in_xml_declaration_of_a_page_is_used() -> None:
    page = '<?xml version="1.0" encoding="windows-1251"?><html><body><p>Плотина</p></body></html>'
    assert html(page.encode("cp1251")).text == "Плотина"


_XHTML = (
    '<html xmlns="http://www.w3.org/1999/xhtml"><head>{}</head><body><p>The keeper oiled the gate.</p>{}</body></html>'
)


@pytest.mark.parametrize("address", ["", "https://example.org/"])
@pytest.mark.parametrize(
    ("name", "media_type", "start"),
    [
        ("a.xhtml", None, ""),
        ("a.xht", None, "<!DOCTYPE html>"),
        ("a.html", "application/xhtml+xml", ""),
        ("a.html", "text/html", '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html>'),
        ("a", "text/html", '<?xml version="1.0"?>\n<!-- made by hand -->'),
    ],
)
@pytest.mark.parametrize(
    "element",
    [
        f"<{name}/>"
        for name in ("script", "style", "title", "iframe", "textarea", "noscript", "xmp", "select", "a", "button")
    ]
    + ['<script src="a>b.js" />', "<SCRIPT a='>'\n/>", '<svg xmlns="http://www.w3.org/2000/svg"><title/></svg>'],
)
def test_element_that_xhtml_closes_by_a_slash_takes_no_text(
    name: str, media_type: str | None, start: str, element: str, address: str
) -> None:
    for page in (_XHTML.format(element, ""), _XHTML.format("<title>x</title>", element + "<p>It is dry.</p>")):
        raw = RawContent((start + page).encode(), name, media_type=media_type, address=address)
        document = normalize(raw)
        assert "The keeper oiled the gate." in document.text
        assert "It is dry." in document.text or "dry" not in page
        assert unpacked(raw)[1] == document.media_type == "application/xhtml+xml"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<p><![CDATA[1 < 2 && <b>]]> end</p>", "1 < 2 && <b> end"),
        ("<p>a<?php echo '>'; ?>b</p>", "ab"),
        ("<p>a<!-- <script/> -->b</p>", "ab"),
        ("<script>document.write('<script src=x/>')</script><p>a</p>", "a"),
        ("<p>one<br/>two<br />three</p>", "one\ntwo\nthree"),
        ("<table><tr><td/><td>b</td></tr></table>", "b"),
        ("<ul><li/><li>b</li></ul>", "- b"),
        ("<div class='rule'/><p>a</p>", "a"),
        ('<p title="a/>b"/><p>a</p>', "a"),
        ("<p>a<![CDATA[b", "ab"),
        ("<p>a<!-- b", "a"),
        ('<p>a<b title="c', "a"),
    ],
)
def test_xhtml_is_read_as_xml_says(body: str, text: str) -> None:
    assert html(f"<html><body>{body}".encode(), "application/xhtml+xml").text == text


def test_slash_means_nothing_in_html() -> None:
    assert html(b"<title>x</title><script/></script><p>a<textarea/>b</textarea>").text == "ab"


@pytest.mark.parametrize("part", ["<!--", "<![CDATA[", "<?", '<a "', "<a '", "<script>", "<a/", '<a b="c', "<a />"])
def test_xhtml_takes_linear_time(part: str) -> None:
    start = process_time()
    closed(part.encode() * 200_000)
    assert process_time() - start < 2
