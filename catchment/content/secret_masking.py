"""Replace passwords, tokens and keys in documents before anything is stored.

`secret_rules` has the table of rules. Secrets are counted by kind; their values are not kept.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar, cast

from catchment.content.secret_checks import LEAST_LENGTH
from catchment.content.secret_rules import RULES, Scope, SecretRule
from catchment.model import Document, Extraction

_DEEPEST = 100
_MOST_ROUNDS = 5
_WARNING = "masked secrets: "
_MARK = re.compile("«([^«»\n]+)»")
_Value = TypeVar("_Value")


def masked(document: Document) -> Document:
    """Return the document with its secrets masked and a warning that counts them, or the document itself if it has none."""
    # Those of a recognized text were masked with it.
    already = _MARK.findall(document.text) if document.recognized else ()
    counts = Counter(name for name in already if any(name == rule.name for rule in RULES))
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


def extraction_without_secrets(extraction: Extraction, text: str) -> Extraction:
    """Return the extraction of a masked text with its secrets masked. What stands in the text is not searched again."""
    added = {chunk.heading for chunk in extraction.chunks}
    for link in extraction.links:
        place = text[link.start : link.end]
        added.update(part for part in (link.target, link.anchor, link.label) if part not in place)
    for entity in extraction.entities:
        place = text[entity.start : entity.end]
        added.update(part for part in (entity.value, entity.detail) if part not in place)
    texts = "\n".join(added)
    return extraction if mask(texts) == texts else without_secrets(extraction)


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
    for _ in range(_MOST_ROUNDS):
        before = text
        text = _masked_once(text, counts)
        if text == before:
            break
    return text


def _masked_once(text: str, counts: Counter[str]) -> str:
    lower = _lowered(text)
    for number in sorted(_hinted(text, lower)):
        rule = _RULES[number]
        parts: list[str] = []
        place = 0
        for start, stop in rule.secrets(lower if rule.scope in _NAMES else text, text):
            counts[rule.name] += 1
            parts += (text[place:start], f"«{rule.name}»")
            place = stop
        if parts:
            text = "".join((*parts, text[place:]))
            lower = _lowered(text)
    return text


def _hinted(text: str, lower: str) -> set[int]:
    """Return the numbers of the rules that may find a secret."""
    # A token lies within one long word, and texts repeat most of their words.
    unique = {word for word in text.split() if len(word) >= LEAST_LENGTH}
    words = "\n".join(("", *unique))
    started = set(_starts().findall(_without_escapes(words)))
    hinted = {number for start in started for number in _BY_START[start]}
    hinted = {number for number in hinted if _RULES[number].pattern.search(words)}
    words = "\n".join([word for word in unique if len(word) >= _LEAST_WITH_HINT])
    hinted |= {number for number in _numbers(Scope.WORD, words) if _RULES[number].pattern.search(words)}
    hinted |= _numbers(Scope.TEXT, text) | _numbers(Scope.NAME, lower)
    if lower.count(" the ", 0, _BEGINNING) < _FEW:  # not English
        hinted |= _numbers(Scope.FOREIGN_NAME, lower)
    if not text.isascii() and _has_accented_hint(lower):
        hinted |= _numbers(Scope.ACCENTED_NAME, lower)
    return hinted


def _numbers(scope: Scope, text: str) -> set[int]:
    """Return the numbers of the rules with a hint in a text."""
    return {number for hint, numbers in _HINTS[scope].items() if hint in text for number in numbers}


def _has_accented_hint(lower: str) -> bool:
    """Return whether a text may have a hint; only its letters outside ASCII are searched, which are few in most texts."""
    letters = lower.encode(errors="surrogatepass").translate(None, _ASCII)
    return _ACCENTS.search(letters) is not None


def _lowered(text: str) -> str:
    """Return the text in lower case at the same length, so that offsets are valid in both."""
    return text.replace("İ", "I").lower()  # the only letter that becomes longer


def _encodes_secret(match: re.Match[str], _text: str) -> bool:
    """Return whether base64 text decodes to text with a secret."""
    encoded = "".join(match[0].split()).rstrip("=").translate(_URL_SAFE)
    decoded = base64.b64decode(encoded + "=" * (-len(encoded) % 4)).decode("ascii", "replace")
    return _masked_once(decoded, Counter()) != decoded


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
    whole, before = mask(_named(name, value), inner_counts := Counter[str]()), f'{name}: "'
    if name and whole.startswith(before) and whole.endswith('"'):
        counts.update(inner_counts)
        return whole[len(before) : -1]
    return mask(value, counts)


_GROUP = "[CDI-Za-f][A-HQ-Xg-nw-z0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_-]"
_ENCODED = SecretRule(
    "encoded secret",
    ("",),
    rf"{_GROUP}(?<![A-Za-z0-9+/].{{4}})(?>(?:{_GROUP}){{8,}})(?:\s{{1,20}}(?>(?:{_GROUP}){{9,}}))*"
    rf"(?:\s{{1,20}}(?:{_GROUP}){{1,8}})?(?:[CDI-Za-f][A-HQ-Xg-nw-z0-3][A-Za-z0-9]?)?={{0,2}}",
    _encodes_secret,
)
"""Base64 of printable ASCII, in one line or several."""
_URL_SAFE = str.maketrans("-_", "+/")
_RULES = (*RULES, _ENCODED)
_LEAST_WITH_HINT = 36
"""The minimum length of a word in which a token has its hint inside."""
_HINTS: dict[Scope, dict[str, list[int]]] = {scope: {} for scope in Scope}
for _number, _rule in enumerate(_RULES):
    for _hint in _rule.hints:
        _HINTS[_rule.scope].setdefault(_hint, []).append(_number)
_BY_START = {
    start: [number for hint, numbers in _HINTS[Scope.START].items() if start.startswith(hint) for number in numbers]
    for start in _HINTS[Scope.START]
}
_NAMES = {Scope.NAME, Scope.FOREIGN_NAME, Scope.ACCENTED_NAME}
_ASCII = bytes(range(128))
_ACCENTS = re.compile(b"|".join(hint.encode().translate(None, _ASCII) for hint in _HINTS[Scope.ACCENTED_NAME]))
_BEGINNING, _FEW = 2_000, 3
_CODE_ESCAPE = re.compile(r"\\(?:u[\dA-Fa-f]{4}|x[\dA-Fa-f]{2}|[a-z0-9])")
_URL_ESCAPE = re.compile(r"%[\dA-Fa-f]{2}")
_COLOUR = re.compile(r"\[[\d;]{0,12}[mK]")


def _without_escapes(words: str) -> str:
    """Return words that are bounded by escapes, too; one search for each kind is quicker than one for all."""
    for escape in (_CODE_ESCAPE, _URL_ESCAPE, _COLOUR):
        words = escape.sub("\n", words)
    return words.replace("=3D", "\n")


@cache
def _starts() -> re.Pattern[str]:
    """Return a pattern for the hints at the start of a token: the longest of them."""
    starts = sorted(_BY_START)
    return re.compile(f"[^A-Za-z0-9](?=[{''.join({start[0] for start in starts})}])({_any_of(starts)})")


def _any_of(words: Sequence[str]) -> str:
    """Return a pattern for the longest of some sorted words."""
    groups = groupby([word for word in words if word], key=itemgetter(0))
    ends = [re.escape(first) + _any_of([word[1:] for word in group]) for first, group in groups]
    return f"(?:{'|'.join(ends)}){'?' if '' in words else ''}" if ends else ""
