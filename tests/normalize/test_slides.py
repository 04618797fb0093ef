"""Slides of presentations (ECMA-376 part 1, 19.3 and 21.1), as PowerPoint, LibreOffice and Google Slides write them."""

from __future__ import annotations

import pytest

from catchment.content.normalize import normalize
from catchment.model import Document, RawContent
from tests.normalize import samples

_NAMES = (
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
)
_END = "</a:t></a:r></a:p></p:txBody></p:sp>"
_REST = "<p:sp><p:txBody><a:p><a:r><a:t>"


def _read(data: bytes) -> Document:
    return normalize(RawContent(data, "a.pptx"))


def _shape(paragraphs: str, place: str = "") -> str:
    return f"<p:sp><p:nvSpPr><p:nvPr>{place}</p:nvPr></p:nvSpPr><p:txBody>{paragraphs}</p:txBody></p:sp>"


def _slide(shapes: str, *related: tuple[str, str]) -> str:
    text = _read(samples.pptx(f"Weir{_END}{shapes}{_REST}", related)).text
    assert text.startswith("## Weir\n\n")
    return text.removeprefix("## Weir\n\n")


def _paragraph(words: str, look: str = "") -> str:
    return f"<a:p>{look}<a:r><a:t>{words}</a:t></a:r></a:p>"


def test_slides_and_notes_follow_the_list_of_slides_and_not_the_names_of_parts() -> None:
    def slide(title: str) -> str:
        shape = _shape(_paragraph(title), '<p:ph type="ctrTitle"/>')
        return f"<p:sld {_NAMES}>{shape}</p:sld>"

    notes = f"<p:notes {_NAMES}>{_shape(_paragraph('of the last'))}</p:notes>"
    names = ("slide2", "slide10", "slide1", "unlisted")
    listed = "".join(f'<p:sldId id="{n}" r:id="r{n}"/>' for n in (3, 2, 1))
    presentation = f"<p:presentation {_NAMES}><p:sldIdLst>{listed}</p:sldIdLst></p:presentation>"
    data = samples.pptx(
        extra={
            "ppt/presentation.xml": presentation,
            "ppt/_rels/presentation.xml.rels": samples.relations(*(("slide", f"slides/{name}.xml") for name in names)),
            **{f"ppt/slides/{name}.xml": slide(name) for name in names},
            "ppt/slides/_rels/slide2.xml.rels": samples.relations(("notesSlide", "../notesSlides/n.xml")),
            "ppt/notesSlides/n.xml": notes,
        }
    )
    document = _read(data)
    assert document.text.split("\n\n") == [
        *("## slide1", "## slide10", "## slide2", "## unlisted"),
        "Notes on slide 3: of the last",
    ]
    assert (document.title, document.warnings) == ("slide1", ())


def test_lists_have_their_levels_and_signs() -> None:
    body = '<p:ph idx="1"/>'
    paragraphs = (
        _paragraph("one"),
        _paragraph("two", '<a:pPr lvl="1"/>'),
        _paragraph("three", '<a:pPr><a:buAutoNum type="arabicPeriod"/></a:pPr>'),
        "<a:p/>",
    )
    assert _slide(_shape("".join(paragraphs), body)) == "- one\n  - two\n1. three"
    assert _slide(_shape(_paragraph("plain", "<a:pPr><a:buNone/></a:pPr>"), body)) == "plain"
    assert _slide(_shape(_paragraph("sign", '<a:pPr><a:buChar char="•"/></a:pPr>'))) == "- sign"
    assert _slide(_shape(_paragraph("one") + _paragraph("two"))) == "one\n\ntwo"
    assert _slide(_shape(_paragraph("odd", '<a:pPr lvl="x"/>'), body)) == "- odd"


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ('<a:r><a:rPr b="1"/><a:t>Ka</a:t></a:r><a:r><a:t>tze</a:t></a:r>', "Katze"),
        ("<a:r><a:t>one</a:t></a:r><a:br/><a:r><a:t>two</a:t></a:r>", "one\ntwo"),
        ('<a:fld type="slidenum"><a:t>7</a:t></a:fld><a:fld type="datetime1"><a:t>3 May</a:t></a:fld>', "3 May"),
        ('<a:r><a:rPr><a:hlinkClick r:id="r1"/></a:rPr><a:t>a</a:t></a:r>', "[a](https://weir.example/x)"),
        ('<a:r><a:rPr strike="noStrike"/><a:t>a</a:t></a:r>', "a"),
        ('<a:r><a:rPr strike="sngStrike"/><a:t>old </a:t></a:r><a:r><a:t>new</a:t></a:r>', "~~old~~ new"),
        ('<a14:m xmlns:a14="a14"><m:oMath xmlns:m="m"><m:r><m:t>x+y</m:t></m:r></m:oMath></a14:m>', "x+y"),
        ('<a:r><a:t>10</a:t></a:r><a:r><a:rPr baseline="30000"/><a:t>6</a:t></a:r>', "10^6^"),
        ('<a:r><a:t>H</a:t></a:r><a:r><a:rPr baseline="-25000"/><a:t>2</a:t></a:r>', "H2"),
        ("<a:r><a:t># no heading</a:t></a:r>", "\\# no heading"),
        (
            '<a14:m xmlns:a14="a14"><m:oMath xmlns:m="m"><m:sSup><m:e><m:r><m:t>10</m:t></m:r></m:e><m:sup><m:r><m:t>6</m:t>'
            "</m:r></m:sup></m:sSup><m:f><m:num><m:r><m:t>1</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>"
            "</m:oMath></a14:m>",
            "10^61/2",
        ),
        (
            '<a14:m xmlns:a14="a14"><m:oMath xmlns:m="m"><m:nary><m:sub><m:r><m:t>i</m:t></m:r></m:sub><m:sup/><m:e><m:r>'
            "<m:t>x</m:t></m:r></m:e></m:nary></m:oMath></a14:m>",
            "_ix",
        ),
        ("<a:r/><a:r><a:t/></a:r>", ""),
    ],
)
def test_runs_of_a_paragraph_are_joined(runs: str, expected: str) -> None:
    assert _slide(
        _shape(f"<a:p>{runs}</a:p>") + _shape(_paragraph("end")), ("hyperlink", "https://weir.example/x")
    ) == (f"{expected}\n\nend" if expected else "end")


def test_tables_groups_and_pictures_are_read_in_their_place() -> None:
    def cell(words: str, look: str = "") -> str:
        return f"<a:tc{look}><a:txBody>{_paragraph(words)}</a:txBody></a:tc>"

    rows = (
        cell("Hive"), cell("Ki|los", ' gridSpan="2"'), cell("", ' hMerge="1"'),
        cell("North"), cell("12"), cell("<![CDATA[a]]></a:t></a:r></a:p><a:p><a:r><a:t>b"),
    )  # fmt: skip
    table = f"<a:tbl><a:tr>{''.join(rows[:3])}</a:tr><a:tr>{''.join(rows[3:])}</a:tr></a:tbl>"
    inner = f"<p:grpSp><p:grpSp>{_shape(_paragraph('deep'))}</p:grpSp></p:grpSp>"
    old = '<mc:AlternateContent xmlns:mc="mc"><mc:Choice>{}</mc:Choice><mc:Fallback>{}</mc:Fallback></mc:AlternateContent>'
    picture = '<p:pic><p:nvPicPr><p:cNvPr id="5" name="Pic" descr="A weir in spring"/></p:nvPicPr></p:pic>'
    number = _shape(_paragraph("9"), '<p:ph type="sldNum"/>')
    shapes = (
        f"<p:graphicFrame>{table}</p:graphicFrame>",
        inner,
        old.format(_shape(_paragraph("new")), _shape(_paragraph("old"))),
        picture,
        number,
    )
    assert _slide("".join(shapes)).split("\n\n") == [
        "| Hive | Ki\\|los |  |\n| --- | --- | --- |\n| North | 12 | a b |",
        *("deep", "new", "A weir in spring"),
    ]


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ("<p:pic><p:nvPicPr>{}</p:nvPicPr></p:pic>", "[A weir](https://weir.example/x)"),
        (f"<p:sp><p:nvSpPr>{{}}</p:nvSpPr><p:txBody>{_paragraph('gate')}</p:txBody></p:sp>",
         "[gate](https://weir.example/x)\n\n[A weir](https://weir.example/x)"),
        (f"<p:graphicFrame><p:nvPr>{{}}</p:nvPr><a:tbl><a:tr><a:tc><a:txBody>{_paragraph('cell')}</a:txBody></a:tc></a:tr></a:tbl>"
         "</p:graphicFrame>", "| cell |\n| --- |\n\n[A weir](https://weir.example/x)"),
    ],
)  # fmt: skip
def test_link_of_a_shape_is_on_its_text_and_description(shape: str, text: str) -> None:
    properties = '<p:cNvPr id="5" name="x" descr="A weir"><a:hlinkClick r:id="r1"/></p:cNvPr>'
    link = ("hyperlink", "https://weir.example/x")
    assert _slide(shape.format(properties), link) == text
    undescribed = shape.format(properties.replace(' descr="A weir"', ""))
    assert _slide(undescribed, link) == (text.removesuffix("[A weir](https://weir.example/x)").rstrip() or link[1])


def test_slide_that_cannot_be_read_is_a_warning() -> None:
    related = samples.relations(("slide", "slides/slide1.xml"), ("slide", "slides/gone.xml"))
    listed = '<p:sldId id="1" r:id="r1"/><p:sldId id="2" r:id="r2"/><p:sldId id="3" r:id="r9"/>'
    presentation = f"<p:presentation {_NAMES}><p:sldIdLst>{listed}</p:sldIdLst></p:presentation>"
    document = _read(
        samples.pptx(extra={"ppt/presentation.xml": presentation, "ppt/_rels/presentation.xml.rels": related})
    )
    assert (document.text, document.warnings) == ("## Flow at the weir", ("slides not read: 1",))
