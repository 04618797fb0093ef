"""A font for PDFium with a single square glyph, for ideographs without a font in the file.

PDFium omits vertical text without glyphs, and only some machines have fonts of Chinese, Japanese and Korean. This font makes
the text of a page the same on each machine.
"""

from __future__ import annotations

import ctypes
import struct
from functools import cache
from typing import Any

_CHARSETS = (128, 129, 134, 136)
"""Shift-JIS, Hangul, GB2312 and Big5, as in FPDF_SYSFONTINFO."""
_UNITS = 1000


@cache
def install_glyphs() -> tuple[Any, ...]:
    """Let PDFium take the glyph of every ideograph from here instead of the fonts of the machine.

    The result owns the functions that PDFium calls; the cache keeps it for the life of the process.
    """
    import pypdfium2.raw as pdfium

    font = _font()
    kinds = dict(pdfium.FPDF_SYSFONTINFO._fields_)

    def mapped(_fonts: Any, _weight: int, _italic: int, charset: int, *_rest: Any) -> int | None:
        return 1 if charset in _CHARSETS else None

    def data(_fonts: Any, _font: Any, table: int, buffer: Any, size: int) -> int:
        if table:
            return 0
        if buffer and size >= len(font):
            ctypes.memmove(buffer, font, len(font))
        return len(font)

    fonts = pdfium.FPDF_SYSFONTINFO(version=2, MapFont=kinds["MapFont"](mapped), GetFontData=kinds["GetFontData"](data))
    pdfium.FPDF_SetSystemFontInfo(ctypes.pointer(fonts))
    return fonts, mapped, data


def _font() -> bytes:
    """Return a TrueType font in which each character is the same square (OpenType 1.9; `cmap` of format 13)."""
    square = struct.pack(">5h2H4B", 1, 0, 0, _UNITS, _UNITS, 3, 0, 1, 1, 1, 1)
    square += struct.pack(">8h", 0, _UNITS, 0, -_UNITS, 0, 0, _UNITS, 0)
    tables = {
        b"cmap": struct.pack(">4HI", 0, 1, 3, 10, 12) + struct.pack(">2H6I", 13, 0, 28, 0, 1, 0x20, 0x10FFFF, 1),
        b"glyf": square,
        b"head": struct.pack(
            ">4I2H2Q4h2H3h", 0x10000, 0x10000, 0, 0x5F0F3CF5, 0, _UNITS, 0, 0, 0, 0, _UNITS, _UNITS, 0, 8, 2, 1, 0
        ),
        b"hhea": struct.pack(">I3hH6h8xhH", 0x10000, _UNITS, 0, 0, _UNITS, 0, 0, _UNITS, 1, 0, 0, 0, 2),
        b"hmtx": struct.pack(">HhHh", _UNITS, 0, _UNITS, 0),
        b"loca": struct.pack(">3I", 0, 0, len(square)),
        b"maxp": struct.pack(">I14H", 0x10000, 2, 4, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0),
    }
    place = 12 + 16 * len(tables)
    head, body = struct.pack(">I4H", 0x10000, len(tables), 64, 2, 16 * len(tables) - 64), b""
    for name, content in tables.items():
        head += struct.pack(">4s3I", name, 0, place + len(body), len(content))
        body += content + bytes(-len(content) % 4)
    return head + body
