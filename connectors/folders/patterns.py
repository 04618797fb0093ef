"""Patterns as in a `.gitignore`, of the settings and of files that anybody may have written.

Matched in time that does not run away: as a regular expression, every `*` would be tried against every other, and a line of
ten of them would hold a listing up for years.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

_STAR, _ANY, _DEEP = "\x00s", "\x00a", "\x00d"
_SPELLED = {_DEEP: "(?:/.+)?/", _STAR: "[^/]*", _ANY: "[^/]"}
_TOP = "^(?:.+/)?"
_BETWEEN_STARS = re.compile(rf"{_STAR}((?:{_ANY}|[^/\x00])*)(?={_STAR})")
_CLASS = re.compile(r"\[:([a-z]{1,8}):\]")
_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "digit": "0-9",
    "lower": "a-z",
    "space": " \t",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


def lines_of(text: str) -> list[str]:
    """The lines of a file as git takes them: a name may have in it whatever else ends a line elsewhere."""
    return [line.removesuffix("\r") for line in text.split("\n")]


def compiled(lines: Iterable[str]) -> GitIgnoreSpec:
    """The patterns. Raises ValueError for one that is none."""
    return GitIgnoreSpec([pattern for line in lines if (pattern := _pattern(line))])


def those_in(lines: Iterable[str]) -> GitIgnoreSpec:
    """The patterns among these lines; one that is none is left out, as git does."""
    kept = []
    for line in lines:
        try:
            pattern = _pattern(line)
        except ValueError:
            continue
        kept += [pattern] if pattern else []
    return GitIgnoreSpec(kept)


def _pattern(line: str) -> _Pattern | None:
    """Return the pattern of a line; None for a comment or an empty line. Raises ValueError for any other line."""
    if "\x00" in line:
        raise ValueError("no name has a NUL in it")
    try:
        pattern = _Pattern(line)
        return None if pattern.include is None else pattern
    except re.error as error:
        raise ValueError("its brackets are not in order") from error


class _Pattern(GitIgnoreSpecPattern):
    """A pattern whose expression never goes back over what one of its stars has matched."""

    @classmethod
    def pattern_to_regex(cls, pattern: Any) -> tuple[Any, bool | None]:
        """As the library's, with the classes of letters that it lacks."""
        known = _CLASS.sub(lambda found: _CLASSES.get(found[1], found[0]), pattern)
        regex, include = super().pattern_to_regex(known)
        return (None if regex is None else _straight(regex)), include


def _straight(regex: str) -> str:
    """The expression with each star but the last of its name, and each `**` but the last, bound to its first match.

    The first is as good as any later one: it leaves the most for what comes after.
    """
    if regex.count(_SPELLED[_STAR]) < 2 and regex.count(_SPELLED[_DEEP]) + regex.startswith(_TOP) < 2:
        return regex
    top = _TOP if regex.startswith(_TOP) else "^"
    rest = regex.removeprefix(top)
    for sign, spelled in _SPELLED.items():
        rest = rest.replace(spelled, sign)
    rest = _BETWEEN_STARS.sub(rf"(?>{_STAR}?\1)", rest)
    first, *others = rest.split(_DEEP)
    if others:
        between = "".join(f"(?>(?:/.+?)??/{unit}(?=/))" for unit in others[:-1])
        begin = f"^(?>(?:.+?/)??{first}(?=/))" if top == _TOP else f"^{first}"
        straight = f"{begin}{between}{_SPELLED[_DEEP]}{others[-1]}"
    else:
        straight = top + rest
    for sign, spelled in _SPELLED.items():
        straight = straight.replace(sign, spelled)
    return straight
