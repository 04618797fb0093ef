"""Web pages as Markdown: headings, links, rows and code keep their structure."""

from __future__ import annotations

import pytest

from catchment.content.extract import extract
from catchment.content.normalize.html import html
from catchment.model import EntityKind


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
