"""What a person types into a search, and how the place that was found is shown. Any text is a query; none is an error."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

_PART = re.compile(r'(-?)"([^"]*)"?(\*?)|(-?)([^\s"]+)')
NO_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
"""Letters of scripts that put no spaces between words, as many as follow one another."""
_BREAK = re.compile(r"[\W_]+")
_MARKS = "[\u0300-\u036f]*"
_AROUND = 90
_LONGEST = 1_000
"""Letters of a word or phrase that count."""
_SHOWN = 100
"""So many words of a query are looked for in a passage to be shown."""


class _Fold(dict[int, str]):
    """Letters without case and accents, one for one, so that offsets stay."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        plain = unicodedata.normalize("NFKD", letter)[0].casefold()
        self[code] = plain if len(plain) == 1 else letter
        return self[code]


_FOLD = _Fold()


def fold(text: str) -> str:
    """The text without case and accents; as long as before."""
    return text.lower() if text.isascii() else text.translate(_FOLD)


def plain_words(text: str) -> str:
    """The words of a text, folded, with one space between them."""
    marks = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return " ".join(_BREAK.split(marks.casefold())).strip()


@dataclass(frozen=True, slots=True)
class Term:
    """One word or phrase of a query."""

    text: str
    prefix: bool

    @property
    def substring(self) -> str | None:
        """The text to look for letter by letter, where its script puts no spaces between words."""
        return self.text if NO_SPACES.search(self.text) else None

    def matcher(self, sqlite: bool) -> str:
        """The term in the language of the index; holds nothing that the index would read as an operator."""
        if sqlite:
            quoted = self.text.replace('"', '""')
            # The index folds the accents of Latin letters only: й is one letter to it, or и and a mark.
            forms = dict.fromkeys((quoted, unicodedata.normalize("NFD", quoted)))
            return " OR ".join(f'"{form}"{" *" if self.prefix else ""}' for form in forms)
        words = plain_words(self.text).split()
        return " <-> ".join(words) + (":*" if self.prefix else "")

    def pattern(self) -> str:
        """A regular expression for the term in folded text."""
        if self.substring:
            return re.escape(fold(self.text))
        words = [_MARKS.join(map(re.escape, word)) + _MARKS for word in plain_words(self.text).split()]
        return r"(?<![^\W_])" + r"[\W_]+".join(words) + (r"[^\W_]*" if self.prefix else r"(?![^\W_])")


@dataclass(frozen=True, slots=True)
class Query:
    """What must be there, and what must not."""

    wanted: tuple[Term, ...]
    unwanted: tuple[Term, ...]


def parse(words: str) -> Query:
    """Read a query: words, "phrases", prefix*, -without. Signs that are no words are passed over."""
    wanted: list[Term] = []
    unwanted: list[Term] = []
    cleaned = unicodedata.normalize("NFC", words.encode("utf-8", "replace").decode()).replace("\x00", " ")
    for match in _PART.finditer(cleaned):
        minus, phrase, star, bare_minus, bare = match.groups()
        text = phrase if bare is None else bare
        begins = bool(star) or (bare or "").endswith("*")
        text = text.strip("*")
        term = Term(text, begins) if len(text) <= _LONGEST else _beginning(text)
        if plain_words(term.text):
            (unwanted if minus or bare_minus else wanted).append(term)
    return Query(tuple(dict.fromkeys(wanted)), tuple(dict.fromkeys(unwanted)))


def _beginning(text: str) -> Term:
    """The whole words at the beginning of a very long phrase; of one very long word its first letters."""
    words = _BREAK.split(text[: _LONGEST + 1])
    last = words[-1]
    if not last or len(last) > _LONGEST or not plain_words(text[: _LONGEST + 1 - len(last)]):
        return Term(text[:_LONGEST], prefix=bool(last))
    return Term(text[: _LONGEST + 1 - len(last)], prefix=False)


def likeness(text: str, query: Query) -> int:
    """How many of the words are in a text."""
    folded = fold(unicodedata.normalize("NFC", text))
    return sum(re.search(term.pattern(), folded) is not None for term in query.wanted[:_SHOWN])


def snippet(text: str, query: Query) -> str:
    """A line of the text around the first place that was found, with each find in [brackets]."""
    pattern = re.compile("|".join(term.pattern() for term in query.wanted[:_SHOWN]))
    folded = fold(text)
    first = pattern.search(folded)
    start = max(0, (first.start() if first else 0) - _AROUND)
    stop = min(len(text), (first.end() if first else 0) + _AROUND)
    if start and (space := text.find(" ", start, start + 20)) >= 0:
        start = space + 1
    if stop < len(text) and (space := text.rfind(" ", stop - 20, stop)) > start:
        stop = space
    pieces, done = [], start
    for match in pattern.finditer(folded, start, stop):
        pieces += [text[done : match.start()], "[", text[match.start() : match.end()], "]"]
        done = match.end()
    line = " ".join("".join([*pieces, text[done:stop]]).split())
    return f"{'… ' if start else ''}{line}{' …' if stop < len(text) else ''}"
