r"""The letters that TeX writes as commands: `\"u`, `{\'e}`, `\v{s}`, `\ss`."""

from __future__ import annotations

import re
from unicodedata import normalize

_MARKS = dict(
    zip(
        "`'^~\"=.uvHckrdb",
        "\u0300\u0301\u0302\u0303\u0308\u0304\u0307\u0306\u030c\u030b\u0327\u0328\u030a\u0323\u0331",
        strict=True,
    )
)
_NAMES = "ss ae AE oe OE o O aa AA l L i j dh DH th TH dj DJ ng NG"
_LETTERS = dict(zip(_NAMES.split(), "ßæÆœŒøØåÅłŁıȷðÐþÞđĐŋŊ", strict=True))
_ACCENT = re.compile(
    r"(?<!\\)\\(?:([`'^~\"=.])\s*(?:\{\s*\\?([A-Za-z])\s*\}|\\([ij])(?![A-Za-z])(?:\{\}| )?|([A-Za-z]))"
    r"|([uvHckrdb])(?:\s*\{\s*\\?([A-Za-z])\s*\}| +([A-Za-z])(?![A-Za-z]))"
    rf"|({'|'.join(_LETTERS)})(?:\{{\}}|(?![A-Za-z]) ?))"
)
_IN_BRACES = re.compile(rf"(\\(?:[A-Za-z]+\*?|[`'^~\"=.])|\])?\{{({_ACCENT.pattern})\}}")
"""A group, or an argument, of one letter."""


def with_letters(text: str) -> str:
    """Return text with these commands as letters. Others, also accents that no letter has, stay."""
    return _ACCENT.sub(_letter, _IN_BRACES.sub(_group, text)) if "\\" in text else text


def _group(group: re.Match[str]) -> str:
    return group[0] if group[1] else _ACCENT.sub(_letter, group[2])


def _letter(command: re.Match[str]) -> str:
    if command[8]:
        return _LETTERS[command[8]]
    mark, letter = command[1] or command[5], next(filter(None, command.group(2, 3, 4, 6, 7)))
    whole = normalize("NFC", letter + _MARKS[mark])
    return whole if len(whole) == 1 else command[0]
