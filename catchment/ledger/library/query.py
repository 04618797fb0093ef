"""What a person types into a search, and how the place that was found is shown. Any text is a query; none is an error."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from catchment.ledger.library.filters import Filter

_PART = re.compile(r'(-?)"([^"]*)"?(\*?)|(-?)([^\s"]+)')
NO_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
"""Letters of scripts that put no spaces between words, as many as follow one another."""
_BREAK = re.compile(r"[\W_]+")
_MARKS = "[\u0300-\u036f]*"
_BEGIN, _END = "\ue000", "\ue001"
"""The marks of a find while a snippet is made, so that its brackets are not taken for those of a link."""
_WIKILINK = re.compile(r"!?\[\[(?:[^\[\]|]*\|)?([^\[\]]*)\]\]")
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
    """One word or phrase of a query. `weight`: what a match counts beside that of another term."""

    text: str
    prefix: bool
    weight: float = 1.0
    is_quoted: bool = False

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


AnyOf = tuple[Term, ...]
"""Terms of which one has to be there: a word and its other forms, or what `OR` joins."""


@dataclass(frozen=True, slots=True)
class Query:
    """A document matches that has a term of each group in `wanted`, none in `unwanted`, and passes every filter."""

    wanted: tuple[AnyOf, ...]
    unwanted: tuple[Term, ...]
    filters: tuple[Filter, ...] = ()

    @property
    def shown(self) -> list[Term]:
        """The terms that are marked in a snippet."""
        return list(chain.from_iterable(self.wanted))[:_SHOWN]


def parse(words: str) -> Query:
    """Read a query: words, "phrases", prefix*, -without, this OR that. Punctuation is ignored. Filters are not read here."""
    wanted: list[AnyOf] = []
    unwanted: list[Term] = []
    joins = False
    for is_unwanted, term in _terms(words):
        if term is None:
            joins = bool(wanted)
        elif is_unwanted:
            unwanted.append(term)
        elif joins:
            wanted[-1] += (term,)
            joins = False
        else:
            wanted.append((term,))
    return Query(tuple(dict.fromkeys(wanted)), tuple(dict.fromkeys(unwanted)))


def _terms(words: str) -> Iterator[tuple[bool, Term | None]]:
    """Each term, and whether it is unwanted; None for the word OR."""
    cleaned = unicodedata.normalize("NFC", words.encode("utf-8", "replace").decode()).replace("\x00", " ")
    for match in _PART.finditer(cleaned):
        minus, phrase, star, bare_minus, bare = match.groups()
        if bare == "OR" and not bare_minus:
            yield False, None
            continue
        text = phrase if bare is None else bare
        begins = bool(star) or (bare or "").endswith("*")
        text = text.strip("*")
        term = Term(text, begins, is_quoted=bare is None) if len(text) <= _LONGEST else _beginning(text)
        if plain_words(term.text):
            yield bool(minus or bare_minus), term


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
    return sum(re.search(term.pattern(), folded) is not None for term in query.shown)


def snippet(text: str, query: Query) -> str:
    """A line of the text around the first place that was found, with each find in [brackets]."""
    pattern = re.compile("|".join(term.pattern() for term in query.shown) or r"(?!)")
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
        pieces += [text[done : match.start()], _BEGIN, text[match.start() : match.end()], _END]
        done = match.end()
    line = _WIKILINK.sub(r"\1", "".join([*pieces, text[done:stop]]).replace("\\|", "|"))
    line = " ".join(line.replace(_BEGIN, "[").replace(_END, "]").split())
    return f"{'… ' if start else ''}{line}{' …' if stop < len(text) else ''}"
