"""Read vertical text of Chinese and Japanese pages: columns from right to left, from the positions that PDFium gives."""

from __future__ import annotations

import ctypes
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from catchment.content.normalize.office.pdf.pdfium_calls import code_points

_CJK = re.compile(
    "[\u2e80-\u30ff\u3400-\u9fff\uf900-\ufaff\ufe10-\ufe1f\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff]"
)
_MIN_IDEOGRAPHS = 6
_SAMPLES, _SAMPLE = 8, 16
"""The number of places of a page where the direction is examined, and the characters of each."""
_MAX_CHARACTERS = 50_000
_MAX_DEPTH = 8
_RUBY = 0.6
"""Columns with characters below this share of the usual size are readings (ruby) of the column beside them."""


class _Character(NamedTuple):
    """A character with its origin; `right` and `up` are the unit vector of its baseline."""

    text: str
    x: float
    y: float
    size: float
    right: float
    up: float
    is_spaced: bool

    def step(self, other: _Character) -> tuple[float, float]:
        """Return the way to another character in sizes of this one: along its baseline, and up."""
        x, y = other.x - self.x, other.y - self.y
        return (x * self.right + y * self.up) / self.size, (y * self.right - x * self.up) / self.size


class _Line:
    """Characters in a row, or below each other in a column."""

    def __init__(self, first: _Character) -> None:
        self.characters = [first]
        self.is_row = self.is_column = False

    def takes(self, character: _Character) -> bool:
        """Add a character if it continues the line. Two or three digits side by side are one place of a column."""
        right, up = self.characters[-1].step(character)
        is_below_first = abs(self.characters[0].step(character)[0]) < 0.8
        is_narrow = not self.is_row or abs(self.characters[0].step(self.characters[-1])[0]) < 0.8
        if -2.2 < up < -0.3 and is_below_first and is_narrow:
            self.is_row, self.is_column = False, True
        elif abs(up) < 0.3 and 0 < right < 2.5 and (is_below_first or not self.is_column):
            self.is_row = not self.is_column
        else:
            return False
        self.characters.append(character)
        return True

    def measure(self) -> None:
        """Set the size and the sides once the line is complete."""
        characters = [each for each in self.characters if _CJK.match(each.text)] or self.characters
        self.size = median(each.size for each in characters)
        self.left = min(each.x for each in self.characters) if self.is_row else median(each.x for each in characters)
        self.right = (self.characters[-1].x if self.is_row else self.left) + self.size
        self.top = self.characters[0].y + 0.9 * self.size
        self.bottom = self.characters[-1].y - 0.1 * self.size

    def text(self) -> str:
        words = [_horizontal(self.characters[0].text)]
        for before, each in pairwise(self.characters):
            ideographs = bool(_CJK.match(before.text)) + bool(_CJK.match(each.text))
            is_wide = max(map(abs, before.step(each))) > 1.7
            space = "\u3000" if ideographs == 2 and is_wide else " " if not ideographs and each.is_spaced else ""
            words += (space, _horizontal(each.text))
        return "".join(words)


def vertical_text(text: Any, plain: str) -> str | None:
    """Return the text of a page of vertical text, or None if it is horizontal. `plain` is its text in the order of PDFium."""
    count = text.count_chars()
    if len(_CJK.findall(plain)) < _MIN_IDEOGRAPHS or count > _MAX_CHARACTERS or not _is_vertical(text, count):
        return None
    lines: list[_Line] = []
    for character in _upright(list(_characters(text, range(count)))):
        if not (lines and lines[-1].takes(character)):
            lines.append(_Line(character))
    for line in lines:
        line.measure()
    usual = median(line.size for line in lines for _ in line.characters)
    readings = [line for line in lines if not line.is_row and line.size < _RUBY * usual]
    blocks = list(_blocks([line for line in lines if line.is_row or line.size >= _RUBY * usual], usual))
    return "\n\n".join(filter(None, (*map(_joined, blocks), " ".join(line.text() for line in readings))))


def _is_vertical(text: Any, count: int) -> bool:
    """Return whether ideographs stand below each other in at least a third of the examined places."""
    down = steps = 0
    for sample in range(_SAMPLES):
        start = sample * count // _SAMPLES
        examined = (
            each for each in _characters(text, range(start, min(start + _SAMPLE, count))) if _CJK.match(each.text)
        )
        for before, each in pairwise(examined):
            right, up = before.step(each)
            steps += 1
            down += abs(right) < 0.3 and -2.2 < up < -0.3
    return down >= _MIN_IDEOGRAPHS - 1 and 3 * down >= steps


def _characters(text: Any, places: Iterable[int]) -> Iterator[_Character]:
    """Yield the visible characters of a page."""
    import pypdfium2.raw as pdfium

    x, y, matrix = ctypes.c_double(), ctypes.c_double(), pdfium.FS_MATRIX()
    is_spaced = False
    for place, letter in code_points(text, places):
        if letter.isspace() or not letter.isprintable():
            is_spaced |= letter == " "
        elif pdfium.FPDFText_GetCharOrigin(text, place, x, y) and pdfium.FPDFText_GetMatrix(text, place, matrix):
            width, height = abs(complex(matrix.a, matrix.b)), abs(complex(matrix.c, matrix.d))
            size = pdfium.FPDFText_GetFontSize(text, place) * height
            if width and size:
                yield _Character(letter, x.value, y.value, size, matrix.a / width, matrix.b / width, is_spaced)
            is_spaced = False


def _upright(characters: list[_Character]) -> list[_Character]:
    """Turn the page so that its ideographs are upright."""
    ideographs = [each for each in characters if _CJK.match(each.text)]
    right, up = max(((each.right, each.up) for each in ideographs[:1]), default=(1.0, 0.0))
    return [
        each._replace(
            x=each.x * right + each.y * up,
            y=each.y * right - each.x * up,
            right=1.0,
            up=0.0,
        )
        for each in characters
    ]


def _blocks(lines: list[_Line], size: float, depth: int = 0) -> Iterator[list[_Line]]:
    """Yield the blocks of a page: those above first, then those to the right."""
    for gap, start, end in (
        (0.1 * size, lambda line: -line.top, lambda line: -line.bottom),
        (1.5 * size, lambda line: -line.right, lambda line: -line.left),
    ):
        parts = _parts(lines, gap, start, end) if depth < _MAX_DEPTH else []
        if len(parts) > 1:
            for part in parts:
                yield from _blocks(part, size, depth + 1)
            return
    yield lines


def _parts(
    lines: list[_Line], gap: float, start: Callable[[_Line], float], end: Callable[[_Line], float]
) -> list[list[_Line]]:
    """Divide lines where none of them is for at least a gap."""
    parts: list[list[_Line]] = []
    last = 0.0
    for line in sorted(lines, key=start):
        if not parts or start(line) - last >= gap:
            parts.append([])
            last = end(line)
        parts[-1].append(line)
        last = max(last, end(line))
    return parts


def _joined(lines: list[_Line]) -> str:
    """Return the text of a block. A column begins a paragraph if it starts lower, or if the column before it ends early."""
    if 2 * sum(line.is_row for line in lines) >= len(lines):
        return "\n".join(line.text() for line in sorted(lines, key=lambda line: (-line.top, line.left)))
    top, bottom = max(line.top for line in lines), min(line.bottom for line in lines)
    places = _parts(lines, 0.0, lambda line: -line.left - 0.2 * line.size, lambda line: -line.left + 0.2 * line.size)
    columns = [sorted(place, key=lambda line: -line.top) for place in places]
    words = ["".join(line.text() for line in columns[0])]
    for (*_, before), (first, *rest) in pairwise(columns):
        is_new = before.bottom > bottom + 1.5 * first.size or first.top < top - 0.7 * first.size
        is_new |= abs(first.size - before.size) > 0.1 * first.size
        words += ("\n\n" if is_new else "", *(line.text() for line in (first, *rest)))
    return "".join(words)


def _horizontal(letter: str) -> str:
    """Return the ordinary form of a punctuation mark that is encoded for vertical text."""
    return unicodedata.normalize("NFKC", letter) if "\ufe10" <= letter <= "\ufe4f" else letter
