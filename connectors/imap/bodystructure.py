"""Which parts of a message are files, told by its BODYSTRUCTURE (RFC 3501, 7.4.2) before anything of them is fetched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, NamedTuple

from catchment.content.normalize.mail.attachments import is_file

_DEEPEST = 100
_MOST = 1_000
_TYPE = re.compile(r"[!-~]+/[!-~]+")
_FIELDS = 7
"""Of a part that has no parts: type, subtype, parameters, id, description, encoding, size."""
_BYTES, _LETTERS = 57, 78
"""Of a line of base64, with its end (RFC 2045, 6.8)."""


class File(NamedTuple):
    """A part that is a file. `size` is about that of its bytes once they are decoded."""

    part: str
    media_type: str
    size: int


def files(structure: Any) -> Iterator[File]:
    """The files in a message, with the numbers that `BODY[…]` takes; the first thousand parts are looked at."""
    for count, file in enumerate(_walk(structure, "", 0)):
        if count >= _MOST:
            return
        if file is not None:
            yield file


def _walk(node: Any, number: str, depth: int) -> Iterator[File | None]:
    """Every part below this one and itself, files as such and others as None. `number` is "" for the whole message."""
    if depth > _DEEPEST or not isinstance(node, tuple) or not node:
        return
    if isinstance(node[0], (list, tuple)):
        children = (
            node[0] if isinstance(node[0], list) else list(takewhile(lambda child: isinstance(child, tuple), node))
        )
        subtype = next((said for said in node if isinstance(said, bytes)), b"")
        yield None
        # The parts of what is encrypted are no files that anybody could read.
        if _text(subtype) != "encrypted":
            for index, child in enumerate(children, 1):
                yield from _walk(child, f"{number}.{index}" if number else str(index), depth + 1)
        return
    if len(node) < _FIELDS:  # cut off
        yield None
        return
    own = number or "1"
    leaf = _Leaf(node)
    yield leaf.file(own, is_root=not number)
    if leaf.is_message and len(node) > 8:
        inner = node[8]
        multipart = isinstance(inner, tuple) and bool(inner) and isinstance(inner[0], (list, tuple))
        yield from _walk(inner, own if multipart else f"{own}.1", depth + 1)


class _Leaf:
    """A part that has no parts, or is a message."""

    def __init__(self, node: Any) -> None:
        said_type = f"{_text(node[0])}/{_text(node[1])}"
        self.media_type = said_type if _TYPE.fullmatch(said_type) else "application/octet-stream"
        self.is_message = self.media_type in ("message/rfc822", "message/global") and len(node) > 9
        encoding, self._size = _text(node[5]), node[6] if isinstance(node[6], int) else 0
        if encoding == "base64":
            self._size = self._size * _BYTES // _LETTERS
        behind = 11 if self.is_message else 9 if self.media_type.startswith("text/") else 8
        said: tuple[Any, ...] = node[behind] if len(node) > behind and isinstance(node[behind], tuple) else ()
        kind, parameters, *_ = (*said, None, None)
        self._disposition = _text(kind)
        self._named = _has(parameters, "filename") or _has(node[2], "name")

    def file(self, number: str, *, is_root: bool) -> File | None:
        wanted = is_file(
            self.media_type, disposition=self._disposition, named=self._named, empty=self._size == 0, is_root=is_root
        )
        return File(number, self.media_type, self._size) if wanted else None


def _text(value: Any) -> str:
    return value.decode("latin-1").lower() if isinstance(value, bytes) else ""


def _has(parameters: Any, name: str) -> bool:
    """Whether a parameter is there and not empty; RFC 2231 writes it `name*` or `name*0`."""
    if not isinstance(parameters, tuple):
        return False
    pairs = zip(parameters[::2], parameters[1::2], strict=False)
    return any(_text(key).partition("*")[0] == name and value not in (b"", None) for key, value in pairs)
