"""Office files: declared package types, large spreadsheets, and packages with an unusual layout."""

from __future__ import annotations

import io
import zipfile

import pytest

from catchment.content.normalize import media_type, normalize
from catchment.errors import ParseError, ResourceExhausted
from catchment.model import Document, RawContent
from tests.normalize import samples

_OOXML = "application/vnd.openxmlformats-officedocument"
_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def _read(data: bytes, name: str = "file") -> Document:
    return normalize(RawContent(data, name))


def _changed(data: bytes, members: dict[str, str | bytes]) -> bytes:
    """Return a package with some members replaced or added."""
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        kept: dict[str, str | bytes] = {name: package.read(name) for name in package.namelist()}
    return samples.zipped(kept | members, stored=("mimetype",))


def _renamed(data: bytes, *pairs: tuple[str, str]) -> bytes:
    """Return a package with part names, and all references to them, replaced."""
    members = {}
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        for name in package.namelist():
            content = package.read(name)
            new_name = name
            for before, after in pairs:
                content = content.replace(before.encode(), after.encode())
                new_name = new_name.replace(before, after)
            members[new_name] = content
    return samples.zipped(members)


def _large_sheet(rows: int, columns: int, sheets: int = 1) -> bytes:
    cells = "".join(f'<c r="{chr(65 + column)}{{0}}"><v>{column}</v></c>' for column in range(columns))
    part = "".join(f'<row r="{row}">{cells.format(row)}</row>' for row in range(1, rows + 1))
    names = [f"sheet{number + 1}" for number in range(sheets)]
    return samples.opc(
        "xl/workbook.xml",
        f"{_OOXML}.spreadsheetml.sheet.main+xml",
        {
            "xl/workbook.xml": f'<workbook xmlns="{_SHEET}" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/'
            'relationships"><sheets>'
            + "".join(f'<sheet name="{name}" sheetId="{name[5:]}" r:id="r{name[5:]}"/>' for name in names)
            + "</sheets></workbook>",
            "xl/_rels/workbook.xml.rels": samples.relations(
                *(("worksheet", f"worksheets/{name}.xml") for name in names)
            ),
            **{
                f"xl/worksheets/{name}.xml": f'<worksheet xmlns="{_SHEET}"><sheetData>{part}</sheetData></worksheet>'
                for name in names
            },
        },
    )


@pytest.mark.parametrize(
    ("outer", "inner", "kind"),
    [
        (samples.pptx, samples.xlsx, "presentationml.presentation"),
        (samples.xlsx, samples.docx, "spreadsheetml.sheet"),
        (samples.docx, samples.pptx, "wordprocessingml.document"),
    ],
)
def test_embedded_package_does_not_change_the_type(outer, inner, kind: str) -> None:  # type: ignore[no-untyped-def]
    with zipfile.ZipFile(io.BytesIO(outer())) as package:
        members = {name: package.read(name) for name in package.namelist()}
    data = samples.zipped(members | {"embedded/one.bin": inner()}, stored=("embedded/one.bin",))
    assert b"[Content_Types].xml" in data
    assert media_type(data, "file") == f"{_OOXML}.{kind}"
    assert _read(data).text == _read(outer()).text


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("application/vnd.ms-word.document.macroEnabled.main+xml", "application/vnd.ms-word.document.macroEnabled.12"),
        (
            "application/vnd.ms-word.template.macroEnabledTemplate.main+xml",
            "application/vnd.ms-word.template.macroEnabled.12",
        ),
        (
            "application/vnd.ms-excel.sheet.binary.macroEnabled.main",
            "application/vnd.ms-excel.sheet.binary.macroEnabled.12",
        ),
        (f"{_OOXML}.presentationml.slideshow.main+xml", f"{_OOXML}.presentationml.slideshow"),
        (f"{_OOXML}.presentationml.template.main+xml", f"{_OOXML}.presentationml.template"),
        ("application/vnd.ms-visio.drawing.main+xml", "application/vnd.ms-visio.drawing"),
        ("application/vnd.ms-other.drawing.main+xml", "application/zip"),
    ],
)
def test_package_type_is_its_main_content_type(content_type: str, expected: str) -> None:
    assert media_type(samples.opc("main.xml", content_type, {"main.xml": "<a/>"}), "file.zip") == expected


def test_names_and_comments_of_a_zip_do_not_make_it_an_office_file() -> None:
    assert (
        media_type(samples.zipped({"word/notes.txt": "[Content_Types].xml", "xl/a": "x"}), "a.zip") == "application/zip"
    )


@pytest.mark.parametrize(
    ("data", "pairs"),
    [
        (samples.docx(), [("document.xml", "document2.xml")]),
        (samples.docx(), [("word/", "Word/")]),
        (samples.docx(), [("word/", "parts/"), ("document.xml", "main.xml")]),
        (samples.xlsx(), [("workbook.xml", "book2.xml")]),
        (samples.pptx(), [("ppt/", "deck/")]),
    ],
)
def test_main_part_may_have_any_name(data: bytes, pairs: list[tuple[str, str]]) -> None:
    expected = _read(data)
    assert expected.text
    assert _read(_renamed(data, *pairs)) == expected


def test_underlined_and_struck_text_has_no_escaped_marks() -> None:
    under = '</a:t></a:r><a:r><a:rPr u="sng"/><a:t>'
    struck = '</a:t></a:r><a:r><a:rPr strike="sngStrike"/><a:t>'
    text = _read(samples.pptx(f"Flow {under}at the {struck}weir")).text
    assert " ".join(text.split()) == "## Flow at the ~~weir~~"
    run = "<w:p><w:r><w:rPr><w:{}/></w:rPr><w:t>{}</w:t></w:r></w:p>"
    cells = "".join(f"<w:tc>{run.format(*mark)}</w:tc>" for mark in (('u w:val="single"', "mill"), ("strike", "weir")))
    words = "<w:p><w:r><w:t>The tag &lt;u&gt;x&lt;/u&gt; underlines.</w:t></w:r></w:p>"
    text = _read(samples.docx(f"<w:tbl><w:tr>{cells}</w:tr></w:tbl>{words}")).text
    assert text == "| mill | ~~weir~~ |\n| --- | --- |\n\nThe tag \\<u\\>x\\</u\\> underlines."


def test_pictures_of_books_leave_their_description_and_no_data() -> None:
    drawing = '<svg xmlns="http://www.w3.org/2000/svg"><title>a map</title><path d="M0 0"/></svg>'
    picture = '<img alt="a bee" src="data:image/png;base64,iVBORw0KGgo="/>'
    unnamed = '<img alt="" src="data:image/svg+xml;utf8,%3Csvg xmlns=%22http://www.w3.org/2000/svg%22/%3E"/>'
    linked = '<a href="data:text/plain,x(1)">a link</a> <img alt="near" src="near.png"/>'
    page = (
        f"<html xmlns='http://www.w3.org/1999/xhtml'><body><p>{drawing}, {picture}{unnamed}, {linked}</p></body></html>"
    )
    assert _read(_changed(samples.epub(), {"one.xhtml": page})).text == "a map, a bee, a link ![near](near.png)"


def test_slideshows_and_templates_are_read_as_their_documents() -> None:
    types = zipfile.ZipFile(io.BytesIO(samples.pptx())).read("[Content_Types].xml").decode()
    show = types.replace(
        f"{_OOXML}.presentationml.presentation.main+xml",
        "application/vnd.ms-powerpoint.slideshow.macroEnabled.main+xml",
    )
    assert _read(_changed(samples.pptx(), {"[Content_Types].xml": show}), "a.ppsm").text == _read(samples.pptx()).text


def test_spreadsheet_of_more_than_100_000_cells_is_read() -> None:
    text = _read(_large_sheet(12_000, 10)).text
    assert text.count("\n") > 12_000
    text = _read(_large_sheet(10_000, 4, sheets=4)).text
    assert text.count("## sheet") == 4
    assert text.count("| 0 | 1 | 2 | 3 |") == 40_000


def test_spreadsheet_that_compresses_well_is_read() -> None:
    styled = '<row r="1"><c r="A1"><v>7</v></c></row>' + '<row r="2"/>' * 200_000
    data = _changed(
        samples.xlsx(),
        {"xl/worksheets/sheet1.xml": f'<worksheet xmlns="{_SHEET}"><sheetData>{styled}</sheetData></worksheet>'},
    )
    assert 100 * len(data) < 2_400_000
    assert "| 7 |" in _read(data).text


def test_limits_of_office_files_are_named_in_their_message() -> None:
    with pytest.raises(ResourceExhausted, match=r"200 times its size.*fixed limits"):
        _read(samples.docx(f"<w:p><w:r><w:t>{'A' * 30_000_000}</w:t></w:r></w:p>"))
    with pytest.raises(ResourceExhausted, match=r"1,000,000 cells \(a fixed limit\)"):
        _read(samples.ods(rows=1_001, columns=1_000))


def test_document_type_definition_in_a_package_is_refused() -> None:
    types = '<!DOCTYPE a [<!ENTITY b "c">]><Types/>'
    assert media_type(_changed(samples.docx(), {"[Content_Types].xml": types}), "a.zip") == "application/zip"
    with pytest.raises(ParseError):
        _read(_changed(samples.docx(), {"[Content_Types].xml": types}), "a.docx")


@pytest.mark.parametrize(
    ("data", "members"),
    [
        (samples.odt(), {"META-INF/manifest.xml": "<manifest:encryption-data/>"}),
        (samples.ods(1, 1), {"META-INF/manifest.xml": "<manifest:encryption-data/>"}),
        (samples.epub(), {"META-INF/rights.xml": "<rights/>"}),
    ],
)
def test_locked_open_documents_and_books_raise(data: bytes, members: dict[str, str | bytes]) -> None:
    with pytest.raises(ParseError, match="the file is encrypted"):
        _read(_changed(data, members))


def test_empty_document_has_a_warning() -> None:
    assert _read(samples.docx("<w:p/>")).warnings == ("no text found",)
    assert _read(samples.pdf(words="")).warnings == ("no text found",)


@pytest.mark.parametrize(
    ("rtf", "text"),
    [
        (rb"first \*\unknown then\par last\par", "first then\n\nlast"),
        (rb"first {\b\*\unknown then}\par last\par", "first then\n\nlast"),
        (rb"first \*\generator then\par last\par", "first then\n\nlast"),
        (rb"first {\*\unknown hidden}then\par last\par", "first then\n\nlast"),
        (rb"first { \*\unknown hidden}then\par last\par", "first then\n\nlast"),
        (rb"first \{\*\unknown then\}\par last\par", "first {then}\n\nlast"),
    ],
)
def test_late_star_of_an_rtf_hides_no_text(rtf: bytes, text: str) -> None:
    assert _read(rb"{\rtf1\ansi " + rtf + b"}").text == text


@pytest.mark.parametrize(
    ("words", "page"), [("Уровень воды", 1251), ("水位の報告", 932), ("Příliš žluťoučký kůň", 1250)]
)
@pytest.mark.parametrize("tag", [0x3FFD, 0x3FDE])
def test_8_bit_strings_of_outlook_use_their_code_page(words: str, page: int, tag: int) -> None:
    properties: dict[int, str | bytes] = {0x0037: words.encode(f"cp{page}"), 0x0C1A: words.encode(f"cp{page}")}
    numbers = {tag: page}
    if tag == 0x3FFD:
        properties[0x1013] = "<html><body>Größe</body></html>".encode()
        numbers[0x3FDE] = 65001
    document = _read(samples.outlook_message(properties, numbers))
    assert (document.title, document.author) == (words, words)
    assert ("Größe" in document.text) == (tag == 0x3FFD)
