"""Secrets in content: what looks like a password, a token or a key is replaced before anything of it is kept.

`secret_rules` has the table of rules. Masked secrets are counted and kept nowhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from catchment.content.secret_rules import LEAST_LENGTH, RULES, SecretRule, span
from catchment.model import Document

_DEEPEST = 50
_MOST_ROUNDS = 5
_WARNING = "secrets were masked: "


def masked(document: Document) -> Document:
    """The document without the secrets in it, and a warning that counts them; itself where there are none."""
    found: Counter[str] = Counter()
    cleaned = replace(
        document,
        text=mask(document.text, found),
        title=document.title and mask(document.title, found),
        author=document.author and mask(document.author, found),
        properties=_inside(document.properties, found, 0),
    )
    if not found:
        return document
    kinds = ", ".join(f"{count} × {name}" for name, count in sorted(found.items()))
    return replace(cleaned, warnings=(*document.warnings, f"{_WARNING}{kinds}"))


def tells_of_secrets(document: Document) -> bool:
    """Whether secrets were masked in a document."""
    return any(warning.startswith(_WARNING) for warning in document.warnings)


def mask(text: str, found: Counter[str] | None = None) -> str:
    """Replace the secrets in a text and count them by kind. Linear in the text's length.

    A secret may hide the start of another, so a text with secrets is searched again.
    """
    found = Counter() if found is None else found
    for _ in range(_MOST_ROUNDS):
        before = text
        text = _masked_once(text, found)
        if text == before:
            break
    return text


def _masked_once(text: str, found: Counter[str]) -> str:
    lower = _lowered(text)
    words = [word for word in text.split() if len(word) >= LEAST_LENGTH and not _DIGITS.isdisjoint(word)]
    if words:
        joined = " ".join(words)
        hinted = joined.lower()
        for rule in _ALONE:
            if any(hint in hinted for hint in rule.hints) and rule.pattern.search(joined):
                text, lower = _without(rule, text, text, lower, found)
    for rule in _APART:
        if rule.named:
            text, lower = _without(rule, lower, text, lower, found)
        elif any(hint in lower for hint in rule.hints):
            text, lower = _without(rule, text, text, lower, found)
    return text


def _without(rule: SecretRule, searched: str, text: str, lower: str, found: Counter[str]) -> tuple[str, str]:
    """The text, also in lower case, without the secrets of one rule."""
    parts: list[str] = []
    place = 0
    for match in rule.pattern.finditer(searched):
        if rule.holds(match, text):
            start, stop = span(match)
            found[rule.name] += 1
            parts += (text[place:start], f"«{rule.name}»")
            place = stop
    if not parts:
        return text, lower
    text = "".join((*parts, text[place:]))
    return text, _lowered(text)


def _lowered(text: str) -> str:
    """The text in lower case, letter by letter in the same places."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join([small if len(small := letter.lower()) == 1 else letter for letter in text])


def _inside(value: Any, found: Counter[str], depth: int) -> Any:
    """The same for every text in what frontmatter holds; a name and its value are looked at together."""
    if isinstance(value, str):
        return mask(value, found)
    if depth > _DEEPEST:
        return value
    if isinstance(value, Mapping):
        return {key: _named(key, inner, found, depth) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [_inside(inner, found, depth + 1) for inner in value]
    return value


def _named(key: Any, value: Any, found: Counter[str], depth: int) -> Any:
    if isinstance(value, str) and isinstance(key, str):
        before = f'{key}: "'
        return mask(f'{before}{value}"', found)[len(before) : -1]
    return _inside(value, found, depth + 1)


_DIGITS = frozenset("0123456789")
_ALONE = [rule for rule in RULES if rule.alone]
_APART = [rule for rule in RULES if not rule.alone]
