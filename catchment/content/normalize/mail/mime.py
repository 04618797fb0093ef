"""Parse the MIME structure of a message (RFC 2045, 2046) into a tree of parts that refer to the original bytes.

Replaces the `email` package of the standard library, which copies every line and decodes every part. Common defects of real
mail are repaired and reported in `MimeTree.warnings`. Linear in the size of the message. Fails only on excessive nesting.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from catchment.content.normalize.decode import decode, encoding_by_mark
from catchment.content.normalize.mail import transport, words
from catchment.errors import ParseError

MAX_DEPTH = 100
MAX_PARTS = 1_000
_MAX_HEADERS = 10_000
_MAX_HEADER = 65_536
_MAX_JUNK = 2_048

_NAME = re.compile(rb"([!-9;-~]{1,200})[ \t]*:")
_FIRST_HEADER = re.compile(
    rb"^(?:from|to|subject|date|received|return-path|delivered-to|message-id|mime-version)[ \t]*:",
    re.IGNORECASE | re.MULTILINE,
)
_TYPE = re.compile(r"\s*([\w!#$&^.+*-]+)\s*/\s*([\w!#$&^.+*-]+)")
_PARAMETER = re.compile(r";\s*([^\s=;\"]{1,100})\s*=\s*(\"(?>(?:[^\"\\]++|\\.)*)(?:\"|$)|[^;]*+)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SECTION = re.compile(r"(.+?)(?:\*(\d{1,3}))?(\*)?$", re.DOTALL)
_PERCENT = re.compile(rb"%([0-9A-Fa-f]{2})")
_GUESS = re.compile(rb"^--(-{0,60}[^\s-][^\s]{0,199})[ \t]{0,20}\r?$", re.MULTILINE)


@dataclass(eq=False)
class Part:
    """A MIME entity: header fields, and either a body or parts. `number` is its IMAP section (RFC 3501, 6.4.5)."""

    data: bytes = field(repr=False)
    start: int
    stop: int
    default_type: str
    number: str = ""
    headers: dict[str, list[bytes]] = field(default_factory=dict, repr=False)
    parts: list[Part] = field(default_factory=list)
    is_rewritten: bool = False

    def header(self, name: str) -> str:
        """Return the first field of this name decoded, or "". At most 64 KiB."""
        values = self.headers.get(name)
        return words.text(values[0]) if values else ""

    @cached_property
    def _content_type(self) -> tuple[str, dict[str, str]]:
        value = words.raw((self.headers.get("content-type") or [b""])[0])
        match = _TYPE.match(value)
        if match is None:
            return ("text/plain" if value.strip() else self.default_type), _parameters(value)
        return f"{match[1]}/{match[2]}".lower(), _parameters(value[match.end() :])

    @property
    def media_type(self) -> str:
        """The declared media type in lower case."""
        return self._content_type[0]

    def declare(self, media_type: bytes) -> None:
        """Replace a wrong media type."""
        self.headers["content-type"] = [media_type]
        self.__dict__.pop("_content_type", None)

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of the media type, with names in lower case."""
        return self._content_type[1]

    @cached_property
    def _disposition(self) -> tuple[str, dict[str, str]]:
        value = words.raw((self.headers.get("content-disposition") or [b""])[0])
        return value.partition(";")[0].partition("(")[0].strip().lower(), _parameters(value)

    @property
    def disposition(self) -> str:
        """The disposition (RFC 2183): `inline`, `attachment`, or "" if it is not declared."""
        return self._disposition[0]

    @property
    def charset(self) -> str | None:
        """The declared charset of the text, or UTF-8 if `parse` converted the message."""
        is_rewritten = self.is_rewritten and transport.is_plain(self.encoding)
        return "utf-8" if is_rewritten else self.parameters.get("charset")

    @cached_property
    def file_name(self) -> str:
        """The declared file name without folders, or ""."""
        name = self._disposition[1].get("filename") or self.parameters.get("name") or ""
        return words.file_name(name)

    @cached_property
    def encoding(self) -> str:
        """The transport encoding of the body in lower case."""
        value = words.raw((self.headers.get("content-transfer-encoding") or [b""])[0])
        return value.partition(";")[0].partition("(")[0].strip().strip("\"'").lower()

    @property
    def largest_size(self) -> int:
        """An upper bound of the size of the content in bytes."""
        size = self.stop - self.start
        if self.encoding != "base64":
            return size
        ends = sum(self.data.count(end, self.start, self.stop) for end in (b"\r", b"\n"))
        padding = self.data.count(b"=", max(self.start, self.stop - 4), self.stop)
        return (size - ends - padding) * 3 // 4

    def content(self) -> bytes:
        """Return the body decoded from its transport encoding, or unchanged if the encoding is unknown."""
        return transport.decode(self.data[self.start : self.stop], self.encoding)

    def walk(self) -> Iterator[Part]:
        """Yield this part and all parts below it in order."""
        yield self
        for part in self.parts:
            yield from part.walk()


@dataclass
class MimeTree:
    """A parsed message with warnings about its defects."""

    root: Part
    warnings: list[str]


def parse(data: bytes) -> MimeTree:
    """Parse a message. Lines before the first header field are skipped, and UTF-16 is converted to UTF-8.

    Raises ParseError if parts nest more than 100 deep.
    """
    encoding = encoding_by_mark(data)
    if encoding:
        data = data.decode(encoding, "replace").removeprefix("\ufeff").encode("utf-8", "replace")
    first = None if _NAME.match(data) else _FIRST_HEADER.search(data, 0, _MAX_JUNK)
    return _tree(data, first.start() if first else 0, is_rewritten=encoding not in ("", "utf-8"))


def parse_entity(data: bytes, number: str = "") -> MimeTree:
    """Parse a MIME entity: a header, which may be empty, and a body. Raises ParseError like `parse`."""
    return _tree(data, 0, number)


def is_message_file(media_type: str, name: str) -> bool:
    """Return whether a part is declared as a file but named as a message (`.eml`)."""
    return media_type.startswith("application/") and name.lower().endswith(".eml")


def _tree(data: bytes, start: int, number: str = "", *, is_rewritten: bool = False) -> MimeTree:
    if b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    builder = _Builder(data if is_rewritten else b"")
    root = builder.entity(data, start, len(data), "text/plain", number, 0)
    if not root.number:
        root.number = "" if root.media_type.startswith("multipart/") else "1"
    return MimeTree(root, list(dict.fromkeys(builder.warnings)))


class _Builder:
    """Builds the tree from the outside in, so that a part without an end stops at the end of its parent."""

    def __init__(self, rewritten: bytes) -> None:
        self.warnings: list[str] = []
        self._rewritten = rewritten
        self._count = 0

    def entity(self, data: bytes, start: int, stop: int, default_type: str, number: str, depth: int) -> Part:
        if depth > MAX_DEPTH:
            raise ParseError(f"parts nest more than {MAX_DEPTH} deep; exclude the message")
        self._count += 1
        headers, body = _headers(data, start, stop)
        part = Part(data, body, stop, default_type, number, headers, is_rewritten=data is self._rewritten)
        if is_message_file(part.media_type, part.file_name) and _FIRST_HEADER.search(part.content()[:_MAX_JUNK]):
            part.declare(b"message/rfc822")
        if part.media_type.startswith("multipart/"):
            self._divide(part, depth)
        elif part.media_type in ("message/rfc822", "message/global"):
            self._open(part, depth)
        return part

    def _divide(self, part: Part, depth: int) -> None:
        boundary = words.as_bytes(part.parameters.get("boundary", "")).rstrip()
        spans = _spans(part, boundary) if boundary else None
        if spans is None and (guess := _GUESS.search(part.data, part.start, part.stop)):
            spans = _spans(part, guess[1].removesuffix(b"--") or guess[1])
            self.warnings.append("the MIME boundary is missing or wrong; a likely one was used")
        if spans is None:
            self.warnings.append("a multipart entity has no parts; it was read as text")
            part.declare(b"text/plain")
            return
        inner = "message/rfc822" if part.media_type == "multipart/digest" else "text/plain"
        prefix = f"{part.number}." if part.number else ""
        for place, (start, stop) in enumerate(spans, 1):
            if self._count >= MAX_PARTS:
                self.warnings.append(f"more than {MAX_PARTS:,} parts; the rest was omitted")
                return
            part.parts.append(self.entity(part.data, start, stop, inner, f"{prefix}{place}", depth + 1))

    def _open(self, part: Part, depth: int) -> None:
        """Parse the message inside a part. Its parts are numbered below the part; a single body is `.1` (RFC 3501)."""
        number = part.number or "1"
        data, start, stop = part.data, part.start, part.stop
        if not transport.is_plain(part.encoding):
            data = part.content()
            start, stop = 0, len(data)
        inner = self.entity(data, start, stop, "text/plain", number, depth + 1)
        if not inner.media_type.startswith("multipart/"):
            _renumber(inner, number)
        part.parts.append(inner)


def _renumber(part: Part, prefix: str) -> None:
    """Insert `.1` after the prefix in the numbers of a part and of all parts below it."""
    for inner in part.walk():
        inner.number = f"{prefix}.1{inner.number[len(prefix) :]}"


def _headers(data: bytes, start: int, stop: int) -> tuple[dict[str, list[bytes]], int]:
    """Return the unfolded header fields by lower-case name, and the start of the body."""
    headers: dict[str, list[bytes]] = {}
    values: list[bytes] | None = None
    place, count = start, 0
    while place < stop:
        end = data.find(b"\n", place, stop)
        after = stop if end < 0 else end + 1
        line = data[place : min(after, place + _MAX_HEADER)].rstrip(b"\r\n")
        if not line:
            return headers, after
        if line[:1] in b" \t":
            if values is not None and len(values[-1]) < _MAX_HEADER:
                values[-1] += b" " + line.lstrip()
        elif match := _NAME.match(line):
            count += 1
            values = headers.setdefault(match[1].decode("ascii").lower(), []) if count <= _MAX_HEADERS else [b""]
            values.append(line[match.end() :])
        else:
            return headers, place
        place = after
    return headers, stop


def _spans(part: Part, boundary: bytes) -> list[tuple[int, int]] | None:
    """Return start and end of the parts between `--boundary` lines; None without such a line. The last may lack its end."""
    data, mark = part.data, b"--" + boundary
    spans: list[tuple[int, int]] = []
    began, is_found = -1, False
    place = data.find(mark, part.start, part.stop)
    while place >= 0:
        end = data.find(b"\n", place, part.stop)
        end = part.stop if end < 0 else end
        rest = data[place + len(mark) : min(end, place + len(mark) + 1_000)].rstrip()
        if (place == part.start or data[place - 1] == 0x0A) and rest in (b"", b"--"):
            if began >= 0:
                spans.append((began, _without_line_end(data, began, place)))
            began, is_found = min(end + 1, part.stop), True
            if rest:
                return spans
        place = data.find(mark, end, part.stop)
    if 0 <= began < part.stop:
        spans.append((began, part.stop))
    return spans if is_found else None


def _without_line_end(data: bytes, start: int, stop: int) -> int:
    """Return `stop` without the line end before a boundary, which belongs to the boundary."""
    if stop > start and data[stop - 1] == 0x0A:
        stop -= 1
        if stop > start and data[stop - 1] == 0x0D:
            stop -= 1
    return stop


def _parameters(value: str) -> dict[str, str]:
    """Return the parameters of a field; those split into sections are joined (RFC 2231)."""
    parameters: dict[str, str] = {}
    sections: dict[str, dict[int, tuple[str, bool]]] = {}
    for match in _PARAMETER.finditer(value):
        name, raw = match[1].lower(), match[2].strip()
        content = _ESCAPED.sub(r"\1", raw[1:].removesuffix('"')) if raw.startswith('"') else raw
        split = _SECTION.match(name)
        if split and (split[2] or split[3]):
            sections.setdefault(split[1], {}).setdefault(int(split[2] or 0), (content, bool(split[3])))
        else:
            parameters.setdefault(name, content)
    for name, pieces in sections.items():
        parameters[name] = _joined(pieces)
    return parameters


def _joined(pieces: dict[int, tuple[str, bool]]) -> str:
    charset, data = "", b""
    for number, (piece, is_encoded) in sorted(pieces.items()):
        value = piece
        if is_encoded and number == 0 and piece.count("'") >= 2:
            charset, _, value = piece.split("'", 2)
        raw = words.as_bytes(value)
        data += _PERCENT.sub(lambda digits: bytes([int(digits[1], 16)]), raw) if is_encoded else raw
    return decode(data, charset).text
