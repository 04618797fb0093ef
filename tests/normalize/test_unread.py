"""Content of office files that xberg omits: added to the text or reported in a warning."""

from __future__ import annotations

import io
import re
import struct
import zipfile

import pytest

from catchment.content.normalize import normalize
from catchment.errors import ParseError
from catchment.model import Document, RawContent
from tests.normalize import samples

_WORD = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
)
_SLIDE = (
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
)
_CHART = 'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" xmlns:a="a"'
_ODF = "".join(
    f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "text", "style", "table")
)
_TITLE = "<c:title><c:tx><c:rich><a:p><a:r><a:t>{}</a:t></a:r></a:p></c:rich></c:tx></c:title>"


def _paragraph(words: str) -> str:
    return f"<w:p><w:r><w:t>{words}</w:t></w:r></w:p>"


def _read(data: bytes) -> Document:
    return normalize(RawContent(data, "file"))


def _with(data: bytes, members: dict[str, str | bytes]) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        kept: dict[str, str | bytes] = {name: package.read(name) for name in package.namelist()}
    return samples.zipped(kept | members, stored=("mimetype",))


def _docx(related: tuple[tuple[str, str], ...], parts: dict[str, str | bytes], body: str = "") -> Document:
    relations = {"word/_rels/document.xml.rels": samples.relations(*related)}
    return _read(_with(samples.docx(body or _paragraph("The weir")), relations | parts))


def test_headers_footers_and_notes_of_a_document_are_read() -> None:
    document = _docx(
        (("header", "header1.xml"), ("header", "header2.xml"), ("footer", "footer1.xml")),
        {
            "word/header1.xml": f"<w:hdr {_WORD}>{_paragraph('Survey of')}<w:p/></w:hdr>",
            "word/header2.xml": f"<w:hdr {_WORD}>{_paragraph('Survey of')}</w:hdr>",
            "word/footer1.xml": f"<w:ftr {_WORD}><w:p><w:r><w:t>Mill</w:t><w:tab/><w:t>Lane</w:t></w:r></w:p></w:ftr>",
        },
    )
    assert document.text == "The weir\n\nHeader: Survey of\n\nFooter: Mill Lane"
    assert document.warnings == ()


def test_header_that_repeats_the_text_is_not_written_twice() -> None:
    document = _docx(
        (("header", "header1.xml"),), {"word/header1.xml": f"<w:hdr {_WORD}>{_paragraph('The weir')}</w:hdr>"}
    )
    assert document.text == "The weir"


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.html", b"<html><body><h1>Sluice</h1><p>shut</p></body></html>", "# Sluice\n\nshut"),
        ("a.txt", b"Sluice shut", "Sluice shut"),
        ("a.docx", samples.docx(_paragraph("Sluice shut")), "Sluice shut"),
        ("a.rtf", rb"{\rtf1 Sluice shut}", "Sluice shut"),
    ],
)
def test_files_that_a_document_includes_are_read(name: str, content: bytes, expected: str) -> None:
    assert _docx((("aFChunk", name),), {f"word/{name}": content}).text == f"The weir\n\n{expected}"


def test_included_file_that_is_not_read_is_a_warning() -> None:
    document = _docx((("aFChunk", "a.bin"),), {"word/a.bin": b"\x00\x01"})
    assert document.warnings == ("included files not read: 1",)


def test_chart_and_diagram_of_a_document_are_read() -> None:
    document = _docx(
        (("chart", "charts/c.xml"), ("diagramData", "d.xml")),
        {
            "word/charts/c.xml": f"<c:chartSpace {_CHART}>{_TITLE.format('Flow in May')}</c:chartSpace>",
            "word/d.xml": '<d:dataModel xmlns:d="d" xmlns:a="a"><d:pt><d:t><a:p><a:r><a:t>Inlet</a:t></a:r></a:p></d:t></d:pt>'
            "</d:dataModel>",
        },
    )
    assert document.text == "The weir\n\nChart: Flow in May\n\nDiagram: Inlet"


def test_paragraph_that_xberg_leaves_out_is_read_once() -> None:
    control = (
        "<w:p><w:sdt><w:sdtPr/><w:sdtContent><w:sdt><w:sdtPr/><w:sdtContent><w:r><w:t>Bothy</w:t></w:r></w:sdtContent>"
        "</w:sdt></w:sdtContent></w:sdt></w:p>"
    )
    hint = (
        "<w:sdt><w:sdtPr><w:showingPlcHdr/></w:sdtPr><w:sdtContent><w:p><w:r><w:t>Clickhere</w:t></w:r></w:p></w:sdtContent>"
        "</w:sdt>"
    )
    formula = "<w:p><m:oMath><m:r><m:t>zq</m:t></m:r></m:oMath></w:p>"
    removed = "<w:p><w:del><w:r><w:delText>Struck</w:delText></w:r></w:del></w:p>"
    text = _docx((), {}, _paragraph("The <![CDATA[weir]]>") + control + hint + formula + removed).text
    assert text.count("Bothy") == 1
    assert "Struck" not in text
    assert "Header" not in text


def test_notes_and_comments_of_slides_are_read_in_the_order_of_the_slides() -> None:
    note = (
        f'<p:notes {_SLIDE}><p:sp><p:nvSpPr><p:nvPr><p:ph type="sldNum"/></p:nvPr></p:nvSpPr><p:txBody><a:p><a:r><a:t>1'
        '</a:t></a:r></a:p></p:txBody></p:sp><p:sp><p:nvSpPr><p:nvPr><p:ph type="body"/></p:nvPr></p:nvSpPr><p:txBody><a:p>'
        "<a:r><a:t>Mention the </a:t></a:r><a:r><a:t>flood</a:t></a:r></a:p></p:txBody></p:sp></p:notes>"
    )
    document = _read(
        samples.pptx(
            related=(
                ("notesSlide", "../notesSlides/n.xml"),
                ("comments", "../comments/c.xml"),
                ("comments", "../comments/m.xml"),
                ("chart", "../charts/c.xml"),
                ("oleObject", "../embeddings/o.bin"),
            ),
            extra={
                "ppt/notesSlides/n.xml": note,
                "ppt/comments/c.xml": f"<p:cmLst {_SLIDE}><p:cm><p:text>which year?</p:text></p:cm></p:cmLst>",
                "ppt/comments/m.xml": f'<q:cmLst xmlns:q="q" {_SLIDE}><q:cm><q:txBody><a:p><a:r><a:t>all of them</a:t></a:r>'
                "</a:p></q:txBody></q:cm></q:cmLst>",
                "ppt/charts/c.xml": f"<c:chartSpace {_CHART}>{_TITLE.format('Levels')}</c:chartSpace>",
                "ppt/embeddings/o.bin": b"x",
            },
        )
    )
    assert document.text.split("\n\n")[-4:] == [
        "Notes on slide 1: Mention the flood",
        "Comment on slide 1: which year?",
        "Comment on slide 1: all of them",
        "Chart: Levels",
    ]


def test_damaged_and_missing_parts_beside_the_text_are_warnings() -> None:
    document = _docx((("aFChunk", "gone.html"), ("chart", "c.xml")), {"word/c.xml": "<!DOCTYPE a>"})
    assert document.text == "The weir"
    assert document.warnings == (
        "unreadable charts or diagrams: 1",
        "unreadable parts: 1",
    )


def test_list_headers_and_page_margins_of_an_open_document_are_read() -> None:
    data = _with(
        samples.odt(),
        {
            "content.xml": f"<office:document-content{_ODF}><office:body><office:text><text:p>Rules<text:note>"
            "<text:note-citation>9</text:note-citation><text:note-body><text:p>a footnote</text:p></text:note-body></text:note>"
            " here</text:p><text:list><text:list-header><text:p>Watering<text:s/>days</text:p></text:list-header></text:list>"
            "</office:text></office:body></office:document-content>",
            "styles.xml": f"<office:document-styles{_ODF}><office:master-styles><style:master-page><style:header><text:p>"
            "Allotments</text:p></style:header><style:footer><text:p>Page <text:page-number>7</text:page-number></text:p>"
            "</style:footer><text:p>no margin</text:p></style:master-page></office:master-styles></office:document-styles>",
        },
    )
    document = _read(data)
    assert document.text.split("\n\n") == [
        *("Rules[^1] here", "Watering days", "[^1]: a footnote", "Header: Allotments")
    ]
    assert document.text.count("here") == 1


def test_underlined_words_have_no_marks() -> None:
    body = (
        "<w:p><w:r><w:t>See </w:t></w:r><w:r><w:rPr><w:b/><w:u w:val='single'/></w:rPr><w:t>the gate</w:t></w:r></w:p>"
    )
    assert "u\\>" not in _docx((), {}, body).text
    assert "the gate" in _docx((), {}, body).text


def test_image_written_into_a_book_is_its_words() -> None:
    page = (
        '<html xmlns="http://www.w3.org/1999/xhtml"><body><p>a <img alt="hive" src="data:image/png;base64,iVBORw0KGgo="/> b</p>'
        '<p><svg xmlns="http://www.w3.org/2000/svg"><title>bee</title><text>queen &amp; drone</text></svg></p></body></html>'
    )
    assert _read(_with(samples.epub(), {"one.xhtml": page})).text == "a hive b\n\nbee queen & drone"


def test_comments_and_links_of_a_pdf_are_read() -> None:
    box = "/Type /Annot /Rect [10 10 50 50]"
    link = f"<< {box} /Subtype /Link /A << /S /URI /URI (https://weir.example/a) >> >>"
    note = f"<< {box} /Subtype /Text /Contents (too low?) /T (Ada) >>"
    inner = f"<< {box} /Subtype /Link /Dest [3 0 R /Fit] >>"
    document = _read(samples.pdf(annotations=(link, link, note, inner)))
    assert document.text.split("\n\n") == [
        "The dam was inspected in May.",
        "Link on page 1: https://weir.example/a",
        "Comment on page 1: too low?",
    ]
    assert document.warnings == ()


def test_letters_that_an_rtf_does_not_escape_are_read() -> None:
    assert _read(rb"{\rtf1\ansi\ansicpg1252 M" + b"\xfc" + rb"hle}").text == "Mühle"


def _binary_workbook() -> bytes:
    """Return an .xlsb with the number 7 in its first cell, a link, a text box, a chart and comments."""

    def record(kind: int, content: bytes = b"") -> bytes:
        number = bytes([kind]) if kind < 0x80 else bytes([kind & 0x7F | 0x80, kind >> 7])
        return number + bytes([len(content)]) + content

    def string(words: str) -> bytes:
        return struct.pack("<I", len(words)) + words.encode("utf-16-le")

    sheets = record(0x9C, struct.pack("<II", 0, 1) + string("r1") + string("Weir"))
    cell = record(0, struct.pack("<I", 0).ljust(25, b"\0")) + record(5, struct.pack("<IId", 0, 0, 7))
    drawing = f"<d:wsDr xmlns:d='d' {_CHART}><d:sp><a:p><a:r><a:t>Box by the mill</a:t></a:r></a:p></d:sp></d:wsDr>"
    return samples.opc(
        "xl/workbook.bin",
        "application/vnd.ms-excel.sheet.binary.macroEnabled.main",
        {
            "xl/workbook.bin": record(0x83) + record(0x8F) + sheets + record(0x90) + record(0x84),
            "xl/_rels/workbook.bin.rels": samples.relations(("worksheet", "worksheets/sheet1.bin")),
            "xl/worksheets/sheet1.bin": record(0x81)
            + record(0x94, bytes(16))
            + record(0x91)
            + cell
            + record(0x92)
            + record(0x82),
            "xl/worksheets/_rels/sheet1.bin.rels": samples.relations(
                ("hyperlink", "https://weir.example/"),
                ("drawing", "../drawings/d.xml"),
                ("comments", "../comments1.bin"),
            ),
            "xl/drawings/d.xml": drawing,
            "xl/drawings/_rels/d.xml.rels": samples.relations(("chart", "../charts/c.xml")),
            "xl/charts/c.xml": f"<c:chartSpace {_CHART}>{_TITLE.format('Flow')}</c:chartSpace>",
        },
    )


def test_links_boxes_and_charts_of_a_binary_workbook_are_read() -> None:
    document = _read(_binary_workbook())
    assert document.text.split("\n\n") == [
        "## Weir",
        "| 7 |\n| --- |",
        "https://weir.example/",
        "Box by the mill",
        "Chart: Flow",
    ]
    assert document.warnings == ("comments of cells were not read; save the file as .xlsx",)


def test_words_of_decorated_text_are_read() -> None:
    drawn = '<v:shape xmlns:v="urn:schemas-microsoft-com:vml"><v:textpath string="Draft of May"/></v:shape>'
    shape = f"<w:p><w:r><w:pict>{drawn}</w:pict></w:r></w:p>"
    assert _docx((), {}, _paragraph("The weir") + shape).text == "The weir\n\nDraft of May"


@pytest.mark.parametrize(
    ("body", "marked"),
    [
        ("{0}f1 b", "a[^1] b"),
        ("{0}f2 b f1 c", "a[^1] b [^2] c"),
        ("{0}e1 b f1", "a[^1] b [^2]"),
        ("{0}f1 b f1", "a[^1] b [^1]"),
    ],
)
def test_marks_of_notes_lead_to_their_notes_once(body: str, marked: str) -> None:
    runs = "".join(
        f'<w:r><w:{"foot" if word[0] == "f" else "end"}noteReference w:id="{word[1]}"/></w:r>'
        if re.fullmatch("[fe][12]", word)
        else f'<w:r><w:t xml:space="preserve">{word}</w:t></w:r>'
        for word in re.split("([fe][12])", body.format("a"))
    )
    note = f'<w:{{0}}notes {_WORD}><w:{{0}}note w:id="-1"><w:p/></w:{{0}}note>{{1}}</w:{{0}}notes>'
    notes = {
        kind: "".join(
            f'<w:{kind}note w:id="{n}"><w:p><w:r><w:footnoteRef/></w:r><w:r><w:t>{kind}{n}</w:t></w:r></w:p></w:{kind}note>'
            for n in (1, 2)
        )
        for kind in ("foot", "end")
    }
    text = _docx(
        (("footnotes", "footnotes.xml"), ("endnotes", "endnotes.xml")),
        {f"word/{kind}notes.xml": note.format(kind, notes[kind]) for kind in notes},
        f"<w:p>{runs}</w:p>",
    ).text
    first, *rest = text.split("\n\n")
    assert first == marked
    names = [{"f": "foot", "e": "end"}[word[0]] + word[1] for word in re.findall("[fe][12]", body)]
    expected = [f"[^{number}]: {name}" for number, name in enumerate(dict.fromkeys(names), 1)]
    assert rest[: len(expected)] == expected
    assert sorted(rest[len(expected) :]) == sorted(
        f"Note: {kind}{n}" for kind in notes for n in (1, 2) if f"{kind}{n}" not in names
    )


@pytest.mark.parametrize("kind", ["foot", "end"])
def test_links_in_notes_have_their_addresses(kind: str) -> None:
    def run(words: str) -> str:
        return f'<w:r><w:t xml:space="preserve">{words}</w:t></w:r>'

    office = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
    marks = [f'<w:r><w:fldChar w:fldCharType="{mark}"/></w:r>' for mark in ("begin", "separate", "end")]
    field = '<w:r><w:instrText> HYPERLINK "https://mill.example/" \\l "log" </w:instrText></w:r>'
    written = f'<w:p><w:hyperlink r:id="r1" w:anchor="top">{run("one")}</w:hyperlink>{run(" two ")}</w:p>'
    written += f'<w:p><w:hyperlink w:anchor="top">{run("inside")}</w:hyperlink>{run(" ")}{marks[0]}{field}{marks[1]}'
    notes = (
        f'<w:{kind}notes {_WORD} {office}><w:{kind}note w:id="1">{written}{run("three")}{marks[2]}</w:p></w:{kind}note>'
        f"</w:{kind}notes>"
    )
    text = _docx(
        ((f"{kind}notes", "notes.xml"),),
        {
            "word/notes.xml": notes,
            "word/_rels/notes.xml.rels": samples.relations(("hyperlink", "https://weir.example/a")),
        },
        f'<w:p>{run("See")}<w:r><w:{kind}noteReference w:id="1"/></w:r></w:p>',
    ).text
    note = "[^1]: [one](https://weir.example/a#top) two inside [three](https://mill.example/#log)"
    assert text == f"See[^1]\n\n{note}"


def test_descriptions_of_pictures_and_marks_of_comments_are_read() -> None:
    picture = '<w:p><w:r><w:drawing><wp:docPr xmlns:wp="wp" id="1" name="x" descr="A weir in spring"/></w:drawing></w:r></w:p>'
    remark = '<w:p><w:r><w:t>The gate</w:t></w:r><w:r><w:commentReference w:id="3"/></w:r></w:p>'
    comments = f'<w:comments {_WORD}><w:comment w:id="3">{_paragraph("which gate?")}</w:comment></w:comments>'
    text = _docx((("comments", "comments.xml"),), {"word/comments.xml": comments}, picture + remark).text
    assert text.startswith("The gate[^cmt3]\n\n[^cmt3]:")
    assert text.endswith("A weir in spring")
    assert "which gate?" in text


@pytest.mark.parametrize(("content", "word"), [(b"Only a plain text.\n", "change its extension to .txt"), (b"", "")])
def test_text_or_nothing_under_the_name_of_an_office_file_is_told(content: bytes, word: str) -> None:
    for name in ("a.docx", "a.odt", "a.pptx", "a.xlsx"):
        if content:
            with pytest.raises(ParseError, match=word):
                normalize(RawContent(content, name))
        else:
            assert normalize(RawContent(content, name)).warnings == ("the file is empty",)
