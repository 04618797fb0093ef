"""The fonts of an RTF file: each has a code page, or is a font of symbols."""

from __future__ import annotations

from catchment.charsets import codec_of
from catchment.content.normalize.office.symbol_fonts import FONTS

_PAGES = {"ansi": "cp1252", "mac": "mac_roman", "pc": "cp437", "pca": "cp850"}
_CHARSETS = {
    0: "cp1252", 77: "mac_roman", 78: "cp932", 79: "big5", 80: "cp949", 81: "mac_arabic", 83: "mac_greek", 84: "mac_cyrillic",
    85: "gb18030", 86: "mac_romanian", 87: "mac_cyrillic", 89: "mac_latin2", 128: "cp932", 129: "cp949", 130: "johab",
    134: "gb18030", 136: "cp950", 161: "cp1253", 162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257",
    204: "cp1251", 222: "cp874", 238: "cp1250", 254: "cp437", 255: "cp850",
}  # fmt: skip
NO_FONT = -1
"""Text in the code page of the file, such as its title."""


class Fonts:
    """The font table and the code page of the file."""

    def __init__(self) -> None:
        self.default = NO_FONT
        self._page = "cp1252"
        self._codecs: dict[int, str] = {}
        self._symbols: dict[int, dict[int, str]] = {}
        self._defined = 0
        self._selecting = frozenset({"f"})

    def define(self, word: str, number: int | None) -> None:
        """Obey a control word of the font table."""
        if word == "f":
            self._defined = number or 0
        elif word == "fcharset" and number in _CHARSETS:
            self._codecs[self._defined] = _CHARSETS[number]

    def add_name(self, written: bytes) -> None:
        """Take the name of the font that is being defined."""
        if symbols := FONTS.get(written.decode("latin-1").strip(" ;").lower()):
            self._symbols[self._defined] = symbols

    def selects(self, word: str) -> bool:
        """Return whether the number of a control word is the font of the text: of `\\f`, and after `\\rtlch` also of `\\af`."""
        return word in self._selecting

    def obeys(self, word: str, number: int | None) -> bool:
        """Obey a control word about code pages; return False for other words."""
        if word == "ansicpg":
            self._page = codec_of(f"cp{number}") or self._page
        elif word == "deff":
            self.default = number or 0
        elif word in _PAGES:
            self._page = _PAGES[word]
        elif word in ("rtlch", "ltrch"):
            self._selecting = frozenset({"f", "af"} if word == "rtlch" else {"f"})
        else:
            return False
        return True

    def decoded(self, written: bytes, font: int | None) -> str:
        """Return bytes of text as characters."""
        font = self.default if font is None else font
        if font in self._symbols:
            return "".join(self._symbols[font].get(code, chr(code)) for code in written)
        return written.decode(self._codecs.get(font, self._page), "replace")

    def character(self, number: int, font: int | None) -> str:
        """Return the character of `\\u`, a signed number; in a font of symbols of the private area (U+F000)."""
        code = number if 0 <= number < 0x110000 else number % 0x10000
        return self._symbols.get(self.default if font is None else font, {}).get(code - 0xF000, chr(code))
