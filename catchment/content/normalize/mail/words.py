"""Parse header fields: encoded words (RFC 2047), raw 8-bit text, mailboxes and identifiers. Never fails."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterable

from catchment.content.normalize.decode import decode

_MAX_PEOPLE = 500
_MAX_NAME = 200
_WORD = re.compile(r"=\?([^\s?*]{1,60})(?:\*[\w-]{0,20})?\?([bBqQ])\?([^?\n]{0,5000})\?=")
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


def as_bytes(text: str) -> bytes:
    """Return the bytes from which `raw` made this text."""
    return text.encode("utf-8", "surrogateescape")


def _line(value: bytes) -> str:
    """Decode the bytes of a field, leaving encoded words as they are."""
    return value.decode("ascii") if value.isascii() and b"\x1b" not in value else decode(value).text


def raw(value: bytes) -> str:
    """Decode a field for structural parsing. `as_bytes` restores bytes that are not UTF-8."""
    return value.decode("utf-8", "surrogateescape")


def text(value: bytes) -> str:
    """Decode a field of free text to one line, including encoded words and raw 8-bit text."""
    return _clean(_expanded(_line(value)))


def file_name(value: str) -> str:
    """Return the last component of a file name without control characters, at most 200 characters."""
    name = _clean(_expanded(decode(as_bytes(value)).text))
    name = re.split(r"[/\\]", name)[-1].strip(". ") if name.strip("./\\ ") else ""
    stem, dot, ending = name.rpartition(".")
    if len(name) > _MAX_NAME:
        name = f"{stem[: _MAX_NAME - 20]}.{ending[:19]}" if dot and len(ending) < 20 else name[:_MAX_NAME]
    return name


def people(value: bytes) -> list[tuple[str, str]]:
    """Return name and address of at most 500 mailboxes in a list; a missing name or address is ""."""
    line, comments = uncommented(_line(value))
    mailboxes: list[tuple[str, str]] = []
    parts: list[str] = []
    comment, address = "", ""

    def finish() -> None:
        nonlocal comment, address
        name = _clean(_expanded(_SPACE.sub(" ", "".join(parts)).strip()))
        if not address and "@" in name and (bare := _ADDRESS.search(name)):
            address, name = bare[0], (name[: bare.start()] + name[bare.end() :]).strip()
        if address and not name:
            name = _clean(_expanded(comment))
        name = name.replace("<>", "").strip("\"'@<> ")
        if (name or address) and len(mailboxes) < _MAX_PEOPLE:
            mailboxes.append(("" if name.lower() == address.lower() else name, _clean(address).replace(" ", "")))
        parts.clear()
        comment, address = "", ""

    for token in _PERSON.finditer(line):
        quoted, remark, angled, divider, colon, other = token.groups()
        while comments and comments[0][0] <= token.start():
            comment = comments.pop(0)[1]
        if divider:
            finish()
        elif colon:  # the name of a group precedes its members
            parts.clear()
            comment = ""
        elif angled is not None:
            address = angled.rpartition(":")[2].strip() or address
        elif remark is not None:
            comment = remark
        else:
            parts.append(_ESCAPED.sub(r"\1", quoted) if quoted is not None else other or "")
    comment = comments[-1][1] if comments else comment
    finish()
    return mailboxes


def mailboxes(values: Iterable[bytes]) -> list[str]:
    """Return the people in fields as `Name <address>`, or as the one that is known."""
    members = (person for value in values for person in people(value))
    return [f"{name} <{address}>" if name and address else name or address for name, address in members]


def identifiers(value: bytes) -> list[str]:
    """Return the distinct message identifiers in a field, without angle brackets."""
    line = _line(value)
    names = [_SPACE.sub("", match) for match in _IDENTIFIER.findall(line)]
    if not names:
        names = _BARE_IDENTIFIER.findall(line)
    return list(dict.fromkeys(_UNSEEN.sub("", name) for name in names if name))


def uncommented(value: str) -> tuple[str, list[tuple[int, str]]]:
    """Return the text without its comments (RFC 5322, 3.2.2), and the comments with their offsets in that text.

    Comments may nest. Unbalanced parentheses stay.
    """
    if "(" not in value:
        return value, []
    spans: list[tuple[int, int]] = []
    opened: list[int] = []
    is_quoted = False
    for mark in _COMMENT_MARK.finditer(value):
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
        out.append(value[place:start])
        length += start - place
        comments.append((length, _ESCAPED.sub(r"\1", value[start + 1 : stop - 1])))
        place = stop
    return "".join((*out, value[place:])), comments


def _expanded(value: str) -> str:
    """Decode the encoded words in a text. A character may be split between adjacent encoded words."""
    if "=?" not in value:
        return value
    out: list[str] = []
    charset, pending, place = "", b"", 0
    for word in _WORD.finditer(value):
        between = value[place : word.start()]
        is_next = bool(pending) and (not between or between.isspace())
        if not is_next or word[1].lower() != charset:
            out.append(decode(pending, charset).text)
            pending = b""
        if not is_next:
            out.append(between)
        charset, place = word[1].lower(), word.end()
        pending += _unencoded(word[2], word[3])
    return "".join((*out, decode(pending, charset).text, value[place:]))


def _unencoded(encoding: str, value: str) -> bytes:
    data = value.encode("utf-8", "replace")
    if encoding in "qQ":
        return _HEX.sub(lambda digits: bytes([int(digits[1], 16)]), data.replace(b"_", b" "))
    data = data.rstrip(b"= ")
    try:
        return binascii.a2b_base64(data[: len(data) - (len(data) % 4 == 1)] + b"==")
    except binascii.Error:
        return data


def _clean(value: str) -> str:
    return _SPACE.sub(" ", _UNSEEN.sub("", value)).strip()
