"""Workbooks: values of cells, and the links, comments and drawings of sheets."""

from __future__ import annotations

import pytest

from catchment.content.normalize import normalize
from catchment.errors import ParseError
from catchment.model import Document, RawContent
from tests.normalize import samples

_OOXML = "application/vnd.openxmlformats-officedocument"
_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_NAMES = f'xmlns="{_SHEET}" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
_DRAWING = (
    'xmlns:xdr="http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart"'
)
_TEXT = "<xdr:txBody><a:p><a:r><a:t>{}</a:t></a:r></a:p></xdr:txBody>"


def _workbook(
    rows: str,
    after: str = "",
    related: tuple[tuple[str, str], ...] = (),
    parts: dict[str, str | bytes] | None = None,
    state: str = "visible",
    before: str = "",
) -> bytes:
    return samples.opc(
        "xl/workbook.xml",
        f"{_OOXML}.spreadsheetml.sheet.main+xml",
        {
            "xl/workbook.xml": f'<workbook {_NAMES}>{before}<sheets><sheet name="Weir" sheetId="1" state="{state}" r:id="r1"/>'
            "</sheets></workbook>",
            "xl/_rels/workbook.xml.rels": samples.relations(
                ("worksheet", "worksheets/sheet1.xml"), ("styles", "styles.xml"), ("sharedStrings", "sharedStrings.xml")
            ),
            "xl/worksheets/sheet1.xml": f"<worksheet {_NAMES}><sheetData>{rows}</sheetData>{after}</worksheet>",
            "xl/worksheets/_rels/sheet1.xml.rels": samples.relations(*related),
            **(parts or {}),
        },
    )


def _read(data: bytes) -> Document:
    return normalize(RawContent(data, "a.xlsx"))


_ESCAPES = {
    "first_x000D_\nsecond _x0009_third": "first second third",
    "_x005F_x000D_ _x00e9__x0000_": "_x000D_ é",
    "_xD83C__xDF3E_ _xD83C_": "🌾 \ufffd",
    "x_xyz_ _x12_": "x_xyz_ _x12_",
}


@pytest.mark.parametrize(("written", "expected"), _ESCAPES.items())
def test_escaped_characters_are_read(written: str, expected: str) -> None:
    strings = f"<sst {_NAMES}><si><t>{written}</t></si></sst>"
    assert _cell("<v>0</v>", 't="s"', parts={"xl/sharedStrings.xml": strings}) == expected
    assert _cell(f"<is><t>{written}</t></is>", 't="inlineStr"') == expected
    assert _cell(f"<v>{written}</v>", 't="str"') == expected
    data = _workbook("", after=f"<headerFooter><oddHeader>&amp;L{written}</oddHeader></headerFooter>")
    assert _read(data).text.endswith(expected)
    comment = f"<comment ref='A1'><text><t>{written}</t></text></comment>"
    comments = f"<comments {_NAMES}><commentList>{comment}</commentList></comments>"
    data = _workbook("", related=(("comments", "../comments1.xml"),), parts={"xl/comments1.xml": comments})
    assert _read(data).text.endswith(f"Comment on A1: {expected}")


def _cell(content: str, attributes: str = "", parts: dict[str, str | bytes] | None = None, before: str = "") -> str:
    """Return the text of a sheet with one cell, without the table around it."""
    data = _workbook(f'<row r="1"><c r="A1" {attributes}>{content}</c></row>', parts=parts, before=before)
    return _read(data).text.removeprefix("## Weir\n\n| ").removesuffix(" |\n| --- |")


@pytest.mark.parametrize(
    ("content", "attributes", "expected"),
    [
        ("<v>12</v>", "", "12"),
        ("<v>0.30000000000000004</v>", "", "0.3"),
        ("<v>1E+20</v>", "", "1e+20"),
        ("<v>1</v>", 't="b"', "true"),
        ("<v>#DIV/0!</v>", 't="e"', "#DIV/0!"),
        ("<f>A2</f><v>a | b</v>", 't="str"', r"a \| b"),
        ("<is><r><t>two </t></r><r><t>runs\nhere</t></r></is>", 't="inlineStr"', "two runs here"),
        ("<is><t>水</t><rPh><t>みず</t></rPh></is>", 't="inlineStr"', "水"),
        ("<f>SUM(B1:B9)</f>", "", "=SUM(B1:B9)"),
        ('<f>HYPERLINK("https://weir.example/a")</f><v>map</v>', 't="str"', "[map](https://weir.example/a)"),
        ("<v>1</v>", 't="s"', "second"),
        ("<v>45352</v>", 's="1"', "2024-03-01"),
        ("<v>45352.395833333336</v>", 's="1"', "2024-03-01 09:30:00"),
        ("<v>0.5</v>", 's="2"', "12:00:00"),
        ("<v>1.5</v>", 's="2"', "36:00:00"),
        ("<v>1</v>", 's="1"', "1900-01-01"),
        ("<v>61</v>", 's="1"', "1900-03-01"),
        ("<v>2958465.9999999</v>", 's="1"', "2958465.9999999"),
        ("<v>0.0625</v>", 's="4"', "1:30:00"),
        ("<v>7</v>", 's="3"', "7"),
    ],
)
def test_cell_is_written_as_its_value(content: str, attributes: str, expected: str) -> None:
    parts: dict[str, str | bytes] = {
        "xl/styles.xml": f'<styleSheet {_NAMES}><numFmts><numFmt numFmtId="164" formatCode="[h]:mm"/><numFmt numFmtId="165" '
        'formatCode="0 &quot;days&quot;"/></numFmts><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/>'
        '<xf numFmtId="165"/><xf numFmtId="46"/></cellXfs></styleSheet>',
        "xl/sharedStrings.xml": f"<sst {_NAMES}><si><t>first</t></si><si><r><t>sec</t></r><r><t>ond</t></r><rPh><t>x</t></rPh>"
        "</si></sst>",
    }
    assert _cell(content, attributes, parts) == expected


@pytest.mark.parametrize("digits", ["9" * 10, "9" * 5_000], ids=["long", "very long"])
def test_number_beyond_all_limits_costs_only_its_cell(digits: str) -> None:
    cells = f'<c r="A1" s="{digits}"><v>weir</v></c><c r="B1" t="s"><v>{digits}</v></c><c><v>lock</v></c>'
    formats = f'<styleSheet {_NAMES}><cellXfs><xf numFmtId="{digits}"/></cellXfs></styleSheet>'
    text = _read(_workbook(f'<row r="{digits}">{cells}</row>', parts={"xl/styles.xml": formats})).text
    assert "weir" in text and "lock" in text


def test_dates_count_from_1904_in_workbooks_of_old_macs() -> None:
    parts: dict[str, str | bytes] = {
        "xl/styles.xml": f'<styleSheet {_NAMES}><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs></styleSheet>'
    }
    assert _cell("<v>43890</v>", 's="1"', parts, before='<workbookPr date1904="1"/>') == "2024-03-01"


def test_cell_far_away_from_the_others_is_read() -> None:
    rows = '<row r="1"><c r="A1"><v>7</v></c></row><row r="1048576"><c r="XFD1048576"><v>8</v></c></row>'
    assert _read(_workbook(rows)).text == "## Weir\n\n| 7 |  |\n| --- | --- |\n|  | 8 |"


def test_hidden_sheet_is_read_and_marked() -> None:
    assert _read(_workbook("<row><c><v>7</v></c></row>", state="hidden")).text.startswith("## Weir (hidden)\n\n| 7 |")


def test_links_comments_boxes_charts_and_headers_of_a_sheet_are_read() -> None:
    data = _workbook(
        '<row r="1"><c r="A1" t="inlineStr"><is><t>map</t></is></c></row>',
        after='<hyperlinks><hyperlink ref="A1" r:id="r1"/></hyperlinks>'
        '<headerFooter><oddHeader>&amp;L&amp;"Arial"&amp;12Survey &amp;P</oddHeader></headerFooter>',
        related=(
            ("hyperlink", "https://weir.example/map"),
            ("comments", "../comments1.xml"),
            ("threadedComment", "../threaded1.xml"),
            ("drawing", "../drawings/drawing1.xml"),
        ),
        parts={
            "xl/comments1.xml": f'<comments {_NAMES}><commentList><comment ref="B2"><text><r><t>check the </t></r><r><t>gauge'
            '</t></r></text></comment><comment ref="C3"><text><t>[Threaded comment] a copy</t></text></comment>'
            "</commentList></comments>",
            "xl/threaded1.xml": '<ThreadedComments xmlns="x"><threadedComment ref="C3"><text>too low?</text></threadedComment>'
            '<threadedComment ref="C3"><text>no</text></threadedComment></ThreadedComments>',
            "xl/drawings/drawing1.xml": f"<xdr:wsDr {_DRAWING}><xdr:sp>{_TEXT.format('Box by the mill')}</xdr:sp></xdr:wsDr>",
            "xl/drawings/_rels/drawing1.xml.rels": samples.relations(("chart", "../charts/chart1.xml")),
            "xl/charts/chart1.xml": f"<c:chartSpace {_DRAWING}><c:title><c:tx><c:rich><a:p><a:r><a:t>Flow</a:t></a:r></a:p>"
            "</c:rich></c:tx></c:title><c:ser><c:tx><c:strRef><c:strCache><c:pt><c:v>2024</c:v></c:pt></c:strCache></c:strRef>"
            "</c:tx><c:cat><c:strRef><c:strCache><c:pt><c:v>May</c:v></c:pt></c:strCache></c:strRef></c:cat></c:ser>"
            "</c:chartSpace>",
        },
    )
    document = _read(data)
    assert document.text.split("\n\n") == [
        "## Weir",
        "| [map](https://weir.example/map) |\n| --- |",
        "Comment on B2: check the gauge",
        "Comment on C3: too low? / no",
        "Box by the mill",
        "Chart: Flow; 2024; May",
        "Survey",
    ]
    assert document.warnings == ()


def test_damage_beside_the_cells_is_a_warning() -> None:
    rows = '<row r="1"><c r="A1"><v>7</v></c></row>'
    document = _read(_workbook(rows, related=(("comments", "../comments1.xml"),), parts={"xl/comments1.xml": "<a>"}))
    assert "| 7 |" in document.text
    assert document.warnings == ("comments or drawings of a sheet cannot be read",)
    document = _read(_workbook(rows, parts={"xl/styles.xml": "<!DOCTYPE a><a/>"}))
    assert document.warnings == ("the number formats cannot be read; dates and times are shown as numbers",)
    document = _read(_workbook(f"{rows}<row r="))
    assert "| 7 |" in document.text
    assert document.warnings == ("a sheet is damaged; only the cells before the damage were read",)


def test_sheet_that_is_missing_is_a_warning() -> None:
    data = samples.opc(
        "xl/workbook.xml",
        f"{_OOXML}.spreadsheetml.sheet.main+xml",
        {"xl/workbook.xml": f'<workbook {_NAMES}><sheets><sheet name="a" r:id="r1"/></sheets></workbook>'},
    )
    assert _read(data).warnings == ("a sheet is missing in the file", "no text found")


def test_strings_with_a_document_type_definition_are_refused() -> None:
    bomb = f'<!DOCTYPE sst [<!ENTITY a "{"x" * 99}">]><sst {_NAMES}><si><t>&a;</t></si></sst>'
    with pytest.raises(ParseError):
        _read(_workbook("<row><c><v>7</v></c></row>", parts={"xl/sharedStrings.xml": bomb}))
