"""Cells beside each other in a PDF: words with a wide gap between them are two, in whichever order the file has them."""

from __future__ import annotations

from catchment.content.normalize import normalize
from catchment.model import RawContent
from tests.normalize.pdf_samples import page, pdf


def _rows(*rows: tuple[bytes, ...], step: int = 248) -> bytes:
    """Return a PDF with the cells of each row beside each other, written row by row."""
    content = b"".join(
        b"1 0 0 1 %d %d Tm (%s) Tj " % (72 + step * column, 700 - 14 * row, words)
        for row, cells in enumerate(rows)
        for column, words in enumerate(cells)
    )
    objects = page(b"BT /F1 11 Tf %s ET" % content, b"/Font << /F1 5 0 R >>")
    objects[5] = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    return pdf(objects)


_INTERLEAVED = [
    (b"Left column line one of the text", b"right column, which begins with"),
    (b"continues with line two here and", b"fourth line and then with a fifth"),
    (b"ends the left part with line three", b"of the story and it closes here"),
]


def test_words_of_columns_that_are_written_row_by_row_are_divided() -> None:
    text = normalize(RawContent(_rows(*_INTERLEAVED), "a.pdf")).text
    assert [words for words in ("text right", "and fourth", "three of") if words not in " ".join(text.split())] == []


def test_words_of_narrow_columns_are_divided() -> None:
    text = normalize(RawContent(_rows((b"Name", b"Ada", b"London"), step=60), "a.pdf")).text
    assert text.split() == ["Name", "Ada", "London"]


def test_word_of_parts_without_a_gap_stays_one() -> None:
    text = normalize(RawContent(_rows((b"light", b"house stands"), step=20), "a.pdf")).text
    assert "lighthouse stands" in text
