"""Replace passwords, tokens and keys in documents before anything is stored.

`secret_rules` has the table of rules. Secrets are counted by kind; their values are not kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any

from catchment.content.secret_rules import BOUNDARY, LEAST_LENGTH, RULES, Scope, SecretRule, span
from catchment.model import Document

_DEEPEST = 50
_MOST_ROUNDS = 5
_WARNING = "masked secrets: "


def masked(document: Document) -> Document:
    """Return the document with its secrets masked and a warning that counts them, or the document itself if it has none."""
    counts: Counter[str] = Counter()
    cleaned = replace(
        document,
        text=mask(document.text, counts),
        title=document.title and mask(document.title, counts),
        author=document.author and mask(document.author, counts),
        properties=_inside(document.properties, counts, 0),
    )
    if not counts:
        return document
    kinds = ", ".join(f"{count} × {name}" for name, count in sorted(counts.items()))
    return replace(cleaned, warnings=(*document.warnings, f"{_WARNING}{kinds}"))


def has_masked_secrets(document: Document) -> bool:
    """Return whether secrets were masked in the document."""
    return any(warning.startswith(_WARNING) for warning in document.warnings)


def mask(text: str, counts: Counter[str] | None = None) -> str:
    """Replace the secrets in a text and count them by kind. Linear in the text's length.

    A secret may hide the start of another, so a text with secrets is searched again.
    """
    counts = Counter() if counts is None else counts
    for _ in range(_MOST_ROUNDS):
        before = text
        text = _masked_once(text, counts)
        if text == before:
            break
    return text


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


def _inside(value: Any, counts: Counter[str], depth: int) -> Any:
    """Mask every string in a value of the properties. A string is searched together with its key."""
    if isinstance(value, str):
        return mask(value, counts)
    if depth > _DEEPEST:
        return value
    if isinstance(value, Mapping):
        return {key: _named(key, inner, counts, depth) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [_inside(inner, counts, depth + 1) for inner in value]
    return value


def _named(key: Any, value: Any, counts: Counter[str], depth: int) -> Any:
    if isinstance(value, str) and isinstance(key, str):
        before = f'{key}: "'
        return mask(f'{before}{value}"', counts)[len(before) : -1]
    return _inside(value, counts, depth + 1)


def _hints(scope: Scope) -> list[tuple[str, int]]:
    """Return the hints of a scope, each with the number of its rule."""
    return [(hint, number) for number, rule in enumerate(RULES) if rule.scope is scope for hint in rule.hints]


def _any_of(hints: set[str]) -> re.Pattern[str]:
    """Return a pattern for the longest of the hints at the start of a word."""
    grouped = groupby(sorted(hints, reverse=True), key=itemgetter(0))
    groups = (f"{first}(?:{'|'.join(re.escape(hint[1:]) for hint in group)})" for first, group in grouped)
    return re.compile(f"{BOUNDARY}(?:{'|'.join(groups)})")


_IN_WORDS, _IN_TEXT = _hints(Scope.WORD), _hints(Scope.TEXT)
_NAMED = {number for number, rule in enumerate(RULES) if rule.scope is Scope.NAME}
_BY_START = {
    start: [number for hint, number in _hints(Scope.START) if start.startswith(hint)]
    for start, _ in _hints(Scope.START)
}
_STARTS = _any_of(set(_BY_START))
