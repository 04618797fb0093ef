"""Decode text: detect or guess the encoding, convert line ends to LF, and warn about invalid characters."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Mapping
from typing import Any, NamedTuple

from catchment.charsets import codec_of
from catchment.content.foreign_json import with_utf8_surrogates

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MARK_BYTES = tuple(mark for mark, _ in _MARKS)
_SAMPLE = 8_192
_LEAST_UTF16 = 16
_GUESSED_FROM = 16_384
_DOUBTFUL = 0.2
"""A confidence: below it 10 % of the guesses are wrong, above it less than 1 %."""
_BLIND = 0.02
_DOUBT = "the encoding is a guess ({}); if the text is wrong, set `encoding` for the source"
UNKNOWN_NAME = "the declared encoding is unknown; the encoding was guessed"
_LATIN = ("cp1250", "cp1252", "cp1254", "cp1257", "cp1258", "iso8859-2", "iso8859-9", "iso8859-15")
_ANY = (
    *_LATIN, "cp932", "euc-jp", "gb18030", "big5", "euc-kr", "koi8-r", "koi8-u", "cp866", "cp874", "cp1251", "cp1253", "cp1255",
    "cp1256", "iso8859-5", "iso8859-6", "iso8859-7", "iso8859-8",
)  # fmt: skip
_RUN = re.compile(rb"[\x80-\xff]{2,}")
_BEYOND_ASCII = bytes(range(0x80, 0x100))
_LIKE_UTF8 = frozenset(
    {"gb18030", "cp949", "cp932", "cp950", "big5hkscs", "euc_jp", "johab", "hz", "iso2022_jp_2", "iso2022_kr", "utf-7"}
    | {"utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"}
)
"""Encodings of text in bytes that may also be valid UTF-8, or ASCII."""
_CERTAIN = 6
"""Characters beyond ASCII in valid UTF-8. Of GB2312 each has one in seven to be valid by chance, of others fewer."""
_XML = re.compile(rb"(?:\xef\xbb\xbf)?\s*<\?xml\s[^<>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{2,40})[\"']")
_META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.IGNORECASE)
_COOKIE = re.compile(rb"(?:[^\n]{0,200}\n)?[^\n]{0,200}?coding[:=][ \t]*([\w.-]{2,40})")
_INSIDE = re.compile(
    rb"\A@charset \"([\w.-]{2,40})\";"
    rb"|^\"?content-type:[^\n]{0,100}?charset=[\"\\]*([\w.-]{2,40})"
    rb"|^[^%\n]{0,200}\\(?:usepackage|RequirePackage)\[([\w-]{2,40})\]\{inputenc\}|^\\inputencoding\{([\w-]{2,40})\}"
    rb"|^%[ \t]*!TEX[ \t]+encoding[ \t]*=[ \t]*([\w.-]{2,40})",
    re.IGNORECASE | re.MULTILINE,
)
"""The declaration in the head of a style sheet, a catalogue of translations or a TeX file."""
_MODELINE = re.compile(
    rb"\b(?:vim?|ex):[^\n]{0,100}?\b(?:fileencoding|fenc)=([\w.-]{2,40})"
    rb"|Local Variables:(?s:.{0,2000}?)\bcoding:[ \t]*([\w.-]{2,40})",
)
"""The line that Vim and Emacs read at the end of a file."""
_EMACS_LINE_END = re.compile(r"-(?:unix|dos|mac)\Z")
_TAIL = 3_000
_ASCII = bytes(range(32, 127)) + b"\t\n\r\f"
_CONTROLS = bytes(set(range(32)) - {9, 10, 11, 12, 13, 27})


class Decoded(NamedTuple):
    """Text with warnings. `properties` has `encoding` and `encoding-confidence` if the encoding was guessed."""

    text: str
    warnings: tuple[str, ...] = ()
    properties: Mapping[str, Any] = {}


def decode(data: bytes, *declared: str | None) -> Decoded:
    """Return the text without byte order mark and with LF line ends, and warnings. Never fails.

    `declared`: names of the encoding, the most reliable first: from the transport, then from the content. Unknown names are
    ignored, with a warning if the encoding is guessed. A byte order mark precedes them, and so does UTF-8, if the bytes are
    valid UTF-8 beyond ASCII by more than chance.
    """
    result = _decode(
        data, [name for label in declared if label and (name := codec_of(label)) and _is_possible(name, data)]
    )
    if "encoding-confidence" in result.properties and any(label and codec_of(label) is None for label in declared):
        result = result._replace(warnings=(*result.warnings, UNKNOWN_NAME))
    if "\r" in result.text:
        result = result._replace(text=result.text.replace("\r\n", "\n").replace("\r", "\n"))
    if "\x00" in result.text:
        warnings = (*result.warnings, "NUL characters were replaced")
        result = result._replace(text=result.text.replace("\x00", "\ufffd"), warnings=warnings)
    return result


def declared_encoding(data: bytes) -> str | None:
    """Return the encoding that a text declares for XML, in the first two lines (PEP 263), for its format or its editor."""
    matches = _XML.match(data), _COOKIE.match(data), _INSIDE.search(data[:_SAMPLE]), _MODELINE.search(data[-_TAIL:])
    names = [_EMACS_LINE_END.sub("", match[match.lastindex or 0].decode("ascii")) for match in matches if match]
    return next(filter(codec_of, names), names[0] if names else None)


def charset_of(page: bytes) -> str | None:
    """Return the encoding that a page declares in a meta element or an XML declaration, else None."""
    match = _META.search(page[:_SAMPLE]) or _XML.match(page)
    return match[1].decode("ascii") if match else None


def encoding_by_mark(data: bytes) -> str:
    """Return the encoding by a byte order mark, or UTF-16 without a mark; "" for other data."""
    if data.startswith(_MARK_BYTES):
        return next(encoding for mark, encoding in _MARKS if data.startswith(mark))
    return _unmarked_utf16(data) if data.find(0, 0, _SAMPLE) >= 0 else ""


def is_text(data: bytes) -> bool:
    """Return whether the bytes are text: a byte order mark, or no NUL and few control characters in the first 8 KiB."""
    if encoding_by_mark(data):
        return True
    if data.find(0, 0, _SAMPLE) >= 0:
        return False
    head = data[:_SAMPLE]
    controls = len(head) - len(head.translate(None, _CONTROLS))
    return controls * 50 <= len(head) + 200


def _decode(data: bytes, names: list[str]) -> Decoded:
    if marked := encoding_by_mark(data):
        return _forced(data, marked)
    text = _exactly(data, "utf-8")
    for name in names:
        if text is not None and not (name in _LIKE_UTF8 and _beyond_ascii(text) < _CERTAIN):
            break
        if (exact := _exactly(data, name)) is not None:
            return Decoded(exact)
        if name == "utf-8" and (damaged := _damaged(data, name)):
            return damaged
    if b"\x1b$" in data[:_SAMPLE] and (japanese := _exactly(data, "iso2022_jp_2")) is not None:
        return Decoded(japanese, properties={"encoding": "iso2022_jp_2"})
    if text is not None:
        return Decoded(text)
    return next(filter(None, (_damaged(data, name) for name in ("utf-8", *names))), None) or _guessed(data)


def _is_possible(encoding: str, data: bytes) -> bool:
    """Return whether data can be in its declared encoding; much text was declared first and then written in another one."""
    if encoding.startswith(("utf-16", "utf-32")):
        return 0 in data
    return encoding != "utf-7" or data.isascii()


def _damaged(data: bytes, encoding: str) -> Decoded | None:
    """Decode text of which most characters beyond ASCII are valid; None for other data."""
    text = (with_utf8_surrogates(data) if encoding == "utf-8" else data).decode(encoding, "replace")
    damaged = text.count("\ufffd")
    if _beyond_ascii(text) <= 2 * damaged:
        return None
    return Decoded(text, (f"some characters are not valid {encoding.upper()}",))


def _beyond_ascii(text: str) -> int:
    return 0 if text.isascii() else len(text) - len(text.encode("ascii", "ignore"))


def _forced(data: bytes, encoding: str) -> Decoded:
    """Decode in this encoding; replace invalid bytes and warn about them."""
    text = data.decode(encoding, "replace")
    warnings = (f"some characters are not valid {encoding.upper()}",) if "\ufffd" in text else ()
    if text.startswith("\ufeff"):
        return Decoded(text[1:], warnings)
    return Decoded(text, warnings, {"encoding": encoding})


def _guessed(data: bytes) -> Decoded:
    """Guess the encoding from lines with characters beyond ASCII and decode the text.

    In Latin script, letters beyond ASCII are mostly isolated ("Größe", "20 °C"); in other scripts they form runs.
    """
    import chardet

    lines = b"\n".join([line for line in data.splitlines() if not line.isascii()])[:_GUESSED_FROM]
    beyond = len(lines) - len(lines.translate(None, _BEYOND_ASCII))
    is_latin = 2 * sum(map(len, _RUN.findall(lines))) < beyond
    guess = chardet.detect(lines, compat_names=False, include_encodings=_LATIN if is_latin else _ANY)
    encoding, confidence = guess["encoding"] or "cp1252", round(guess["confidence"], 2)
    properties = {"encoding": encoding, "encoding-confidence": confidence}
    for name in (encoding, codec_of(encoding) or encoding) if confidence >= _BLIND else ():
        if (text := _exactly(data, name)) is not None:
            return Decoded(
                text, (_DOUBT.format(name),) if confidence < _DOUBTFUL else (), {**properties, "encoding": name}
            )
    if confidence >= _DOUBTFUL:
        return Decoded(
            data.decode(encoding, "replace"), (f"some characters are not valid {encoding.upper()}",), properties
        )
    name = "latin-1" if _exactly(data, "cp1252") is None else "cp1252"
    return Decoded(data.decode(name), (_DOUBT.format(name),), {"encoding": name, "encoding-confidence": 0.0})


def _unmarked_utf16(data: bytes) -> str:
    """Return `utf-16-le` or `utf-16-be` for data without a mark, "" for other data.

    In UTF-16 text every unit is an assigned character; the right byte order has fewer distinct high bytes.
    """
    head = data[:_SAMPLE]
    if len(data) % 2 or len(head) < _LEAST_UTF16 or b"\x00\x00\x00" in head:
        return ""
    if len(head.translate(None, _ASCII)) * 10 < len(head):  # a pair of ASCII letters is a Chinese character in UTF-16
        return ""
    candidates = []
    for encoding, decoder in (("utf-16-le", codecs.utf_16_le_decode), ("utf-16-be", codecs.utf_16_be_decode)):
        try:
            text = decoder(head, "strict", False)[0]
        except ValueError:
            continue
        letters = set(text) - set("\t\n\r\f")
        if not any(unicodedata.category(letter) in ("Cc", "Cn", "Co") for letter in letters):
            candidates.append((len({ord(letter) >> 8 for letter in letters}), encoding))
    return min(candidates)[1] if candidates else ""


def _exactly(data: bytes, encoding: str) -> str | None:
    """Decode strictly; None if the bytes are not valid in the encoding."""
    try:
        text = data.decode(encoding)
        if encoding == "utf-7":
            text.encode()  # the codec makes lone surrogates
    except ValueError:
        return _as_windows_writes(data, encoding)
    return text


def _as_windows_writes(data: bytes, encoding: str) -> str | None:
    """Decode Japanese text with vendor characters that Python's codecs reject; None for other text."""
    family = re.sub(r"[_-]", "", encoding.lower())
    if not family.startswith(("iso2022jp", "eucjp")):
        return None
    from catchment.content.normalize.japanese import from_euc_jp, from_iso_2022_jp

    try:
        return from_iso_2022_jp(data) if family.startswith("iso") else from_euc_jp(data)
    except ValueError:
        return None
