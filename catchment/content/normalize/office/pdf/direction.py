"""Read lines of Arabic and Hebrew from the places of their letters, which a file may have in any order."""

from __future__ import annotations

import ctypes
import re
import unicodedata
from bisect import bisect
from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from catchment.content.normalize.office.pdf.pdfium_calls import code_points

_RIGHT = "\u0590-\u065f\u066a-\u06ef\u06fa-\u08ff\ufb1d-\ufdff\ufe70-\ufefc"
RIGHT_TO_LEFT = re.compile(f"[{_RIGHT}]{{2}}")
_LEFT = rf"(?![{_RIGHT}])[^\W\d_]"
_TO_LEFT = re.compile(rf"[{_RIGHT}](?:(?:(?!{_LEFT}).)*[{_RIGHT}])?")
_TO_RIGHT = re.compile(rf"{_LEFT}(?:[^{_RIGHT}]*(?:{_LEFT}|\d))?|\d(?:[\d.,:/٫٬-]*\d)?%?")
_ACCENT = re.compile("[\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed]")
_OPEN, _CLOSED = list("([{«"), list(")]}»")
_MIRROR = dict(zip(_OPEN + _CLOSED, _CLOSED + _OPEN, strict=True))
_ROW, _WORDS, _COLUMNS = 0.3, 0.15, 2.0
"""The distances of letters of a row, of words and of columns, in sizes of the font."""

_MAX_CHARACTERS, _MAX_LINE = 50_000, 500


class _Letter(NamedTuple):
    text: str
    x: float
    y: float
    left: float
    right: float
    size: float


def ordered_text(text: Any, plain: str) -> str | None:
    """Return the text of a page with right-to-left words, or None if it has none, is turned or too long."""
    if not RIGHT_TO_LEFT.search(plain) or text.count_chars() > _MAX_CHARACTERS:
        return None
    lines: list[list[_Letter]] = []
    for is_end, group in groupby(_letters(text), key=lambda each: each is None):
        letters = [each for each in group if each]
        if any(not each.size for each in letters):
            return None
        if not is_end and lines and len(lines[-1]) < _MAX_LINE and _is_beside(lines[-1], letters):
            lines[-1] += letters
        elif not is_end:
            lines.append(letters)
    return unicodedata.normalize("NFC", "\n".join(_logical(_left_to_right(line)) for line in lines))


def _letters(text: Any) -> Iterator[_Letter | None]:
    """Yield the visible characters of a page, and None at the end of a line. The size of turned characters is 0."""
    import pypdfium2.raw as pdfium

    x, y, box, matrix = ctypes.c_double(), ctypes.c_double(), pdfium.FS_RECTF(), pdfium.FS_MATRIX()
    for place, letter in code_points(text, range(text.count_chars())):
        if letter == "\n":
            yield None
        elif not letter.isspace() and letter.isprintable() and pdfium.FPDFText_GetCharOrigin(text, place, x, y):
            pdfium.FPDFText_GetLooseCharBox(text, place, box)
            pdfium.FPDFText_GetMatrix(text, place, matrix)
            size = pdfium.FPDFText_GetFontSize(text, place) * abs(matrix.d) if matrix.a > abs(matrix.b) else 0.0
            yield _Letter(unicodedata.normalize("NFKC", letter), x.value, y.value, box.left, box.right, size)


def _is_beside(line: list[_Letter], other: list[_Letter]) -> bool:
    """Return whether two parts belong to one line, which PDFium divides at accents."""
    size = max(line[-1].size, other[0].size)
    gap = max(min(each.left for each in part) for part in (line, other)) - min(
        max(each.right for each in part) for part in (line, other)
    )
    return abs(line[-1].y - other[0].y) < _ROW * size and gap < _COLUMNS * size


def _left_to_right(line: list[_Letter]) -> list[str]:
    """Return the letters of a line from left to right, each with its accents, and spaces."""
    bases = sorted((each for each in line if not _ACCENT.match(each.text)), key=lambda each: each.left)
    glyphs = [each.text for each in bases]
    lefts, places = [each.left for each in bases], {each.x: place for place, each in enumerate(bases)}
    for accent in filter(lambda each: bases and _ACCENT.match(each.text), line):
        below = bisect(lefts, (accent.left + accent.right) / 2) - 1
        glyphs[places.get(accent.x, max(below, 0))] += accent.text
    words = glyphs[:1]
    for (before, each), letter in zip(pairwise(bases), glyphs[1:], strict=True):
        words += [" ", letter] if min(each.x, each.left) - before.right > _WORDS * each.size else [letter]
    return words


def _logical(glyphs: list[str]) -> str:
    """Return a line in the order of reading (Unicode Annex 9). Its direction is that of most of its letters."""
    letters = "".join(letter[0] for letter in glyphs)
    if not (parts := list(_TO_LEFT.finditer(letters))):
        return "".join(glyphs)
    if 2 * sum(len(part[0]) for part in parts) >= sum(map(str.isalpha, letters)):
        return _reversed(glyphs, letters)
    words, last = "", 0
    for part in parts:
        words += "".join(glyphs[last : part.start()]) + _reversed(glyphs[part.start() : part.end()], part[0])
        last = part.end()
    return words + "".join(glyphs[last:])


def _reversed(glyphs: list[str], letters: str) -> str:
    """Return letters from right to left; words and numbers of the other direction keep their order, brackets embrace."""
    words, last = [], 0
    for part in _TO_RIGHT.finditer(letters):
        words += [*glyphs[last : part.start()], "".join(glyphs[part.start() : part.end()])]
        last = part.end()
    words = [*words, *glyphs[last:]][::-1]
    is_outward = next((word in _CLOSED for word in words if word in _MIRROR), False)
    return "".join(_MIRROR.get(word, word) if is_outward else word for word in words)
