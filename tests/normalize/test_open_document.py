"""Texts, presentations and drawings of OpenDocument (ODF 1.3 part 3), as packages and as flat files."""

from __future__ import annotations

import io
import zipfile

import pytest

from catchment.content.normalize import normalize
from catchment.model import Document, RawContent
from tests.normalize import samples

_KINDS = ("office", "text", "table", "meta", "style", "presentation", "chart")
_NAMES = "".join(
    (
        *(f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in _KINDS),
        ' xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0" xmlns:dc="http://purl.org/dc/elements/1.1/"',
        ' xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0" xmlns:xlink="http://www.w3.org/1999/xlink"',
    )
)


def _read(body: str, kind: str = "text", automatic: str = "", **parts: str) -> Document:
    """Read a package with this body. `parts`: further files, `__` stands for `/` and the ending is `.xml`."""
    content = (
        f"<office:document-content{_NAMES}><office:automatic-styles>{automatic}</office:automatic-styles>"
        f"<office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    )
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(samples.odt())) as package, zipfile.ZipFile(out, "w") as written:
        written.writestr("mimetype", f"application/vnd.oasis.opendocument.{'graphics' if kind == 'drawing' else kind}")
        written.writestr("META-INF/manifest.xml", package.read("META-INF/manifest.xml"))
        written.writestr("content.xml", content)
        for name, part in parts.items():
            written.writestr(f"{name.replace('__', '/')}.xml", part.replace("NAMES", _NAMES))
    return normalize(RawContent(out.getvalue(), "a.odt"))


def _frame(inside: str, words: str = "") -> str:
    return f"<draw:frame>{words}<draw:text-box>{inside}</draw:text-box></draw:frame>"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"<text:p>before {_frame('<text:p>box</text:p><text:p>more</text:p>')} after</text:p>", "before after\n\nbox\n\nmore"),
        (f"<text:p>{_frame('<text:p>alone</text:p>')}</text:p>", "alone"),
        (f"{_frame('<text:p>of the page</text:p>')}<text:p>x</text:p>", "of the page\n\nx"),
        (
            f"<text:p>x{_frame('<text:p>b</text:p>', '<svg:title>A weir</svg:title><svg:desc>in spring</svg:desc>')}y</text:p>",
            "x y\n\nA weir\n\nin spring\n\nb",
        ),
        (
            "<text:p>a<draw:custom-shape><text:p>one</text:p></draw:custom-shape><draw:g><draw:rect><text:p>two</text:p>"
            "</draw:rect><draw:line/></draw:g>b</text:p>",
            "a b\n\none\n\ntwo",
        ),
        ('<text:p>see <text:a xlink:href="https://weir.example/">the <text:span>weir</text:span></text:a>.</text:p>',
         "see [the weir](https://weir.example/)."),
        ("<text:p>Ka<text:span>tze</text:span>nklo</text:p>", "Katzenklo"),
        ("<text:p>a<office:annotation><dc:creator>Kim</dc:creator><text:p>why?</text:p></office:annotation>b</text:p>",
         "ab\n\nComment: why?"),
        ("<text:tracked-changes><text:p>gone</text:p></text:tracked-changes><text:p>kept</text:p>", "kept"),
        ('<text:h text:outline-level="2">Deep</text:h><text:h text:outline-level="x">Odd</text:h>', "## Deep\n\n# Odd"),
        ("<text:section><text:p>in a section</text:p></text:section>", "in a section"),
        ("<text:table-of-content><text:table-of-content-source/><text:index-body><text:p>Toc</text:p></text:index-body>"
         "</text:table-of-content>", "Toc"),
        ("<text:p># no heading</text:p>", "\\# no heading"),
        (
            '<text:p>a <draw:frame><draw:object><math xmlns="m"><semantics><mi>x</mi><annotation>x over y</annotation>'
            "</semantics></math></draw:object></draw:frame></text:p>", "a\n\nx over y",
        ),
        (
            "<table:table><table:table-row><table:table-cell><text:p>outer</text:p><table:table><table:table-row>"
            "<table:table-cell><text:p>one</text:p></table:table-cell><table:table-cell><text:p>two</text:p></table:table-cell>"
            "</table:table-row></table:table></table:table-cell></table:table-row></table:table>",
            "| outer one two |\n| --- |",
        ),
        ("<text:p><text:span>two</text:span><text:line-break/>lines</text:p>", "two\nlines"),
    ],
)  # fmt: skip
def test_parts_of_a_text_are_read_in_their_place(body: str, expected: str) -> None:
    assert _read(body).text == expected


def _text_style(name: str, position: str = "", parent: str = "", family: str = "text") -> str:
    look = f'<style:text-properties style:text-position="{position}"/>' if position else ""
    return f'<style:style style:name="{name}" style:family="{family}" style:parent-style-name="{parent}">{look}</style:style>'


@pytest.mark.parametrize("kind", ["text", "presentation", "drawing"])
@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("Raised", "10^6^ m"),
        ("Lowered", "10~6~ m"),
        ("Percent", "10^6^ m"),
        ("Below", "10~6~ m"),
        ("Child", "10^6^ m"),
        ("Level", "106 m"),
        ("Own", "10^6^ m"),
        ("OwnOfOwn", "10^6^ m"),
        ("Twice", "10~6~ m"),
        ("Circle", "106 m"),
        ("Unknown", "106 m"),
        ("Paragraph", "106 m"),
    ],
)
def test_numbers_are_raised_and_lowered_by_their_styles(kind: str, style: str, expected: str) -> None:
    named = (
        *(_text_style("Raised", "super 58%"), _text_style("Lowered", "sub 58%"), _text_style("Child", parent="Raised")),
        *(
            _text_style("Level", "0% 100%", "Raised"),
            _text_style("Twice", "super"),
            _text_style("Circle", parent="Circle"),
        ),
        _text_style("Paragraph", "super", family="paragraph"),
    )
    own = (
        *(_text_style("Percent", "33% 58%"), _text_style("Below", "-33% 58%"), _text_style("Own", parent="Child")),
        *(_text_style("OwnOfOwn", parent="Own"), _text_style("Twice", "sub")),
    )
    paragraph = f'<text:p>10<text:span text:style-name="{style}">6</text:span> m</text:p>'
    body = paragraph if kind == "text" else f"<draw:page>{_frame(paragraph)}</draw:page>"
    styles = f"<office:document-styles NAMES><office:styles>{''.join(named)}</office:styles></office:document-styles>"
    assert _read(body, kind, "".join(own), styles=styles).text == expected


def test_raised_text_may_have_spans_and_links_in_it() -> None:
    styles = _text_style("R", "super 58%") + _text_style("N", "0% 100%") + _text_style("B")
    body = (
        '<text:p>10<text:span text:style-name="R"><text:span text:style-name="B">6</text:span></text:span>, '
        '7<text:span text:style-name="R"><text:a xlink:href="https://weir.example/">2</text:a>'
        '<text:span text:style-name="N">5</text:span>th<text:s/>3</text:span></text:p>'
    )
    assert _read(body, automatic=styles).text == "10^6^, 7[2](https://weir.example/)5th ^3^"


def test_lists_have_their_levels_and_numbers() -> None:
    styles = (
        '<text:list-style style:name="N"><text:list-level-style-number text:level="1"/></text:list-style>'
        '<text:list-style style:name="B"><text:list-level-style-bullet text:level="1"/></text:list-style>'
    )
    inner = "<text:list><text:list-item><text:p>inner</text:p></text:list-item></text:list>"
    body = (
        f'<text:list text:style-name="B"><text:list-item><text:p>one</text:p>{inner}</text:list-item></text:list>'
        '<text:p/><text:p>between</text:p><text:list text:style-name="N"><text:list-item><text:p>first</text:p>'
        "<text:p>still first</text:p></text:list-item></text:list>"
    )
    assert _read(body, automatic=styles).text == "- one\n  - inner\n\nbetween\n\n1. first\n\n   still first"


def test_tables_have_repeated_and_covered_cells() -> None:
    def cell(words: str, more: str = "") -> str:
        return f"<table:table-cell{more}><text:p>{words}</text:p></table:table-cell>"

    rows = (
        cell("Hive") + cell("Kilos", ' table:number-columns-spanned="2"') + "<table:covered-table-cell/>",
        cell("x|y", ' table:number-columns-repeated="2"') + cell("9</text:p><text:p>kg"),
        '<table:table-cell table:number-columns-repeated="9999999"/>',
    )
    table = "".join(f"<table:table-row>{row}</table:table-row>" for row in rows)
    text = _read(f"<text:p>a</text:p><table:table>{table}</table:table><text:p>b</text:p>").text
    assert text == "a\n\n| Hive | Kilos |  |\n| --- | --- | --- |\n| x\\|y | x\\|y | 9 kg |\n\nb"


def test_charts_are_their_titles_and_labels() -> None:
    chart = (
        "<office:document-content NAMES><office:body><office:chart><chart:chart><chart:title><text:p>Levels</text:p>"
        "</chart:title><chart:axis><chart:title><text:p>Month</text:p></chart:title></chart:axis><table:table><table:table-row>"
        "<table:table-cell><text:p>March</text:p></table:table-cell><table:table-cell><text:p>7</text:p></table:table-cell>"
        "</table:table-row></table:table></chart:chart></office:chart></office:body></office:document-content>"
    )
    frame = '<draw:frame><draw:object xlink:href="./Object 1"/></draw:frame>'
    document = _read(f"<text:p>See {frame}</text:p>", **{"Object 1__content": chart})
    assert document.text == "See\n\nChart: Levels; Month; March"
    other = _read('<draw:frame><draw:object-ole xlink:href="./Object 9"/></draw:frame>')
    assert other.warnings == ("embedded files not read: 1", "no text found")


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ("<meta:initial-creator>Ada</meta:initial-creator><dc:creator>Kim</dc:creator>", "Ada"),
        ("<dc:creator>Kim</dc:creator>", "Kim"),
        ("<meta:initial-creator/>", None),
    ],
)
def test_author_is_who_wrote_it_first(facts: str, expected: str | None) -> None:
    meta = (
        f"<office:document-meta NAMES><office:meta>{facts}<dc:title>Rules</dc:title><dc:subject>Water</dc:subject>"
        "<meta:keyword>weir</meta:keyword><meta:keyword>bees</meta:keyword><meta:creation-date>2024-03-01T09:30:00"
        "</meta:creation-date><dc:date>2024-03-02T09:30:00</dc:date></office:meta></office:document-meta>"
    )
    document = _read("<text:p>x</text:p>", meta=meta)
    assert (document.title, document.author) == ("Rules", expected)
    assert (document.properties["keywords"], document.properties["subject"]) == (["weir", "bees"], "Water")
    assert document.created is not None
    assert document.modified is not None
    assert (document.created.day, document.modified.day) == (1, 2)


def test_slides_have_titles_and_notes() -> None:
    def page(title: str, rest: str, notes: str = "") -> str:
        note = f"<presentation:notes>{_frame(f'<text:p>{notes}</text:p>')}</presentation:notes>" if notes else ""
        heading = _frame(f"<text:p>{title}</text:p>").replace("<draw:frame>", '<draw:frame presentation:class="title">')
        return f'<draw:page draw:name="x">{rest}{heading}{note}</draw:page>'

    body = page("First", _frame("<text:p>one</text:p>")) + page("Second", "", "say it")
    footer = "<presentation:footer-decl>the foot</presentation:footer-decl>"
    assert _read(footer + body, "presentation").text.startswith("the foot\n\n## First")
    assert _read(body, "presentation").text == "## First\n\none\n\n## Second\n\nNotes on slide 2: say it"
    drawing = _read("<draw:page><draw:rect><text:p>box</text:p></draw:rect></draw:page>", "drawing")
    assert (drawing.text, drawing.media_type) == ("box", "application/vnd.oasis.opendocument.graphics")


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("<svg:desc>A weir</svg:desc>{}", "[A weir](https://weir.example/)"),
        ("{}<text:p>gate</text:p><text:p>more</text:p>", "[gate](https://weir.example/)\n\nmore"),
        ('{}<text:p>a <text:a xlink:href="x:y">b</text:a></text:p>', "https://weir.example/\n\na [b](x:y)"),
        ("{}", "https://weir.example/"),
    ],
)
def test_link_of_a_shape_is_on_its_text(inside: str, expected: str) -> None:
    listener = (
        '<office:event-listeners><presentation:event-listener presentation:action="show" xlink:href="{}"/>'
        "</office:event-listeners>"
    )
    link = listener.format("https://weir.example/")
    around = f'<draw:a xlink:href="https://weir.example/"><draw:rect>{inside.format("")}</draw:rect></draw:a>'
    for kind, page in (("presentation", "<draw:page>{}</draw:page>"), ("text", "{}"), ("text", "<text:p>{}</text:p>")):
        assert _read(page.format(f"<draw:rect>{inside.format(link)}</draw:rect>"), kind).text == expected
        assert _read(page.format(around), kind).text == expected
        for place in ("#page2", "vnd.sun.star.script:a.b?language=Basic"):
            own = f"<draw:rect>{listener.format(place)}<text:p>gate</text:p></draw:rect>"
            assert _read(page.format(own), kind).text == "gate"


def test_margins_of_a_flat_file_are_read_once() -> None:
    flat = (
        f'<?xml version="1.0"?><office:document{_NAMES} office:mimetype="application/vnd.oasis.opendocument.text"><office:meta>'
        "<dc:title>Rules</dc:title></office:meta><office:master-styles><style:master-page><style:header><text:p>top</text:p>"
        "</style:header></style:master-page></office:master-styles><office:body><office:text><text:p>middle</text:p>"
        "</office:text></office:body></office:document>"
    )
    document = normalize(RawContent(flat.encode(), "a.fodt"))
    assert (document.text, document.title) == ("middle\n\nHeader: top", "Rules")
