"""The text of each element inside a run of Word (ECMA-376 part 1, 17.3.3) and a paragraph of ODF (1.3, 6.1, 6.4)."""

from __future__ import annotations

import io
import time
import zipfile

import pytest

from catchment.content.normalize import normalize
from catchment.content.normalize.office import inline
from catchment.model import Document, RawContent
from tests.normalize import samples

_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_STRICT = "http://purl.oclc.org/ooxml/wordprocessingml/main"
_NOTHING, _APART, _HYPHEN = "onetwo", "one two", "one\u2011two"


def _read(data: bytes, name: str = "file") -> Document:
    return normalize(RawContent(data, name))


def _with(data: bytes, members: dict[str, str | bytes]) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        kept: dict[str, str | bytes] = {name: package.read(name) for name in package.namelist()}
    return samples.zipped(kept | members, stored=("mimetype",))


def _paragraph(inside: str) -> str:
    return f'<w:p><w:r><w:t xml:space="preserve">one</w:t></w:r>{inside}<w:r><w:t>two</w:t></w:r></w:p>'


def _run(inside: str) -> str:
    return _paragraph(f"<w:r>{inside}</w:r>")


# The elements of EG_RunInnerContent, the group of run content in the schema.
_RUN_CONTENT = {
    "annotationRef": _NOTHING,
    "br": _APART,
    "commentReference": _NOTHING,
    "continuationSeparator": _NOTHING,
    "cr": _APART,
    "dayLong": _APART,
    "dayShort": _APART,
    "endnoteRef": _NOTHING,
    "fldChar": _NOTHING,
    "footnoteRef": _NOTHING,
    "lastRenderedPageBreak": _NOTHING,  # layout only; the text has the space before it
    "monthLong": _APART,
    "monthShort": _APART,
    "noBreakHyphen": _HYPHEN,
    "pgNum": _APART,
    "ptab": _APART,
    "separator": _NOTHING,
    "softHyphen": _NOTHING,
    "tab": _APART,
    "yearLong": _APART,
    "yearShort": _APART,
}
_WITH_CONTENT = {
    '<w:br w:type="page"/>': _APART,
    '<w:br w:type="column"></w:br>': _APART,
    '<w:br w:type="textWrapping" w:clear="all"/>': _APART,
    "<w:cr></w:cr>": _APART,
    '<w:ptab w:relativeTo="margin" w:alignment="right" w:leader="none"/>': _APART,
    "<w:delText> gone </w:delText>": _NOTHING,
    "<w:instrText> PAGE </w:instrText>": _NOTHING,
    "<w:delInstrText> PAGE </w:delInstrText>": _NOTHING,
    "<w:ruby><w:rt><w:r><w:t>ka</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>B</w:t></w:r></w:rubyBase></w:ruby>": "oneBtwo",
    '<w:sym w:font="Symbol" w:char="F061"/>': "oneαtwo",
    '<w:sym w:font="Symbol" w:char="0044"/>': "oneΔtwo",
    '<w:sym w:char="F0E0" w:font="Wingdings"></w:sym>': "one→two",
    '<w:sym w:font="Wingdings" w:char="F0FC"/>': "one✔two",
    '<w:sym w:font="Wingdings 2" w:char="F050"/>': "one✓two",
    '<w:sym w:font="Segoe UI Symbol" w:char="2714"/>': "one✔two",
    '<w:sym w:font="Symbol" w:char="003C"/>': "one&lt;two",
    '<w:sym w:font="Symbol" w:char="0000"/>': _APART,
    '<w:sym w:font="Symbol" w:char="D83D"/>': _APART,
    '<w:sym w:font="Symbol"/>': _APART,
}


@pytest.mark.parametrize(
    ("element", "expected"), [*((f"<w:{name}/>", text) for name, text in _RUN_CONTENT.items()), *_WITH_CONTENT.items()]
)
def test_each_element_of_a_run_becomes_text(element: str, expected: str) -> None:
    body = _run(element)
    document = _read(samples.docx(body))
    assert (document.text.replace("<", "&lt;").replace("\\&lt;", "&lt;"), document.warnings) == (expected, ())
    with zipfile.ZipFile(io.BytesIO(samples.docx(body))) as package:
        strict = package.read("word/document.xml").decode().replace(_W, _STRICT)
    assert _read(_with(samples.docx(), {"word/document.xml": strict})).text == document.text


@pytest.mark.parametrize("element", [*(f"<w:{name}/>" for name in _RUN_CONTENT), *_WITH_CONTENT])
def test_elements_of_a_run_become_text_in_cells_and_headers(element: str) -> None:
    body = _read(samples.docx(_run(element))).text
    cell = f"<w:tbl><w:tr><w:tc>{_run(element)}</w:tc></w:tr></w:tbl>"
    header = {"word/header1.xml": f'<w:hdr xmlns:w="{_W}">{_run(element)}</w:hdr>'}
    related = {"word/_rels/document.xml.rels": samples.relations(("header", "header1.xml"))}
    assert f"| {body} |" in _read(samples.docx(cell)).text
    header_text = _read(_with(samples.docx("<w:p><w:r><w:t>Weir</w:t></w:r></w:p>"), related | header)).text
    assert header_text.partition("Header: ")[2].replace("<", "\\<") in (body, body.replace("<", "\\<"))


@pytest.mark.parametrize("properties", ["", '<a:rPr b="1"/>', '<a:rPr lang="de"><a:solidFill/></a:rPr>'])
def test_word_of_several_runs_of_a_slide_is_one_word(properties: str) -> None:
    border = f"</a:t></a:r><a:r>{properties}<a:t>"
    slide = _with(samples.pptx("MARK"), {})
    with zipfile.ZipFile(io.BytesIO(slide)) as package:
        xml = package.read("ppt/slides/slide1.xml").decode()
    slide = _with(slide, {"ppt/slides/slide1.xml": xml.replace("MARK", f"Wasser{border}werk{border} am {border}Fluss")})
    assert " ".join(normalize(RawContent(slide, "a.pptx")).text.replace("*", "").split()).endswith(
        "Wasserwerk am Fluss"
    )


def test_text_between_runs_is_read_and_parts_words() -> None:
    body = "<w:p><w:r><w:t>left</w:t></w:r>loose &amp; free<w:r><w:t>right</w:t></w:r>\n </w:p>"
    assert _read(samples.docx(body)).text == "left loose & free right"


def test_moved_text_is_read_once() -> None:
    run = "<w:r><w:t>The pump.</w:t></w:r>"
    mark = '<w:pPr><w:rPr><w:moveFrom w:id="1" w:author="a"/></w:rPr></w:pPr>'
    start = '<w:moveFromRangeStart w:id="0" w:name="m"/>'
    moved = f'<w:p>{mark}{start}<w:moveFrom w:id="1">{run}<w:r><w:tab/></w:r></w:moveFrom></w:p>'
    target = f'<w:p><w:moveToRangeStart w:id="2" w:name="m"/><w:moveTo w:id="3">{run}</w:moveTo></w:p>'
    between = "<w:p><w:r><w:t>Between.</w:t></w:r></w:p>"
    assert _read(samples.docx(moved + between + target)).text == "Between.\n\nThe pump."
    nested = f'<w:p><w:moveFrom w:id="1"><w:moveFrom w:id="2">{run}</w:moveFrom>{run}</w:moveFrom></w:p>'
    assert _read(samples.docx(nested + between)).text == "Between."


def test_symbols_of_unknown_fonts_are_a_warning() -> None:
    document = _read(samples.docx(_run('<w:sym w:font="Mill Signs" w:char="F041"/>')))
    assert document.warnings == ("symbols of unknown fonts: 1",)


@pytest.mark.parametrize(
    "broken",
    [
        _run("<w:cr/>") + "<!-- <w:moveFrom> -->",
        _run("<w:cr/>") + "<w:p><!-- <w:cr> --></w:p>",
        _run("<w:cr/>") + "<w:p><![CDATA[<w:cr>]]></w:p>",
        _run("<w:br></w:br>") + _run("<w:cr/>"),
    ],
)
def test_document_with_odd_markup_is_read(broken: str) -> None:
    assert _read(samples.docx(broken)).text.replace(" ", "").startswith("onetwo")


def test_package_without_inline_elements_is_unchanged() -> None:
    for data in (samples.docx(), samples.odt(), samples.docx(_run("<w:tab/><w:br/>"))):
        assert inline.with_plain_text(data) is data


# ODF 1.3 part 3, 6.1 (white space, breaks, spans, links), 5.6 (soft page breaks) and 6.4 (ruby).
_ODF_CONTENT = {
    " \n  ": _APART,
    "<text:s/>": _APART,
    '<text:s text:c="3"/>': _APART,
    "<text:s></text:s>": _APART,
    "<text:tab/>": _APART,
    '<text:tab text:tab-ref="1"/>': _APART,
    "<text:line-break/>": _APART,
    "<text:soft-page-break/>": _APART,
    "<text:span>-</text:span>": "one-two",
    "<text:span><text:s/></text:span>": _APART,
    "<text:a><text:s/></text:a>": _APART,
    "<text:meta><text:tab/></text:meta>": _APART,
    "<text:ruby><text:ruby-base>水車</text:ruby-base><text:ruby-text>すいしゃ</text:ruby-text></text:ruby>": "one水車two",
    '<text:bookmark text:name="s"/>': _NOTHING,
}


@pytest.mark.parametrize(("element", "expected"), _ODF_CONTENT.items())
def test_each_element_of_an_odf_paragraph_becomes_text(element: str, expected: str) -> None:
    with zipfile.ZipFile(io.BytesIO(samples.odt())) as package:
        content = package.read("content.xml").decode()
    before, _, rest = content.partition("<text:h")
    after = rest[rest.index("</office:text>") :]

    def text(body: str) -> str:
        return _read(_with(samples.odt(), {"content.xml": before + body + after})).text

    assert text(f"<text:p>one{element}two</text:p>").replace("\n", " ") == expected
    assert text(f'<text:h text:outline-level="1">one{element}two</text:h>') == f"# {expected}"
    assert (
        text(f"<text:list><text:list-item><text:p>one{element}two</text:p></text:list-item></text:list>")
        == f"- {expected}"
    )


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("a_x000D_ b_x0009_c _x000d__x000A_ d", "a b c d"),
        ("gauge_x1234_y _x00e9_", "gauge_x1234_y _x00e9_"),
    ],
)
def test_escaped_controls_of_a_document_become_spaces(written: str, expected: str) -> None:
    document = _read(samples.docx(f"<w:p><w:r><w:t>{written}</w:t></w:r></w:p>", title="Water_x000d_levels"))
    assert (document.text, document.title) == (expected, "Water levels")


def _field(instruction: str, result: str = "<w:r><w:rPr><w:i/></w:rPr><w:t>gate</w:t></w:r>") -> str:
    def mark(kind: str) -> str:
        return f'<w:r><w:rPr><w:lang w:val="en"/></w:rPr><w:fldChar w:fldCharType="{kind}"/></w:r>'

    first, _, rest = instruction.replace('"', "&quot;").partition("|")
    written = "".join(f'<w:r><w:instrText xml:space="preserve">{part}</w:instrText></w:r>' for part in (first, rest))
    return f"{mark('begin')}{written}{mark('separate')}{result}{mark('end')}"


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        (' HYPERLINK "https://weir.example/a?b=1&amp;c=2" ', "see [*gate*](https://weir.example/a?b=1&c=2) now"),
        (' HYPERLINK "https://weir.example/a" \\l "top" \\o "tip" ', "see [*gate*](https://weir.example/a#top) now"),
        (' HYPERLINK "https://weir.example/a" \\o "tip" \\l top', "see [*gate*](https://weir.example/a#top) now"),
        (' HYPERLINK "https://weir.example/a#b" \\l "top"', "see [*gate*](https://weir.example/a#b) now"),
        (' HYPER|LINK "https://weir.example/a" ', "see [*gate*](https://weir.example/a) now"),
        (" hyperlink https://weir.example/a ", "see [*gate*](https://weir.example/a) now"),
        (' HYPERLINK \\l "top" ', "see *gate* now"),
        (" PAGEREF top \\h ", "see *gate* now"),
    ],
)
def test_link_field_of_a_document_has_its_address(instruction: str, expected: str) -> None:
    run = '<w:r><w:t xml:space="preserve">{}</w:t></w:r>'
    body = run.format("see ") + _field(instruction) + run.format(" now")
    assert _read(samples.docx(f"<w:p>{body}</w:p>")).text == expected
    cell = f"<w:tbl><w:tr><w:tc><w:p>{body}</w:p></w:tc></w:tr></w:tbl>"
    assert _read(samples.docx(cell)).text == f"| {expected} |\n| --- |"


def test_link_field_of_one_element_has_its_fragment() -> None:
    field = 'w:instr=" HYPERLINK &quot;https://weir.example/a&quot; \\l &quot;top&quot; "'
    body = f"<w:p><w:fldSimple {field}><w:r><w:t>gate</w:t></w:r></w:fldSimple></w:p>"
    assert _read(samples.docx(body)).text == "[gate](https://weir.example/a#top)"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            f"<w:p>{_field(' HYPERLINK &quot;x:y&quot; ', '<w:r><w:t>a</w:t></w:r></w:p><w:p><w:r><w:t>b</w:t></w:r>')}</w:p>",
            "a\n\nb",
        ),
        (f"<w:p>{_field(' HYPERLINK &quot;x:y&quot; ', _field(' PAGE ', '<w:r><w:t>7</w:t></w:r>'))}</w:p>", "7"),
        (f"<w:p>{_field(' TOC ', _field(' HYPERLINK &quot;x:y&quot; ', '<w:r><w:t>7</w:t></w:r>'))}</w:p>", "[7](x:y)"),
        (f"<w:p>{_field(' HYPERLINK &quot;x:y&quot; ', '<w:ins><w:r><w:t>a</w:t></w:r></w:ins>')}</w:p>", "a"),
        ('<w:p><w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>HYPERLINK</w:t></w:r></w:p>', "HYPERLINK"),
    ],
)  # fmt: skip
def test_link_field_around_other_elements_keeps_its_text(body: str, expected: str) -> None:
    assert _read(samples.docx(body)).text == expected


@pytest.mark.parametrize(
    "piece",
    [
        *('<text:a xlink:href="x:y">', '<table:table-cell table:formula="=HYPERLINK(&quot;x&quot;"/>', "<w:r>"),
        *('<w:r><w:fldChar w:fldCharType="separate"/></w:r>', '<w:fldSimple w:instr="HYPERLINK x "/>'),
        '<w:r><w:fldChar w:fldCharType="begin"/><w:instrText>HYPERLINK x</w:instrText></w:r>',
    ],
)
def test_many_links_take_linear_time(piece: str) -> None:
    data = _with(samples.docx(), {"word/document.xml": piece * (4_000_000 // len(piece))})
    started = time.process_time()
    inline.with_plain_text(data)
    assert time.process_time() - started < 5


def _sheet(cells: str) -> str:
    names = "".join(
        f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "text", "table")
    )
    content = (
        f'<office:document-content{names} xmlns:xlink="http://www.w3.org/1999/xlink"><office:body><office:spreadsheet>'
        f'<table:table table:name="One"><table:table-row>{cells}</table:table-row></table:table></office:spreadsheet>'
        "</office:body></office:document-content>"
    )
    return _read(_with(samples.ods(1, 1), {"content.xml": content}), "a.ods").text.removeprefix("## One\n\n")


@pytest.mark.parametrize(
    ("attributes", "inside", "expected"),
    [
        ("", '<text:a xlink:href="https://weir.example/">gate</text:a>', "[gate](https://weir.example/)"),
        (
            "",
            'see <text:a xlink:href="x:y?b=1&amp;c#d_e">a <text:span>b</text:span></text:a> and '
            '<text:a xlink:type="simple" xlink:href="../a (1).ods">c</text:a>.',
            "see [a b](x:y?b=1&c#d_e) and [c](../a%20%281%29.ods).",
        ),
        ("", '<text:a xlink:href="#One.A1">gate</text:a>', "gate"),
        ("", '<text:a xlink:href="x:y">x:y</text:a>', "x:y"),
        ("", '<text:a xlink:href="x:y"/>a <text:a xlink:href="x:z">b</text:a>', "a [b](x:z)"),
        ("", '<text:a xlink:href="x:y"></text:a>', "x:y"),
        (' table:formula="of:=HYPERLINK(&quot;x:y&quot;;&quot;gate&quot;)"', "gate", "[gate](x:y)"),
        (' table:formula="of:=HYPERLINK([.A1];&quot;gate&quot;)"', "gate", "gate"),
    ],
)
def test_link_in_a_cell_of_an_odf_sheet_has_its_address(attributes: str, inside: str, expected: str) -> None:
    cells = '<table:table-cell office:value-type="string"><text:p>first</text:p></table:table-cell>'
    cells += f'<table:table-cell office:value-type="string"{attributes}><text:p>{inside}</text:p></table:table-cell>'
    assert _sheet(cells).split("\n")[0] == f"| first | {expected} |"
