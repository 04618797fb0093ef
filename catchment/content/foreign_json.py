"""Decode JSON that other programs wrote: valid or as they write it, with whole characters and bounded depth and numbers.

JavaScript and Python write half of a surrogate pair for half an emoji, and `NaN` and `Infinity`; others write surrogates as
bytes (CESU-8), a byte order mark, control characters, or numbers of any length. Only such texts take the slow way.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import orjson

MAX_DEPTH = 200
"""Python's own functions recurse, such as `str` of a list: 1,000 deep they fail."""
_MOST_DIGITS = 20
_ESCAPE = re.compile(
    r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|u[dD][89a-fA-F][0-9a-fA-F]{2}|.)", re.DOTALL
)
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATES = re.compile(rb"(?:\xed[\xa0-\xbf][\x80-\xbf])+")


def read_json(data: bytes | bytearray | str) -> Any:
    """Return the value of a JSON text. The last of equal keys applies.

    Halves of surrogate pairs become U+FFFD. Numbers beyond 64 bits become floats, and numbers beyond all floats None. Raises
    ValueError.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        value = _as_written(with_whole_characters(data) if isinstance(data, str) else _text(data))
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for each in level
            if isinstance(each, list | dict)
            for inner in (each if isinstance(each, list) else each.values())
        ]
        if not level:
            return value
    raise ValueError(f"JSON nested more than {MAX_DEPTH} deep")


def with_whole_escapes(text: str) -> str:
    """Join the escaped surrogates of a text: `\\ud83c\\udf3e` becomes `🌾`, and a half `\\ufffd`."""
    return _ESCAPE.sub(_whole_escape, text) if _HALF.search(text) else text


def with_whole_characters(text: str) -> str:
    """Join the surrogates of a text in pairs; others become U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def with_utf8_surrogates(data: bytes | bytearray) -> bytes | bytearray:
    """Return UTF-8 in which surrogates that were encoded as characters (CESU-8) are joined; others become U+FFFD."""
    return _SURROGATES.sub(
        lambda match: with_whole_characters(match[0].decode("utf-8", "surrogatepass")).encode(), data
    )


def _text(data: bytes | bytearray) -> str:
    encoding = json.detect_encoding(data)
    return (with_utf8_surrogates(data) if encoding.startswith("utf-8") else data).decode(encoding, "replace")


def _as_written(text: str) -> Any:
    try:
        return json.loads(
            with_whole_escapes(text.removeprefix("\ufeff")),
            parse_int=_whole_number,
            parse_float=_real_number,
            parse_constant=lambda _: None,
            strict=False,
        )
    except RecursionError:
        raise ValueError(f"JSON nested more than {MAX_DEPTH} deep") from None


def _whole_escape(match: re.Match[str]) -> str:
    if match[1]:
        return bytes.fromhex(match[1] + match[2]).decode("utf-16-be")
    return "\\ufffd" if _HALF.match(match[0]) else match[0]


def _whole_number(digits: str) -> int | float | None:
    number = int(digits) if len(digits) <= _MOST_DIGITS else 2**64
    return number if -(2**63) <= number < 2**64 else _real_number(digits)


def _real_number(digits: str) -> float | None:
    return number if math.isfinite(number := float(digits)) else None
