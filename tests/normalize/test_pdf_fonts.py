"""Fonts of a PDF with missing or wrong Unicode mappings: correct pages stay, garbled pages are replaced or give a warning."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from catchment.content.normalize import normalize
from catchment.content.normalize.office.pdf.legibility import legibility
from catchment.model import Document, RawContent
from tests.normalize.pdf_samples import page, pdf, stream, true_type

_ENGLISH = (
    "The harbour inspection found water in the lower chamber of the lock",
    "Every pump was checked twice before the keeper signed the report",
)
_POLISH = ("faktura nr 12/2024 za naprawę śluzy północnej", "płatność gotówką przy odbiorze w porcie")
_JAPANESE = ("河川の水位は二メートルに達した", "堰の番人は夜も眠らずに見張っていた")
_KOREAN = ("강의 수위는 이 미터에 이르렀다", "수문을 지키는 사람은 잠들지 않았다")
_BY_PDFIUM = "pages read by PDFium, without headings and tables: 1"
_DOUBTFUL = "pages whose text may be wrong (fonts without a correct Unicode mapping): 1"
_LETTERS = sorted(set("".join(_ENGLISH)) - {" "})
_CODES = {" ": 32} | {letter: 33 + place for place, letter in enumerate(_LETTERS)}


def _read(font: bytes, lines: tuple[bytes, ...], others: dict[int, bytes]) -> Document:
    shown = b"\n".join(
        b"BT /F1 11 Tf 50 %d Td <%s> Tj ET" % (740 - 20 * row, line.hex().encode()) for row, line in enumerate(lines)
    )
    return normalize(RawContent(pdf(page(shown, b"/Font << /F1 5 0 R >>") | {5: font} | others), "a.pdf"))


def _simple(entries: bytes, others: dict[int, bytes] | None = None, lines: tuple[str, ...] = _ENGLISH) -> Document:
    """Read a font without embedded glyphs, with the codes of ISO 8859-1."""
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica %s >>" % entries
    return _read(font, tuple(line.encode("latin-1") for line in lines), others or {})


def _own_codes(entries: bytes, others: dict[int, bytes] | None = None) -> Document:
    """Read a font that numbers its codes in the order of its letters."""
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica %s >>" % entries
    return _read(font, tuple(bytes(_CODES[letter] for letter in line) for line in _ENGLISH), others or {})


def _differences(name: str) -> bytes:
    names = " ".join("/" + name.format(letter=letter, code=ord(letter)) for letter in _LETTERS)
    return b"/Encoding << /Differences [33 %s] >>" % names.encode()


def _drawn(names: bytes) -> Document:
    """Read a Type 3 font; its glyphs are drawings with these names."""
    drawings = b" ".join(name + b" 6 0 R" for name in names.split())
    font = (
        b"<< /Type /Font /Subtype /Type3 /FontBBox [0 0 500 700] /FontMatrix [.001 0 0 .001 0 0] /FirstChar 32 /LastChar 127 "
        b"/Widths [%s] /CharProcs << %s >> /Encoding << /Differences [33 %s] >> >>" % (b"550 " * 96, drawings, names)
    )
    drawing = stream(b"500 0 0 0 500 700 d1 0 0 400 600 re f")
    return _read(font, tuple(bytes(_CODES[letter] for letter in line) for line in _ENGLISH), {6: drawing})


def _composite(
    encoding: bytes, ordering: bytes, lines: tuple[bytes, ...], entries: bytes = b"", program: bytes = b""
) -> Document:
    """Read a font of two bytes a code. Object 9 maps only the first code of Shift-JIS text."""
    embedded = b"/FontFile2 8 0 R" if program else b""
    first = b"1 begincodespacerange <0000> <FFFF> endcodespacerange 1 beginbfchar <89CD> <6CB3> endbfchar"
    return _read(
        b"<< /Type /Font /Subtype /Type0 /BaseFont /Mincho /Encoding /%s /DescendantFonts [6 0 R] %s >>"
        % (encoding, entries),
        lines,
        {
            6: b"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Mincho /DW 1000 /FontDescriptor 7 0 R /CIDToGIDMap /Identity "
            b"/CIDSystemInfo << /Registry (Adobe) /Ordering (%s) /Supplement 0 >> >>" % ordering,
            7: b"<< /Type /FontDescriptor /FontName /Mincho /Flags 4 /FontBBox [0 -200 1000 900] /ItalicAngle 0 /Ascent 900 "
            b"/Descent -200 /CapHeight 700 /StemV 80 %s >>" % embedded,
            8: stream(program, b"/Length1 %d" % len(program)),
            9: stream(b"begincmap %s endcmap" % first),
        },
    )


def _map(pairs: dict[str, str]) -> dict[int, bytes]:
    """Return object 9, which maps codes of one byte to characters."""
    rows = b" ".join(
        b"<%02X> <%s>" % (ord(code), letter.encode("utf-16-be").hex().encode()) for code, letter in pairs.items()
    )
    return {
        9: stream(
            b"begincmap 1 begincodespacerange <00> <FF> endcodespacerange %d beginbfchar %s endbfchar"
            % (len(pairs), rows)
        )
    }


_OWN_MAP = _map({chr(code): letter for letter, code in _CODES.items()})
_POLISH_GLYPHS = "".join(sorted(set("".join(_POLISH)), key=lambda letter: (letter.isascii(), letter)))
_ENGLISH_GLYPHS = " " + "".join(_LETTERS)


def _glyphs(lines: tuple[str, ...], glyphs: str) -> tuple[bytes, ...]:
    return tuple(b"".join((glyphs.index(letter) + 1).to_bytes(2, "big") for letter in line) for line in lines)


def _encoded(lines: tuple[str, ...], codec: str) -> tuple[bytes, ...]:
    return tuple(line.encode(codec) for line in lines)


_POLISH_FONT = true_type(_POLISH_GLYPHS)
_NAMED = b"/ToUnicode /Identity-H"


@pytest.mark.parametrize(
    ("read", "lines"),
    [
        (lambda: _composite(b"Identity-H", b"Identity", _encoded(_POLISH, "utf-16-be"), _NAMED, _POLISH_FONT), _POLISH),
        (lambda: _composite(b"Identity-H", b"Identity", _encoded(_POLISH, "utf-16-be"), b"", _POLISH_FONT), _POLISH),
        (lambda: _composite(b"KSCms-UHC-H", b"Korea1", _encoded(_KOREAN, "cp949")), _KOREAN),
        (lambda: _composite(b"UniKS-UTF16-H", b"Korea1", _encoded(_KOREAN, "utf-16-be")), _KOREAN),
        (lambda: _composite(b"90ms-RKSJ-H", b"Japan1", _encoded(_JAPANESE, "cp932"), b"/ToUnicode 9 0 R"), _JAPANESE),
    ],
    ids=["map that is a name", "no map", "Korean", "Korean without spaces", "map of one character"],
)  # fmt: skip
def test_page_that_only_pdfium_reads_right_is_replaced(read: Callable[[], Document], lines: tuple[str, ...]) -> None:
    document = read()
    assert document.text.split("\n") == list(lines)
    assert document.warnings == (_BY_PDFIUM,)


@pytest.mark.parametrize(
    "read",
    [
        lambda: _simple(b""),
        lambda: _simple(_NAMED),
        lambda: _simple(b"/ToUnicode 9 0 R", {9: stream(b"")}),
        lambda: _simple(b"/Encoding /WinAnsiEncoding /ToUnicode 9 0 R", _map({"e": "e", "t": "t"})),
        lambda: _own_codes(_differences("{letter}")),
        lambda: _own_codes(_differences("uni{code:04X}")),
        lambda: _own_codes(b"/ToUnicode 9 0 R " + _differences("g{code}"), _OWN_MAP),
        lambda: _drawn(" ".join("/" + letter for letter in _LETTERS).encode()),
        lambda: _composite(b"Identity-H", b"Identity", _glyphs(_ENGLISH, _ENGLISH_GLYPHS), b"", true_type(_ENGLISH_GLYPHS)),
        lambda: _composite(b"Identity-H", b"Identity", _glyphs(_ENGLISH, _ENGLISH_GLYPHS), _NAMED, true_type(_ENGLISH_GLYPHS)),
    ],
    ids=[
        "standard font", "map that is a name", "empty map", "map of some letters", "names", "names of code points", "map",
        "drawn glyphs with names", "glyph numbers", "glyph numbers and map that is a name",
    ],
)  # fmt: skip
def test_page_that_xberg_reads_right_stays(read: Callable[[], Document]) -> None:
    document = read()
    assert document.text.split() == " ".join(_ENGLISH).split()
    assert document.warnings == ()


@pytest.mark.parametrize(
    "read",
    [
        lambda: _own_codes(_differences("g{code}")),
        lambda: _drawn(" ".join(f"/c{ord(letter)}" for letter in _LETTERS).encode()),
        lambda: _simple(b"/ToUnicode 9 0 R", _map(dict.fromkeys(_LETTERS, "�"))),
        lambda: _simple(b"/ToUnicode 9 0 R", _map({letter: chr(0xF000 + ord(letter)) for letter in _LETTERS})),
        lambda: _simple(b"/ToUnicode 9 0 R", _map({letter: chr(ord(letter) + 99) for letter in _LETTERS})),
        lambda: _composite(b"Identity-H", b"Identity", _glyphs(_ENGLISH, _ENGLISH_GLYPHS)),
        lambda: _simple(
            b"/Encoding /WinAnsiEncoding",
            lines=tuple(line.encode().decode("latin-1") for line in ("größte Brücke", "süße Äpfel über Öfen")),
        ),
    ],
    ids=[
        "numbered names",
        "drawn glyphs",
        "no characters",
        "private use",
        "accented letters",
        "glyph numbers",
        "encoded twice",
    ],
)
def test_page_that_no_reader_reads_right_gives_a_warning(read: Callable[[], Document]) -> None:
    assert _DOUBTFUL in read().warnings


@pytest.mark.parametrize(
    "text",
    [
        "Dr. A. Smith (PhD) paid $1,234.50 on 12/03/2024, see https://weir.example/a?b=1 or ada@weir.example.",
        "Die Angst der GmbH & Co. KG: 5 % der Straßenbrücken fehlen, z. B. in Ückeritz; siehe Abs. 2.",
        "Strč prst skrz krk, vlk a čtvrtek",
        "Źdźbło trawy i chrząszcz w Szczebrzeszynie",
        "Nehrin suyu iki metreyi aştı, İstanbul'da",
        "Mực nước sông đã vượt quá hai mét vào buổi sáng",
        "Съешь же ещё этих мягких булок, да выпей чаю",
        "Ξεσκεπάζω τὴν ψυχοφθόρα βδελυγμία",
        "Գետի ջուրը բարձր է այսօր",
        "მდინარის წყალი მაღალია",
        "שָׁלוֹם עולם וברוכים הבאים",
        "السلام عليكم ورحمة الله",
        "น้ำในแม่น้ำขึ้นสูงกว่าสองเมตร",
        "नदी का पानी दो मीटर से ऊपर है",
        "የወንዙ ውሃ ከፍ ብሏል",
        "河川の水位は、二メートルに達した。2024年のABC調査",
        "河流的水位达到了两米高",
        "강의 수위는 이 미터에 이르렀다.",
        "Re\u0301union du comite\u0301 des e\u0301cluses",
        "| Item | Qty |\n| --- | --- |\n| A-12 | €4.50 |",
        "Introduction ............ 3",
        "def read_text(self, path: Path) -> str: return path.read_text(encoding='utf-8')  # camelCaseName",
    ],
)
def test_text_of_any_language_consists_of_words(text: str) -> None:
    judged = legibility(text)
    assert 4 * judged.garbage < judged.words


@pytest.mark.parametrize(
    "text",
    [
        "fakturaDnrDfVDźŁNóNź",
        "7KHKDUERXULQVSHFWLRQIRXQGZDWHULQWKHORZHUFKDPEHURIWKHORFN",
        ",042(&5,10 )160' 8$5(3 .1&\"7(39 26/2",
        "강의₼痔㎢ 이₹謙沽이르렀다수문을₁緇객사람은⃀巢溶않았다",
        "grÃ¶ÃŸten FlÃ¼ssen hÃ¤ngen BrÃ¼cken",
        "?????? ????????? ??????????",
        "\ue054\ue068 \ue069 \ue068\ue061\ue072 " * 5,
        '"Ð|þO‹"SnlO›mªOŽOüOèOëO¤ºsOvO\\~wOO‹',
        "T h e h a r b o u r i n s p e c t i o n",
        "\x04\x0c\x01\x06\x12" * 9,
        "ËÄÕÅÒØÕ ÌÑÖÓÈÆ×ÌÒÑ ÉÒØÑÇ ÚÄ×ÈÕ",
        "." * 90_000 + "a" + "!?" * 90_000 + "a",
    ],
)
def test_text_of_wrong_characters_is_doubtful(text: str) -> None:
    assert legibility(text).is_doubtful
