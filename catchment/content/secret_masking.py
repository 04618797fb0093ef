"""Replace passwords, tokens and keys in documents before anything is stored.

`secret_rules` has the table of rules. Secrets are counted by kind; their values are not kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar, cast

from catchment.content.secret_checks import LEAST_LENGTH, span
from catchment.content.secret_rules import BOUNDARY, RULES, Scope, SecretRule
from catchment.model import Document

_DEEPEST = 100
_MOST_ROUNDS = 5
_WARNING = "masked secrets: "
_Value = TypeVar("_Value")


def masked(document: Document) -> Document:
    """Return the document with its secrets masked and a warning that counts them, or the document itself if it has none."""
    counts: Counter[str] = Counter()
    cleaned = without_secrets(document, counts)
    if not counts:
        return document
    kinds = ", ".join(f"{count} × {name}" for name, count in sorted(counts.items()))
    return replace(cleaned, warnings=(*cleaned.warnings, f"{_WARNING}{kinds}"))


def without_secrets(value: _Value, counts: Counter[str] | None = None) -> _Value:
    """Return a value with the secrets masked in each text at any depth, or the value itself if it has none.

    Values are dataclasses, mappings with their keys, sequences and texts; numbers are texts beside
    their keys; others, such as times and kinds, stay.
    """
    texts = "\n".join(_texts(value, "", 0))
    if mask(texts) == texts:
        return value
    return cast(_Value, _inside(value, Counter() if counts is None else counts, "", 0))


def has_masked_secrets(document: Document) -> bool:
    """Return whether secrets were masked in the document."""
    return any(warning.startswith(_WARNING) for warning in document.warnings)


def tells_of_secrets(document: bytes) -> bool:
    """Return whether an encoded document has the warning about masked secrets, or its words in the text."""
    return _WARNING.encode() in document


def mask(text: str, counts: Counter[str] | None = None) -> str:
    """Replace the secrets in a text and count them by kind. Linear in the text's length.

    A secret may hide the start of another, so a text with secrets is searched again.
    """
    counts = Counter() if counts is None else counts
    text, marks = (text, 0) if _MARK in text else _ESCAPES.subn(rf"\g<0>{_MARK}", text)
    for _ in range(_MOST_ROUNDS):
        before = text
        text = _masked_once(text, counts)
        if text == before:
            break
    return text.replace(_MARK, "") if marks else text


def _masked_once(text: str, counts: Counter[str]) -> str:
    lower = _lowered(text)
    # A token lies within one long word, and texts repeat most of their words.
    words = "\n".join({word for word in text.split() if len(word) >= LEAST_LENGTH})
    hinted = {number for start in set(_STARTS.findall(words)) for number in _BY_START[start]}
    hinted |= {number for hint, number in _IN_WORDS if hint in words}
    hinted = {number for number in hinted if RULES[number].pattern.search(words)}
    hinted |= {number for hint, number in _IN_TEXT if hint in text}
    for number in sorted(hinted | _NAMED):
        rule = RULES[number]
        text, lower = _without(rule, lower if rule.scope is Scope.NAME else text, text, lower, counts)
    return text


def _without(rule: SecretRule, searched: str, text: str, lower: str, counts: Counter[str]) -> tuple[str, str]:
    """Return the text and its lower-case form with the secrets of one rule masked."""
    parts: list[str] = []
    place = 0
    for match in rule.pattern.finditer(searched):
        if rule.holds(match, text):
            start, stop = span(match)
            counts[rule.name] += 1
            parts += (text[place:start], f"«{rule.name}»")
            place = stop
    if not parts:
        return text, lower
    text = "".join((*parts, text[place:]))
    return text, _lowered(text)


def _lowered(text: str) -> str:
    """Return the text in lower case at the same length, so that offsets are valid in both."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join([small if len(small := letter.lower()) == 1 else letter for letter in text])


def _texts(value: Any, name: str, depth: int) -> Iterator[str]:
    """Yield each text in a value, behind the key that names it."""
    if type(value) is str or (name and type(value) is int):
        yield _named(name, str(value))
    elif depth > _DEEPEST or value is None:
        return
    elif is_dataclass(value):
        for field in fields(value):
            yield from _texts(getattr(value, field.name), "", depth + 1)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from _texts(inner, str(key), depth + 1)
    elif isinstance(value, tuple | list):
        for inner in value:
            yield from _texts(inner, name, depth + 1)


def _inside(value: Any, counts: Counter[str], name: str, depth: int) -> Any:
    """Mask each text in a value. A text is searched together with the key that names it; too deep values are dropped."""
    if type(value) is str:
        return _masked_value(name, value, counts)
    if name and type(value) is int:
        return value if (text := _masked_value(name, str(value), counts)) == str(value) else text
    if depth > _DEEPEST:
        return None
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _inside(getattr(value, f.name), counts, "", depth + 1) for f in fields(value)})
    if isinstance(value, Mapping):
        return {
            mask(key, counts) if type(key) is str else key: _inside(inner, counts, str(key), depth + 1)
            for key, inner in value.items()
        }
    if isinstance(value, tuple | list):
        inner = [_inside(each, counts, name, depth + 1) for each in value]
        return inner if isinstance(value, list) else value._make(inner) if hasattr(value, "_make") else tuple(inner)
    return value


def _named(name: str, value: str) -> str:
    return f'{name}: "{value}"' if name else value


def _masked_value(name: str, value: str, counts: Counter[str]) -> str:
    name = mask(name)
    whole, before = mask(_named(name, value), found := Counter[str]()), f'{name}: "'
    if name and whole.startswith(before) and whole.endswith('"'):
        counts.update(found)
        return whole[len(before) : -1]
    return mask(value, counts)


def _hints(scope: Scope) -> list[tuple[str, int]]:
    """Return the hints of a scope, each with the number of its rule."""
    return [(hint, number) for number, rule in enumerate(RULES) if rule.scope is scope for hint in rule.hints]


def _any_of(hints: set[str]) -> str:
    """Return a pattern for the longest of the hints."""
    grouped = groupby(sorted(hints, reverse=True), key=itemgetter(0))
    groups = (f"{first}(?:{'|'.join(re.escape(hint[1:]) for hint in group)})" for first, group in grouped)
    return f"(?:{'|'.join(groups)})"


_IN_WORDS, _IN_TEXT = _hints(Scope.WORD), _hints(Scope.TEXT)
_NAMED = {number for number, rule in enumerate(RULES) if rule.scope is Scope.NAME}
_BY_START = {
    start: [number for hint, number in _hints(Scope.START) if start.startswith(hint)]
    for start, _ in _hints(Scope.START)
}
_STARTS = re.compile(BOUNDARY + _any_of(set(_BY_START)))
_MARK = "\0"
_ESCAPES = re.compile(rf"[\\%[;](?:[a-z]|x?[\dA-Fa-f]{{2}}|u[\dA-Fa-f]{{4}}|\d{{1,2}}m)(?={_any_of(set(_BY_START))})")
"""Escapes of code, addresses and coloured logs before a token, such as `\\n` and `%3D`. They end with a letter or a digit."""
