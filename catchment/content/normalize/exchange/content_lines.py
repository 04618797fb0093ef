"""Parse content lines, the syntax of calendars (RFC 5545) and contacts (RFC 6350) and of their older versions."""

from __future__ import annotations

import binascii
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import islice

from catchment.content.normalize.decode import decode, encoding_by_mark

_SOFT_BREAKS = re.compile(
    rb"^[^:\r\n]{1,200};(?:ENCODING=)?QUOTED-PRINTABLE[^:\r\n]{0,200}:(?:[^\r\n]*+(?<==)\r?\n)+",
    re.IGNORECASE | re.MULTILINE,
)
_SOFT_BREAK = re.compile(rb"=\r?\n")
_FOLD = re.compile(rb"(?:\r\n?|\n)[ \t]")
_OLD = re.compile(rb"^VERSION:(?:1\.0|2\.1)\s", re.MULTILINE)
"""vCalendar 1.0 and vCard 2.1, which fold before a space of the text."""
_LINE = re.compile(r"(?:([\w-]{1,40})\.)?([A-Za-z0-9-]{1,60})((?>(?:;(?>(?:[^:;\"]++|\"[^\"]*+\")*))*)):(.*)")
_PARAMETER = re.compile(r";([\w-]{1,60})(?:=((?>(?:[^;\"]++|\"[^\"]*+\")*)))?")
_MAX_PARAMETERS = 100
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_CARET = re.compile(r"\^([n'^])")
_CARETS = {"n": "\n", "'": '"', "^": "^"}
_FIELD_END = re.compile(r"(?<!\\);")


@dataclass(frozen=True, slots=True)
class Line:
    """A property with its parameters. `value` has its escapes; properties of the same `group` belong together."""

    value: str
    parameters: dict[str, str]
    group: str = ""

    @property
    def is_binary(self) -> bool:
        """Whether the value is a file in base64."""
        return self.parameters.get("ENCODING", "").upper() in ("B", "BASE64") or self.value[:5].lower() == "data:"

    @property
    def text(self) -> str:
        return _unescaped(self.value)

    @property
    def fields(self) -> list[str]:
        """The fields of a structured value, such as an address."""
        return [_unescaped(part) for part in _FIELD_END.split(self.value)]


Component = dict[str, list[Line]]
"""The properties of a component by name in upper case."""


@dataclass
class Components:
    """The components of the requested kinds, without the components in them, and the properties outside of them."""

    inner: list[Component] = field(default_factory=list)
    outer: Component = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def components(data: bytes, kinds: Collection[str]) -> Components:
    """Return the components of these kinds, also the last one of a truncated file. Linear; never fails."""
    if encoding_by_mark(data):
        data = decode(data).text.encode("utf-8", "replace")
    data = _SOFT_BREAKS.sub(lambda line: _SOFT_BREAK.sub(b"", line[0]), data)
    data = _FOLD.sub(b" " if _OLD.search(data) else b"", data)  # before decoding: a fold may divide a character
    result, depth = Components(), 0
    for written in decode(data).text.split("\n"):
        if (match := _LINE.match(written.strip())) is None:
            continue
        name, line = match[2].upper(), _line(match[1] or "", match[3], match[4].strip())
        if name == "BEGIN" and (depth or line.value.upper() in kinds):
            depth += 1
            if depth == 1:
                result.inner.append({})
        elif name == "END" and depth:
            depth -= 1
        elif depth <= 1:
            (result.inner[-1] if depth else result.outer).setdefault(name, []).append(line)
    if depth or len(result.outer.get("BEGIN", ())) > len(result.outer.get("END", ())):
        result.warnings.append("the file is truncated; text may be missing")
    return result


def _line(group: str, written: str, value: str) -> Line:
    parameters: dict[str, str] = {}
    for match in islice(_PARAMETER.finditer(written), _MAX_PARAMETERS):
        name, content = match[1], match[2] or ""
        key, text = name.upper(), _CARET.sub(lambda mark: _CARETS[mark[1]], content.replace('"', ""))
        if not content:  # vCard 2.1: `;HOME;QUOTED-PRINTABLE`
            key, text = ("ENCODING" if key in ("QUOTED-PRINTABLE", "BASE64") else "TYPE"), name
        parameters[key] = f"{parameters[key]},{text}" if key in parameters else text
    if parameters.get("ENCODING", "").upper() == "QUOTED-PRINTABLE":
        value = decode(binascii.a2b_qp(value.encode("utf-8", "replace")), parameters.get("CHARSET")).text
    return Line(value, parameters, group)


def _unescaped(value: str) -> str:
    return _ESCAPED.sub(lambda mark: "\n" if mark[1] in "nN" else mark[1], value)
