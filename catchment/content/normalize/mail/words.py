"""Header fields to text: encoded words (RFC 2047), raw 8-bit text, lists of people, identifiers, dates. Never fails."""

from __future__ import annotations

import binascii
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from catchment.content.normalize.decode import decode

_MAX_PEOPLE = 500
_MAX_NAME = 200
_WORD = re.compile(r"=\?([\w.:+-]{1,60})(?:\*[\w-]{0,20})?\?([bBqQ])\?([^?\n]{0,5000})\?=")
_SPACE = re.compile(r"\s+")
_HEX = re.compile(rb"=([0-9A-Fa-f]{2})")
_UNSEEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
_COMMENT_MARK = re.compile(r"\\.|[\"()]", re.DOTALL)
_PERSON = re.compile(
    r"\"((?>(?:[^\"\\]++|\\(?:.|\Z))*))(?:\"|\Z)|\(((?>(?:[^()\\]++|\\(?:.|\Z))*))(?:\)|\Z)|<([^<>]*+)(?:>|\Z)"
    r"|([,;])|(:)|([^\",;:<>()]++)|.",
    re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ADDRESS = re.compile(r"[^\s@\"(),:;<>\[\]]{1,200}@[^\s@\"(),:;<>]{1,260}")
_IDENTIFIER = re.compile(r"<([^<>]{1,998})>")
_BARE_IDENTIFIER = re.compile(r"[^\s<>\"(),;]{1,500}@[^\s<>\"(),;]{1,400}")
# Written otherwise than RFC 5322 has it: `+01:00`, and `GMT+0100` as JavaScript writes a date; and a leap second.
_ZONE = re.compile(r"(\d\d:\d\d(?::\d\d)?)[ \t]*(?:GMT|UTC?)?[ \t]*([+-]\d\d):?(\d\d)(?!\d)", re.IGNORECASE)
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")
_ISO_SPACE = re.compile(r"(?<=\d)\s+(?=[+-]\d)")
_LEAP_SECOND = re.compile(r"(\d\d:\d\d):60(?!\d)")
_EARLIEST, _LATEST = datetime(1900, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
# The days around a clock's zero, which programs write that know no time (Unix, classic Mac OS).
_NO_TIME = (
    (datetime(1969, 12, 31, tzinfo=UTC), datetime(1970, 1, 3, tzinfo=UTC)),
    (datetime(1903, 12, 31, tzinfo=UTC), datetime(1904, 1, 3, tzinfo=UTC)),
)

# What senders call it is often less than what they write: the larger set reads both.
_LARGER = {
    "ascii": "cp1252", "us-ascii": "cp1252", "iso-8859-1": "cp1252", "iso8859-1": "cp1252", "latin1": "cp1252",
    "latin-1": "cp1252", "iso-8859-9": "cp1254", "iso-8859-11": "cp874", "tis-620": "cp874",
    "gb2312": "gb18030", "gb_2312-80": "gb18030", "gbk": "gb18030", "cp936": "gb18030",
    "euc-kr": "cp949", "ks_c_5601-1987": "cp949", "ksc5601": "cp949", "iso-2022-kr": "iso2022_kr",
    "shift_jis": "cp932", "shift-jis": "cp932", "sjis": "cp932", "x-sjis": "cp932", "windows-31j": "cp932",
    "iso-2022-jp": "iso2022_jp_2", "big5": "big5hkscs", "iso-8859-8-i": "iso-8859-8", "x-mac-roman": "mac_roman",
    "x-gbk": "gb18030", "unicode-1-1-utf-7": "utf-7",
}  # fmt: skip
# Their letters can look like UTF-8 by chance, or are ASCII that means something else: the name goes first.
_TRUSTED = frozenset({"gb18030", "cp949", "cp932", "big5hkscs", "euc-jp", "iso2022_jp_2", "iso2022_kr", "utf-7"})


def decoded(data: bytes, charset: str | None) -> str:
    """Bytes as text in the encoding that mail says, or in the one that they are in."""
    name = (charset or "").strip().strip("\"'").lower()
    name = _LARGER.get(name, name)
    if name in _TRUSTED:
        try:
            return _without_carriage_returns(data.decode(name))
        except ValueError:
            pass
    return decode(data, name or None).text


def as_bytes(text: str) -> bytes:
    """The bytes that `raw` made this text of."""
    return text.encode("utf-8", "surrogateescape")


def _line(value: bytes) -> str:
    """A field's bytes as text, encoded words unread."""
    return value.decode("ascii") if value.isascii() and b"\x1b" not in value else decoded(value, None)


def raw(value: bytes) -> str:
    """A field's bytes as text whose structure can be read; what is not UTF-8 can be had back by `as_bytes`."""
    return value.decode("utf-8", "surrogateescape")


def text(value: bytes) -> str:
    """A field of free text: encoded words and raw 8-bit letters read, on one line."""
    return _clean(_expanded(_line(value)))


def file_name(said: str) -> str:
    """The last part of a file's name, without what no file system takes, at most 200 characters."""
    name = _clean(_expanded(decoded(as_bytes(said), None)))
    name = re.split(r"[/\\]", name)[-1].strip(". ") if name.strip("./\\ ") else ""
    stem, dot, ending = name.rpartition(".")
    if len(name) > _MAX_NAME:
        name = f"{stem[: _MAX_NAME - 20]}.{ending[:19]}" if dot and len(ending) < 20 else name[:_MAX_NAME]
    return name


def people(value: bytes) -> list[tuple[str, str]]:
    """Names and addresses in a list of mailboxes, each "" where it is not said; at most 500."""
    line, comments = _uncommented(_line(value))
    found: list[tuple[str, str]] = []
    said: list[str] = []
    comment, address = "", ""

    def finish() -> None:
        nonlocal comment, address
        name = _clean(_expanded(_SPACE.sub(" ", "".join(said)).strip()))
        if not address and "@" in name and (bare := _ADDRESS.search(name)):
            address, name = bare[0], (name[: bare.start()] + name[bare.end() :]).strip()
        if address and not name:
            name = _clean(_expanded(comment))
        name = name.replace("<>", "").strip("\"'@<> ")
        if (name or address) and len(found) < _MAX_PEOPLE:
            found.append(("" if name.lower() == address.lower() else name, _clean(address).replace(" ", "")))
        said.clear()
        comment, address = "", ""

    for token in _PERSON.finditer(line):
        quoted, remark, angled, divider, colon, other = token.groups()
        while comments and comments[0][0] <= token.start():
            comment = comments.pop(0)[1]
        if divider:
            finish()
        elif colon:  # the name of a group; its members follow
            said.clear()
            comment = ""
        elif angled is not None:
            address = angled.rpartition(":")[2].strip() or address
        elif remark is not None:
            comment = remark
        else:
            said.append(_ESCAPED.sub(r"\1", quoted) if quoted is not None else other or "")
    comment = comments[-1][1] if comments else comment
    finish()
    return found


def identifiers(value: bytes) -> list[str]:
    """The message identifiers in a field, without their angle brackets, each once."""
    said = _line(value)
    found = [_SPACE.sub("", match) for match in _IDENTIFIER.findall(said)]
    if not found:
        found = _BARE_IDENTIFIER.findall(said)
    return list(dict.fromkeys(_UNSEEN.sub("", name) for name in found if name))


def moment(value: str) -> datetime | None:
    """A date of RFC 5322, or of ISO 8601, as an aware time in UTC; None for what is no date, or none that mail can have."""
    value = _LEAP_SECOND.sub(r"\1:59", _uncommented(value[:200])[0].strip())
    try:
        if _ISO.match(value):
            said = datetime.fromisoformat(_ISO_SPACE.sub("", value))
        else:
            said = parsedate_to_datetime(_ZONE.sub(r"\1 \2\3", value))
        said = said.replace(tzinfo=UTC) if said.tzinfo is None else said.astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    is_zero = any(first <= said < last for first, last in _NO_TIME)
    return said if _EARLIEST <= said < _LATEST and not is_zero else None


def _uncommented(said: str) -> tuple[str, list[tuple[int, str]]]:
    """The text without its comments (RFC 5322, 3.2.2), which may nest, and each with its place in that text.

    A parenthesis that has no partner stays.
    """
    if "(" not in said:
        return said, []
    spans: list[tuple[int, int]] = []
    opened: list[int] = []
    is_quoted = False
    for mark in _COMMENT_MARK.finditer(said):
        match mark[0]:
            case '"' if not opened:
                is_quoted = not is_quoted
            case "(" if not is_quoted:
                opened.append(mark.start())
            case ")" if opened:
                start = opened.pop()
                while spans and spans[-1][0] > start:
                    spans.pop()
                spans.append((start, mark.end()))
    out: list[str] = []
    comments: list[tuple[int, str]] = []
    place, length = 0, 0
    for start, stop in spans:
        out.append(said[place:start])
        length += start - place
        comments.append((length, _ESCAPED.sub(r"\1", said[start + 1 : stop - 1])))
        place = stop
    return "".join((*out, said[place:])), comments


def _expanded(said: str) -> str:
    """The text with its encoded words read; words next to each other may share a letter between them."""
    if "=?" not in said:
        return said
    out: list[str] = []
    charset, pending, place = "", b"", 0
    for word in _WORD.finditer(said):
        between = said[place : word.start()]
        is_next = bool(pending) and (not between or between.isspace())
        if not is_next or word[1].lower() != charset:
            out.append(decoded(pending, charset))
            pending = b""
        if not is_next:
            out.append(between)
        charset, place = word[1].lower(), word.end()
        pending += _unencoded(word[2], word[3])
    return "".join((*out, decoded(pending, charset), said[place:]))


def _unencoded(encoding: str, said: str) -> bytes:
    data = said.encode("utf-8", "replace")
    if encoding in "qQ":
        return _HEX.sub(lambda digits: bytes([int(digits[1], 16)]), data.replace(b"_", b" "))
    data = data.rstrip(b"= ")
    try:
        return binascii.a2b_base64(data[: len(data) - (len(data) % 4 == 1)] + b"==")
    except binascii.Error:
        return data


def _clean(said: str) -> str:
    return _SPACE.sub(" ", _UNSEEN.sub("", said)).strip()


def _without_carriage_returns(said: str) -> str:
    return said.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "\ufffd")
