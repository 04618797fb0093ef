"""The query syntax of the search. Every text is a valid query."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from catchment.errors import BadInput
from catchment.ledger.library.filters import Filter

_PART = re.compile(r'(-?)"([^"]*)"?(\*?)|(-?)([^\s"]+)')
NO_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
"""A run of characters of scripts without spaces between words."""
_BREAK = re.compile(r"[\W_]+")
_MARKS = "[\u0300-\u036f]*"
_LONGEST = 1_000
"""Significant characters of a word or phrase."""
MOST_TERMS = 50
"""Words, phrases, exclusions and filters of a query: more cost seconds, and the databases refuse hundreds."""
_SHOWN = 100
"""Maximum number of query terms marked in a snippet."""


class _Fold(dict[int, str]):
    """Character map that removes case and accents and preserves offsets."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        plain = unicodedata.normalize("NFKD", letter)[0].casefold()
        self[code] = plain if len(plain) == 1 else letter
        return self[code]


_FOLD = _Fold()


def fold(text: str) -> str:
    """Return the text without case and accents. Its length is unchanged."""
    return text.lower() if text.isascii() else text.translate(_FOLD)


def plain_words(text: str) -> str:
    """Return the folded words of a text, separated by single spaces."""
    marks = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return " ".join(_BREAK.split(marks.casefold())).strip()


@dataclass(frozen=True, slots=True)
class Term:
    """A word or phrase of a query. `weight` is the relative score of a match."""

    text: str
    prefix: bool
    weight: float = 1.0
    is_quoted: bool = False

    @property
    def substring(self) -> str | None:
        """The text for a substring search if its script has no spaces between words, else None."""
        return self.text if NO_SPACES.search(self.text) else None

    def forms(self) -> tuple[str, ...]:
        """Return the term in the query syntax of FTS5, with operators escaped: in each form that the index may have."""
        quoted = self.text.replace('"', '""')
        # The index folds accents of Latin letters only: it treats й as one letter, or as и with a mark.
        forms = dict.fromkeys((quoted, unicodedata.normalize("NFD", quoted)))
        return tuple(f'"{form}"{" *" if self.prefix else ""}' for form in forms)

    def tsquery(self) -> str:
        """Return the term in the query syntax of PostgreSQL, with operators escaped."""
        return " <-> ".join(plain_words(self.text).split()) + (":*" if self.prefix else "")

    def pattern(self) -> str:
        """Return a regular expression that matches the term in folded text."""
        if self.substring:
            return re.escape(fold(self.text))
        words = [_MARKS.join(map(re.escape, word)) + _MARKS for word in plain_words(self.text).split()]
        return r"(?<![^\W_])" + r"[\W_]+".join(words) + (r"[^\W_]*" if self.prefix else r"(?![^\W_])")


AnyOf = tuple[Term, ...]
"""Alternative terms: a word with its other forms, or terms joined by `OR`."""


@dataclass(frozen=True, slots=True)
class Query:
    """Matches documents with a term of each group in `wanted` and none in `unwanted` that pass all filters."""

    wanted: tuple[AnyOf, ...]
    unwanted: tuple[Term, ...]
    filters: tuple[Filter, ...] = ()

    @property
    def text(self) -> str:
        """The wanted words and phrases, without operators."""
        return " ".join(term.text for group in self.wanted for term in group)

    @property
    def shown(self) -> list[Term]:
        """The terms to mark in a snippet."""
        return list(chain.from_iterable(self.wanted))[:_SHOWN]


def parse(words: str) -> Query:
    """Parse words, "phrases", prefix*, -without and this OR that. Ignores punctuation; filters are parsed elsewhere."""
    wanted: list[list[Term]] = []
    unwanted: list[Term] = []
    joins = False
    for is_unwanted, term in _terms(words):
        if term is None:
            joins = bool(wanted)
        elif is_unwanted:
            unwanted.append(term)
        elif joins:
            wanted[-1].append(term)
            joins = False
        else:
            wanted.append([term])
    groups = (tuple(dict.fromkeys(group)) for group in wanted)
    return Query(tuple(dict.fromkeys(groups)), tuple(dict.fromkeys(unwanted)))


def bounded(query: Query) -> Query:
    """Return the query. Raises BadInput if it has more than `MOST_TERMS` terms."""
    number = sum(map(len, query.wanted)) + len(query.unwanted) + len(query.filters)
    if number > MOST_TERMS:
        raise BadInput(f"query: {number} words and filters; use at most {MOST_TERMS}, or quote words as a phrase")
    return query


def _terms(words: str) -> Iterator[tuple[bool, Term | None]]:
    """Yield terms and whether they are unwanted; None represents OR."""
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
    """Return the whole words at the start of a very long phrase, or the first characters of a very long word."""
    words = _BREAK.split(text[: _LONGEST + 1])
    last = words[-1]
    if not last or len(last) > _LONGEST or not plain_words(text[: _LONGEST + 1 - len(last)]):
        return Term(text[:_LONGEST], prefix=bool(last))
    return Term(text[: _LONGEST + 1 - len(last)], prefix=False)
