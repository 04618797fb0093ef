"""Find the attachments of a message in its BODYSTRUCTURE (RFC 3501, section 7.4.2), before anything is downloaded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, NamedTuple

from catchment.content.normalize.mail.attachments import is_file, is_message_file

_DEEPEST = 100
_MOST = 1_000
_TYPE = re.compile(r"[!-~]+/[!-~]+")
_FIELDS = 7
"""Fields of a single part: type, subtype, parameters, id, description, encoding, size."""
_BYTES, _LETTERS = 57, 78
"""Decoded bytes and encoded characters of a base64 line, with its line end (RFC 2045, section 6.8)."""


class File(NamedTuple):
    """An attached file. `size` is the approximate decoded size in bytes."""

    part: str
    media_type: str
    size: int
    is_message: bool = False
    """Whether the file is a message that is not declared as one, so that the server does not list the files in it."""


def files(structure: Any) -> Iterator[File]:
    """Yield the files of a message, with the part numbers used in `BODY[…]`.

    Only the first 1,000 parts are examined.
    """
    for count, file in enumerate(_walk(structure, "", 0)):
        if count >= _MOST:
            return
        if file is not None:
            yield file


def _walk(node: Any, number: str, depth: int) -> Iterator[File | None]:
    """Yield this part and all parts below it: a File for files, None for others.

    `number` is "" for the whole message.
    """
    if depth > _DEEPEST or not isinstance(node, tuple) or not node:
        return
    if isinstance(node[0], (list, tuple)):
        children = (
            node[0] if isinstance(node[0], list) else list(takewhile(lambda child: isinstance(child, tuple), node))
        )
        subtype = next((field for field in node if isinstance(field, bytes)), b"")
        yield None
        # Encrypted parts cannot be read.
        if _text(subtype) != "encrypted":
            for index, child in enumerate(children, 1):
                yield from _walk(child, f"{number}.{index}" if number else str(index), depth + 1)
        return
    if len(node) < _FIELDS:  # truncated
        yield None
        return
    own = number or "1"
    is_message = _is_message(node)
    yield _file(node, own, is_message=is_message, is_root=not number)
    if is_message:
        inner = node[8]
        multipart = isinstance(inner, tuple) and bool(inner) and isinstance(inner[0], (list, tuple))
        yield from _walk(inner, own if multipart else f"{own}.1", depth + 1)


def _is_message(node: Any) -> bool:
    """Return whether a part is an attached message, with its structure."""
    return f"{_text(node[0])}/{_text(node[1])}" in ("message/rfc822", "message/global") and len(node) > 9


def _file(node: Any, number: str, *, is_message: bool, is_root: bool) -> File | None:
    """Return the file in a single part, or in an attached message; None if the part is none."""
    declared = f"{_text(node[0])}/{_text(node[1])}"
    media_type = declared if _TYPE.fullmatch(declared) else "application/octet-stream"
    size = node[6] if isinstance(node[6], int) else 0
    if _text(node[5]) == "base64":
        size = size * _BYTES // _LETTERS
    index = 11 if is_message else 9 if media_type.startswith("text/") else 8
    disposition: tuple[Any, ...] = node[index] if len(node) > index and isinstance(node[index], tuple) else ()
    kind, parameters, *_ = (*disposition, None, None)
    names = [*_values(parameters, "filename"), *_values(node[2], "name")]
    if not is_file(media_type, disposition=_text(kind), named=bool(names), empty=size == 0, is_root=is_root):
        return None
    return File(number, media_type, size, any(is_message_file(media_type, _text(name)) for name in names))


def _text(value: Any) -> str:
    return value.decode("latin-1").lower() if isinstance(value, bytes) else ""


def _values(parameters: Any, name: str) -> list[Any]:
    """Return the values of a parameter that are not empty. RFC 2231 spells it `name*` or `name*0`."""
    if not isinstance(parameters, tuple):
        return []
    pairs = zip(parameters[::2], parameters[1::2], strict=False)
    return [value for key, value in pairs if _text(key).partition("*")[0] == name and value not in (b"", None)]
