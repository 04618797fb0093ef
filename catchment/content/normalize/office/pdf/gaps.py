"""Divide words that xberg joins although a wide gap is between them, as between columns that a file has line by line."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from catchment.content.normalize.office.pdf.pdfium_calls import code_points

_WIDE = 0.5
"""The least width of a gap in sizes of the font; a reader that divides one word sees less."""
_MAX_JOINED = 4
_WORD = re.compile(r"\S+")


def divided(text: str, plain: str, parts: Callable[[], Iterable[list[str]]]) -> str:
    """Return the text of xberg with spaces in joined words. `parts` has words with wide gaps between, `plain` all words."""
    unspaced = "".join(plain.split())
    words = {word for word in set(text.split()) - set(plain.split()) if word in unspaced}
    joined = _joined(words, map(str.split, plain.splitlines()))
    joined = _joined(set(joined), parts()) if joined else joined
    return _WORD.sub(lambda word: joined.get(word[0], word[0]), text) if joined else text


def _joined(words: set[str], lines: Iterable[list[str]]) -> dict[str, str]:
    """Return those of the words that are neighbours of a line without their spaces, with the spaces."""
    spaced: dict[str, str] = {}
    for line in lines if words else ():
        for place in range(len(line)):
            for end in range(place + 2, min(place + _MAX_JOINED, len(line)) + 1):
                if (word := "".join(line[place:end])) in words:
                    spaced[word] = " ".join(line[place:end])
    return spaced


def parted(text: Any) -> Iterator[list[str]]:
    """Yield words of a page of PDFium that stand in a row with wide gaps between them."""
    import pypdfium2.raw as pdfium

    x, y, box = ctypes.c_double(), ctypes.c_double(), pdfium.FS_RECTF()
    words: list[str] = []
    is_between, right, row = True, 0.0, 0.0
    for place, letter in code_points(text, range(text.count_chars())):
        if letter.isspace():
            is_between = True
            continue
        pdfium.FPDFText_GetCharOrigin(text, place, x, y)
        pdfium.FPDFText_GetLooseCharBox(text, place, box)
        size = box.top - box.bottom
        if words and not is_between:
            words[-1] += letter
        elif words and box.left - right > _WIDE * size and abs(y.value - row) < _WIDE * size:
            words.append(letter)
        else:
            yield words
            words = [letter]
        is_between, right, row = False, box.right, y.value
    yield words
