"""Lines from right to left in a PDF: letters and words are put into the order of reading, in any order of the file."""

from __future__ import annotations

import pytest

from catchment.content.normalize import normalize
from catchment.model import RawContent
from tests.normalize.pdf_samples import page, pdf, stream

_WIDTH = 12 * 0.6


def _drawn(*lines: list[str], backwards: bool = False, actual: bool = False) -> bytes:
    """Return a PDF of lines with glyphs from left to right; `backwards` draws the last first, `actual` names each."""
    glyphs = sorted({glyph for line in lines for glyph in line})
    codes = {glyph: code for code, glyph in enumerate(glyphs, ord("A"))}
    content = b""
    for row, line in enumerate(lines):
        places = list(enumerate(line))
        for column, glyph in places[::-1] if backwards else places:
            name = b"/Span << /ActualText <FEFF%s> >> BDC" % glyph.encode("utf-16-be").hex().encode()
            content += b"%s BT /F1 12 Tf %f %d Td <%02x> Tj ET %s\n" % (
                name if actual else b"",
                72 + _WIDTH * column,
                700 - 20 * row,
                codes[glyph],
                b"EMC" if actual else b"",
            )
    names = b" ".join(
        b"<%02x> <%s>" % (code, glyph.encode("utf-16-be").hex().encode()) for glyph, code in codes.items()
    )
    objects = page(content, b"/Font << /F1 5 0 R >>")
    objects[5] = (
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Courier /FirstChar 0 /LastChar 255 /Widths [%s] /ToUnicode 6 0 R >>"
        % (b"600 " * 256)
    )
    objects[6] = stream(
        b"1 begincodespacerange <00> <ff> endcodespacerange %d beginbfchar %s endbfchar" % (len(codes), names)
    )
    return pdf(objects)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("actual", [False, True])
@pytest.mark.parametrize(
    ("seen", "read"),
    [
        (list("ملاعلاب ابحرم"), "مرحبا بالعالم"),
        (list("םלוע םולש"), "שלום עולם"),
        (["م", "لا", "س"], "سلام"),
        (["ם", "ו\u05b9", "ל", "ש\u05c1\u05b8"], "ש\u05b8\u05c1לו\u05b9ם"),
        (list("\ufee1\ufe8e\ufecc\ufedf\ufe8d"), "العام"),
        (list("باتك 12.5 نع English words ف"), "ف English words عن 12.5 كتاب"),
        (list("(סנפ) 7 הנוחא"), "אחונה 7 (פנס)"),
        (list(")סנפ( 7 הנוחא"), "אחונה 7 (פנס)"),
        (list("The word םלוע םולש means it"), "The word שלום עולם means it"),
    ],
    ids=[
        "Arabic", "Hebrew", "ligature", "accents", "presentation forms", "number and words", "brackets", "turned brackets",
        "English",
    ],
)  # fmt: skip
def test_words_from_right_to_left_are_in_the_order_of_reading(
    seen: list[str], read: str, backwards: bool, actual: bool
) -> None:
    assert read in normalize(RawContent(_drawn(seen, backwards=backwards, actual=actual), "a.pdf")).text
