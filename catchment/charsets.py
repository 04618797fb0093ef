"""Names of character encodings, as files, messages and hosts write them.

A name has its meaning in the Encoding Standard of the WHATWG: many programs declare a subset of the encoding they use.
"""

from __future__ import annotations

import codecs
import re
from encodings.aliases import aliases
from functools import lru_cache

_NO_TEXT = frozenset(
    {"base64_codec", "bz2_codec", "hex_codec", "mbcs", "quopri_codec", "rot_13", "uu_codec", "zlib_codec"}
)
_MARKS = re.compile(r"[^0-9a-z]")
_DIVIDERS = re.compile(r"[\s;,]")
_WITHOUT_ALIAS = "cp1006 cp720 cp737 cp856 cp874 cp875 koi8_u mac_croatian mac_romanian"
_SUPERSETS = """
    ascii cp1252, latin_1 cp1252, iso8859_9 cp1254, iso8859_11 cp874, tis_620 cp874, gb2312 gb18030, gbk gb18030, euc_kr cp949,
    shift_jis cp932, shift_jisx0213 cp932, shift_jis_2004 cp932, euc_jisx0213 euc_jp, euc_jis_2004 euc_jp, big5 big5hkscs,
    iso2022_jp iso2022_jp_2, iso2022_jp_1 iso2022_jp_2, utf_16 utf_16_le, utf_32 utf_32_le"""
_MORE_NAMES = {
    "utf_8": "unicode11utf8 unicode20utf8 utf8x",
    "utf_16_le": "csunicode iso10646ucs2 ucs2 unicode unicodefeff",
    "utf_16_be": "unicodefffe",
    "cp1252": "ansi ansinew ansix31101983 isolatin1",
    "cp874": "dos874 windows874",
    "cp932": "windows31j",
    "cp949": "windows949 csksc56011987 ksc56011989 isoir149 cseuckr",
    "gb18030": "csgb2312",
    "big5hkscs": "cnbig5",
    "euc_jp": "cseucpkdfmtjapanese",
    "iso2022_jp_2": "cp50220 cp50221 cp50222",
    "iso8859_2": "isolatin2",
    "iso8859_6": "csiso88596e csiso88596i iso88596e iso88596i",
    "iso8859_7": "suneugreek",
    "iso8859_8": "csiso88598e csiso88598i iso88598e iso88598i logical visual",
    "iso8859_15": "csisolatin9 isolatin9",
    "koi8_r": "koi koi8",
    "koi8_u": "koi8ru",
    "mac_greek": "cp10006",
    "mac_latin2": "cp10029 macce",
    "mac_roman": "applemac cp10000 csmacintosh mac",
    "mac_cyrillic": "cp10007 macukrainian",
}


def _compact(name: str) -> str:
    return _MARKS.sub("", name.lower())


_CODECS = {
    _compact(name): codec for pair in aliases.items() for codec in pair[1:] for name in pair if codec not in _NO_TEXT
}
_CODECS |= {_compact(codec): codec for codec in _WITHOUT_ALIAS.split()}
_CODECS |= {name: codec for codec, names in _MORE_NAMES.items() for name in names.split()}
_LARGER = dict(pair.split() for pair in _SUPERSETS.split(","))


@lru_cache(maxsize=256)
def codec_of(label: str) -> str | None:
    """Return the name of Python's codec for a declared encoding, or None if that is unknown or not used for text.

    Case, punctuation, a leading `x-` and any text after the name are ignored: `"UTF-8"; format=flowed`.
    """
    for name in map(_compact, (label, _DIVIDERS.split(label.strip(" \t\r\n\"';,"), 1)[0])):
        if codec := _CODECS.get(name) or _CODECS.get(name.lstrip("x")):
            return codecs.lookup(_LARGER.get(codec, codec)).name
    return None
