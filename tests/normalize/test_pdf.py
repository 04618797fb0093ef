"""Pages and comments of damaged PDFs: every page that is in the file is read once, in order, or named in a warning."""

from __future__ import annotations

import codecs
import zlib

import pytest

from catchment.content.normalize import normalize
from catchment.model import Document, RawContent
from tests.normalize.pdf_samples import pdf, stream

_BOX = b"/MediaBox [0 0 612 792]"
_WORDS = (b"first harbour", b"second lighthouse", b"third anchor")
_KIDS = b"/Kids [4 0 R 6 0 R 8 0 R]"


def _pdf(boxes: tuple[bytes, ...] = (_BOX,) * 3, notes: tuple[bytes, ...] = (), tree: bytes = b"") -> bytes:
    """Return a PDF of three pages: objects 4, 6 and 8 with contents 5, 7 and 9; `notes` are annotations of the first."""
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count 3 %s %s >>" % (_KIDS, tree),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, (words, box) in enumerate(zip(_WORDS, boxes, strict=True)):
        stream = b"BT /F1 12 Tf 72 700 Td (%s) Tj ET" % words
        annotations = b"/Annots [%s]" % b" ".join(notes) if notes and not number else b""
        objects += (
            b"<< /Type /Page /Parent 2 0 R /Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R %s %s >>"
            % (5 + 2 * number, box, annotations),
            b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        )
    out, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    table += b"".join(b"%010d 00000 n \n" % place for place in places)
    return out + table + b"trailer << /Size 10 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % len(out)


def _read(data: bytes) -> Document:
    return normalize(RawContent(data, "a.pdf"))


def _pages(document: Document) -> list[str]:
    return [page.split()[0] for page in document.text.split("\n\n") if page.split()[0] in ("first", "second", "third")]


_ALL = ["first", "second", "third"]
_BY_PDFIUM = "pages read by PDFium, without headings and tables: "
_MISSING = "pages missing or damaged: "


@pytest.mark.parametrize(
    ("data", "pages", "warnings"),
    [
        (_pdf(), _ALL, ()),
        (_pdf((b"",) * 3, tree=_BOX), _ALL, ()),
        (_pdf((_BOX, b"", _BOX)), _ALL, (_BY_PDFIUM + "1-3",)),
        (_pdf((_BOX, b"/MediaBox [0 0 612]", _BOX)), _ALL, (_BY_PDFIUM + "1-3",)),
        (_pdf((_BOX, b"/MediaBox 99 0 R", _BOX)), _ALL, (_BY_PDFIUM + "1-3",)),
        (_pdf((_BOX, b"/MediaBox [0 0 0 0]", _BOX)), _ALL, (_BY_PDFIUM + "2",)),
        (_pdf().replace(b"/Count 3", b"/Count 9"), _ALL, (_BY_PDFIUM + "1-3", _MISSING + "4-9")),
        (_pdf().replace(b"/Count 3", b"/Count 1"), _ALL, (_BY_PDFIUM + "2-3",)),
        (_pdf().replace(_KIDS, b"/Kids [4 0 R 96 0 R 8 0 R]"), ["first", "third"], (_MISSING + "2",)),
        (_pdf().replace(_KIDS, b"/Kids [4 0 R 2 0 R 8 0 R]"), ["first", "third"], (_MISSING + "3",)),
        (
            _pdf().replace(b"6 0 obj\n<< /Type /Page ", b"6 0 obj\n<<             "), _ALL, (_BY_PDFIUM + "2-3",),
        ),
        (_pdf().replace(b"startxref\n", b"startxref\n9"), _ALL, ()),
        (_pdf().replace(b"Tf 72 700 Td (second", b"Xf 72 (((( Td (second"), _ALL, ()),
    ],
    ids=[
        "healthy", "inherited box", "no box", "short box", "absent box", "empty box", "count too high", "count too low",
        "missing page", "page tree in itself", "pages without a type", "wrong xref", "damaged content",
    ],
)  # fmt: skip
def test_each_page_is_read_once_in_order_or_named(data: bytes, pages: list[str], warnings: tuple[str, ...]) -> None:
    document = _read(data)
    assert (_pages(document), document.warnings) == (pages, warnings)
    assert _read(data) == document


def test_truncated_pdf_is_read_with_a_warning() -> None:
    data = _pdf(notes=(b"<< /Subtype /Text /Rect [0 0 9 9] /Contents (too low) >>",))
    document = _read(data[: data.index(b"8 0 obj")])
    assert _pages(document) == ["first", "second"]
    assert document.text.endswith("Comment on page 1: too low")
    assert document.warnings == (_BY_PDFIUM + "1-2", _MISSING + "3")


@pytest.mark.parametrize(
    ("string", "words"),
    [
        (b"(caf\\351 \\200 \\240)", "café • €"),
        (b"<%s>" % (codecs.BOM_UTF16_BE + "Замечание".encode("utf-16-be")).hex().encode(), "Замечание"),
        (b"<%s>" % (codecs.BOM_UTF16_BE + "覚え書き 😀".encode("utf-16-be")).hex().encode(), "覚え書き 😀"),
        (b"<%s>" % (codecs.BOM_UTF8 + "Größe".encode()).hex().encode(), "Größe"),
        (b"<FEFF001B0065006E001B0041>", "A"),
        (b"<FEFFD83D0041>", "\ufffdA"),
        (b"() /RC (<body><p>rich <b>words</b></p></body>)", "rich words"),
    ],
    ids=["PDFDocEncoding", "Cyrillic", "Japanese", "UTF-8", "language escape", "half a character", "rich content"],
)
@pytest.mark.parametrize("kind", [b"Text", b"FreeText", b"Highlight", b"Stamp"])
def test_comments_directly_in_the_list_are_decoded(string: bytes, words: str, kind: bytes) -> None:
    note = b"<< /Type /Annot /Subtype /%s /Rect [10 10 30 30] /Contents %s >>" % (kind, string)
    assert f"Comment on page 1: {words}" in _read(_pdf(notes=(note,))).text.split("\n\n")


def test_replies_and_loops_of_annotations_are_bounded() -> None:
    replies = tuple(
        b"<< /Type /Annot /Subtype /Text /Rect [0 0 9 9] /Contents (reply %d) /IRT 4 0 R /Popup 4 0 R >>" % number
        for number in range(3)
    )
    text = _read(_pdf(notes=(*replies, b"4 0 R", b"[4 0 R]", b"null"))).text
    assert [f"Comment on page 1: reply {number}" in text for number in range(3)] == [True] * 3


def test_comments_beyond_the_limit_give_a_warning() -> None:
    note = b"<< /Subtype /Text /Rect [0 0 9 9] /Contents (a%d) >>"
    document = _read(_pdf(notes=tuple(note % number for number in range(10_001))))
    assert document.text.count("Comment on page 1: ") == 10_000
    assert document.warnings == ("only the first 10,000 comments, links and form fields were read (a fixed limit)",)


def test_huge_count_of_pages_does_not_delay() -> None:
    document = _read(_pdf().replace(b"/Count 3", b"/Count 900000"))
    assert _pages(document) == _ALL


def test_damaged_compressed_page_is_read_up_to_the_damage() -> None:
    stream = zlib.compress(b"BT /F1 12 Tf 72 700 Td (second lighthouse) Tj ET" + b" " * 9_000, 0)
    old = b"<< /Length 48 >>\nstream\nBT /F1 12 Tf 72 700 Td (second lighthouse) Tj ET\nendstream"
    data = _pdf()
    assert old in data
    new = b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (
        len(stream) // 2,
        stream[: len(stream) // 2],
    )
    assert _pages(_read(data.replace(old, new))) == _ALL


_IMAGE = b"q 400 0 0 600 72 72 cm BI /W 1 /H 1 /CS /G /BPC 8 ID x EI Q"
_LARGE = b"q 400 0 0 600 72 72 cm BI /W 800 /H 1000 /CS /G /BPC 8 ID " + b"x" * 800_000 + b" EI Q"
_STAMP, _SENTENCE = (b"BT /F1 12 Tf 72 700 Td (%s) Tj ET " % words for words in (b"Received", b"one more word " * 24))
_FORM = b"q 400 0 0 600 72 72 cm /X1 Do Q"
_SCANNED = "pages whose text is a picture and not recognized yet: "


def _replaced(first: bytes, second: bytes, third: bytes) -> bytes:
    """Return a PDF of three pages of text, of which some have this content instead."""
    objects = {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        2: b"<< /Type /Pages /Count 3 %s >>" % _KIDS,
        3: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        10: stream(_IMAGE, b"/Type /XObject /Subtype /Form /BBox [0 0 600 800]"),
    }
    for number, (words, content) in enumerate(zip(_WORDS, (first, second, third), strict=True)):
        objects[4 + 2 * number] = (
            b"<< /Type /Page /Parent 2 0 R %s /Contents %d 0 R /Resources << /Font << /F1 3 0 R >>"
            b" /XObject << /X1 10 0 R >> >> >>" % (_BOX, 5 + 2 * number)
        )
        objects[5 + 2 * number] = stream(content or b"BT /F1 12 Tf 72 700 Td (%s) Tj ET" % words)
    return pdf(objects)


@pytest.mark.parametrize(
    ("contents", "warnings"),
    [
        ((b"", _IMAGE, _IMAGE), (_SCANNED + "2-3",)),
        ((_FORM, b"", b""), (_SCANNED + "1",)),
        ((b"", b"0 0 m 9 9 l S", b" "), ()),
        ((b"", b"BT /F1 12 Tf 72 700 Td (second) Tj ET " + _IMAGE, b""), ()),
        ((_IMAGE, _IMAGE, _IMAGE), (_SCANNED + "1-3",)),
        ((b"", _STAMP + _LARGE, _SENTENCE + _LARGE), (_SCANNED + "2",)),
    ],
    ids=["images", "image within a form", "no image", "image beside text", "only images", "stamp on a scan"],
)
def test_pages_with_text_on_an_image_only_are_named(contents: tuple[bytes, ...], warnings: tuple[str, ...]) -> None:
    assert _read(_replaced(*contents)).warnings == warnings
