"""Vertical text of a PDF: columns are read from right to left (ISO 32000-2, 9.7.4.3), horizontal text is unchanged."""

from __future__ import annotations

import pytest

from catchment.content.normalize import normalize
from catchment.model import Document, RawContent
from tests.normalize.pdf_samples import page, pdf

_WATER = ("第一の行は川の水位です", "第二の行は堰の高さです", "第三の行は風の向きです")
_CHINESE = ("第一列是河水的高度", "第二列是堤坝的长度", "第三列是风向和雨量")
_TAIWAN = ("第一列是河水的高度", "第二列是堤壩的長度", "第三列是風向和雨量")


def _read(content: str, ordering: str = "Japan1", encoding: str = "UniJIS-UCS2-V", entries: bytes = b"") -> Document:
    """Read a page with a predefined CMap in font F1, and in F2 the horizontal one of Unicode for the same characters."""
    wide = {"Japan1": "UniJIS", "GB1": "UniGB", "CNS1": "UniCNS", "Korea1": "UniKS"}[ordering]
    fonts = b"/Font << /F1 5 0 R /F2 7 0 R /F3 8 0 R >>"
    objects = page(content.encode(), fonts, entries=entries)
    for number, name in ((5, encoding), (7, f"{wide}-UCS2-H")):
        objects[number] = (
            b"<< /Type /Font /Subtype /Type0 /BaseFont /Mincho /Encoding /%s /DescendantFonts [6 0 R] >>"
            % (name.encode())
        )
    objects[6] = (
        b"<< /Type /Font /Subtype /CIDFontType0 /BaseFont /Mincho /DW 1000 /FontDescriptor 9 0 R "
        b"/CIDSystemInfo << /Registry (Adobe) /Ordering (%s) /Supplement 2 >> >>" % ordering.encode()
    )
    objects[8] = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    objects[9] = (
        b"<< /Type /FontDescriptor /FontName /Mincho /Flags 4 /FontBBox [0 -200 1000 900] /ItalicAngle 0 /Ascent 900 "
        b"/Descent -200 /CapHeight 700 /StemV 80 >>"
    )
    return normalize(RawContent(pdf(objects), "a.pdf"))


def _show(words: str, x: float, y: float, font: str = "F1", size: int = 14, codec: str = "utf-16-be") -> str:
    return f"BT /{font} {size} Tf 1 0 0 1 {x} {y} Tm <{words.encode(codec).hex()}> Tj ET\n"


def _columns(words: tuple[str, ...], codec: str = "utf-16-be", x: int = 540, y: int = 760) -> str:
    return "".join(_show(column, x - 28 * place, y, codec=codec) for place, column in enumerate(words))


def _letters(words: tuple[str, ...], x: int = 540, y: int = 746) -> str:
    """Show columns as browsers do: each letter at its place, in a horizontal font."""
    return "".join(
        _show(letter, x - 28 * place, y - 14 * row, "F2")
        for place, column in enumerate(words)
        for row, letter in enumerate(column)
    )


@pytest.mark.parametrize(
    ("ordering", "encoding", "codec", "words"),
    [
        ("Japan1", "UniJIS-UCS2-V", "utf-16-be", _WATER),
        ("Japan1", "UniJIS-UTF16-V", "utf-16-be", _WATER),
        ("Japan1", "90ms-RKSJ-V", "cp932", _WATER),
        ("Japan1", "EUC-V", "euc-jp", _WATER),
        ("GB1", "UniGB-UCS2-V", "utf-16-be", _CHINESE),
        ("GB1", "GBK-EUC-V", "gbk", _CHINESE),
        ("CNS1", "UniCNS-UCS2-V", "utf-16-be", _TAIWAN),
        ("CNS1", "ETen-B5-V", "big5", _TAIWAN),
    ],
)
def test_columns_are_read_from_right_to_left(ordering: str, encoding: str, codec: str, words: tuple[str, ...]) -> None:
    document = _read(_columns(words, codec), ordering, encoding)
    assert document.text == "".join(words)
    assert document.warnings == ("pages read by PDFium, without headings and tables: 1",)
    assert _read(_columns(words[::-1], codec), ordering, encoding).text == "".join(words[::-1])


def test_letters_placed_one_by_one_are_columns() -> None:
    assert _read(_letters(_WATER)).text == "".join(_WATER)


@pytest.mark.parametrize("turn", ["0 1 -1 0 612 0 cm", "0 -1 1 0 0 792 cm", "0.5 0 0 0.5 0 0 cm"])
def test_turned_and_scaled_columns_are_read(turn: str) -> None:
    assert _read(turn + "\n" + _columns(_WATER, x=500, y=560)).text == "".join(_WATER)


def test_header_tiers_and_page_number_are_read_from_top_to_bottom() -> None:
    content = (
        _show("河川管理年報", 60, 770, "F2")
        + _columns(_WATER, y=740)
        + _columns(("朝の水門を開けました", "昼の水位は低いです"), y=500)
        + _show("12", 300, 30, "F3", codec="ascii")
    )
    assert _read(content).text.split("\n\n") == [
        "河川管理年報", "".join(_WATER), "朝の水門を開けました昼の水位は低いです", "12",
    ]  # fmt: skip


def test_short_and_indented_columns_begin_paragraphs() -> None:
    content = _columns(("春の雨が降り続いて川の水位が", "上がった。")) + _columns(
        ("堰の番人は夜も眠らずに水門",), x=484, y=746
    )
    content += _columns(("を見張る。",), x=456)
    assert _read(content).text == "春の雨が降り続いて川の水位が上がった。\n\n堰の番人は夜も眠らずに水門を見張る。"


def test_readings_beside_a_column_do_not_interrupt_it() -> None:
    content = _columns(("堰の河原に白い石が並ぶ", "水の量は増えたという事")) + _show("かわら", 552, 718, size=6)
    assert _read(content).text == "堰の河原に白い石が並ぶ水の量は増えたという事\n\nかわら"


def test_digits_side_by_side_are_one_place_of_a_column() -> None:
    letters = _letters(("平成", "水位が上がる堰の高さ"))
    content = letters + _show("12", 540, 718, "F3", codec="ascii") + _letters(("月に川の水が増えて",), y=704)
    assert _read(content).text == "平成12月に川の水が増えて水位が上がる堰の高さ"


def test_vertical_punctuation_is_ordinary() -> None:
    assert _read(_letters(("水位︑堰の高さ︒", "︵風の向き︶です"))).text == "水位、堰の高さ。(風の向き)です"


def test_horizontal_text_stays() -> None:
    rows = "".join(_show(row, 60, 700 - 20 * place, "F2") for place, row in enumerate(_WATER))
    document = _read(rows)
    assert "".join(document.text.split()) == "".join(_WATER)
    assert document.warnings == ()
    days = "".join(_show(day, 60 + 60 * place, 600, "F2") for place, day in enumerate("月火水木金土日"))
    assert _read(rows + days).warnings == ()


def test_many_scattered_ideographs_are_read_in_time() -> None:
    scattered = "".join(_show("水位堰", 10 + place * 37 % 500, 20 + place * 91 % 700, size=3) for place in range(3_000))
    assert _read(scattered).text.count("堰") == 3_000
