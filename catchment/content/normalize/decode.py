"""Bytes to text: the encoding is found, line ends become LF, and what could not be read is said in a warning."""

from __future__ import annotations

import codecs
import re

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SAMPLE = 8_192
_HALVES = 64
# Python knows more encodings than text is written in; some take quadratic time or make half characters.
_CHARSET = re.compile(
    r"(?:utf-?(?:8|16|32)|(?:us-)?ascii|latin-?\d|l\d|iso-?(?:8859|2022)|windows-|cp-?\d|koi8|shift|sjis|ms932|euc|gb|big5|hz|mac|tis)",
    re.IGNORECASE,
)
_LOOKS_LIKE_UTF8 = re.compile(r"iso-?2022|hz|utf-?(?:16|32)", re.IGNORECASE)
_XML = re.compile(
    rb"(?:\xef\xbb\xbf)?<\?xml\s[^<>]{0,200}?encoding\s*=\s*[\"'](?!(?i:utf-?(?:16|32)))([\w.:-]{2,40})[\"']"
)
_COOKIE = re.compile(rb"(?:[^\n]{0,200}\n)?[^\n]{0,200}?coding[:=][ \t]*(?!(?i:utf-?(?:16|32)))([\w.-]{2,40})")
_CONTROLS = bytes(set(range(32)) - {9, 10, 11, 12, 13, 27})


def decode(data: bytes, declared: str | None = None) -> tuple[str, tuple[str, ...]]:
    """The text, without its byte order mark and with LF line ends, and the warnings. Never fails.

    `declared` is the encoding that the content names itself. It counts where the bytes are not UTF-8, or could be both.
    """
    text, warnings = _decode(data, declared if declared and _CHARSET.match(declared) else None)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
        warnings = (*warnings, "NUL characters were replaced")
    return text, warnings


def said_by(data: bytes) -> str | None:
    """The encoding that a text names in an XML declaration, or in its first two lines (PEP 263).

    None for one in which the name itself could not be read as it stands there.
    """
    said = _XML.match(data) or _COOKIE.match(data)
    return said[1].decode("ascii") if said else None


def encoding_by_mark(data: bytes) -> str:
    """The encoding that a byte order mark names, or that the NUL bytes of UTF-16 give away at the start; "" for neither."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return encoding
    halves = data[:_HALVES:2], data[1:_HALVES:2]
    for half, other, encoding in ((*halves, "utf-16-be"), (*halves[::-1], "utf-16-le")):
        if len(other) > 1 and not half.strip(b"\x00") and b"\x00" not in other:
            return encoding
    return ""


def is_text(data: bytes) -> bool:
    """Whether the bytes are text: a byte order mark, or no NUL and hardly any control characters at their start."""
    head = data[:_SAMPLE]
    if head.startswith(tuple(mark for mark, _ in _MARKS)):
        return True
    if b"\x00" in head:
        return False
    controls = len(head) - len(head.translate(None, _CONTROLS))
    return controls * 50 <= len(head) + 200


def _decode(data: bytes, declared: str | None) -> tuple[str, tuple[str, ...]]:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            text = data[len(mark) :].decode(encoding, "replace")
            return text, (f"some characters are not valid {encoding.upper()}",) if "\ufffd" in text else ()
    ambiguous = declared is not None and _LOOKS_LIKE_UTF8.match(declared) is not None
    for candidate in (declared, "utf-8") if ambiguous else ("utf-8", declared):
        if candidate and (exact := _exactly(data, candidate)) is not None:
            return exact, ()
    text = data.decode("utf-8", "replace")
    damaged = text.count("\ufffd")
    beyond_ascii = len(text) - len(text.encode("ascii", "ignore"))
    if beyond_ascii - damaged > damaged:
        return text, ("some characters are not valid UTF-8",)
    try:
        return data.decode("cp1252"), ("not UTF-8; read as Windows-1252",)
    except UnicodeDecodeError:
        return data.decode("latin-1"), ("not UTF-8; read as Latin-1",)


def _exactly(data: bytes, encoding: str) -> str | None:
    """The text in this encoding; None where that is unknown or not true."""
    try:
        return data.decode(encoding)
    except LookupError:
        return None
    except ValueError:
        return _as_windows_writes(data, encoding)


def _as_windows_writes(data: bytes, encoding: str) -> str | None:
    """The same for Japanese text with characters that Python's codecs refuse."""
    family = re.sub(r"[_-]", "", encoding.lower())
    if not family.startswith(("iso2022jp", "eucjp")):
        return None
    from catchment.content.normalize.japanese import from_euc_jp, from_iso_2022_jp

    try:
        return from_iso_2022_jp(data) if family.startswith("iso") else from_euc_jp(data)
    except ValueError:
        return None
