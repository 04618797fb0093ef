"""Word forms and corrections. A query is only widened: nothing that it finds as typed is lost, and that comes first.

Forms are the words of the library with the same stem in one of its languages (Snowball). Corrections are the words of the
library nearest to a word that occurs nowhere: one edit for four letters or more, two for eight or more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import Stemmer

from catchment.ledger.library.query import NO_SPACES, AnyOf, Query, Term, plain_words
from catchment.ledger.library.vocabulary import Vocabulary
from catchment.ledger.library.word_parts import pieces_of

_WORD = re.compile(r"[^\W_]+")
_LANGUAGES = {
    "ar": "arabic",
    "ca": "catalan",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "eu": "basque",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
    "yi": "yiddish",
}
"""The stemmers of Snowball by ISO 639-1 code."""
_DEFAULT = "en"

_FORM_WEIGHT = 0.7
_CORRECTION_WEIGHT = 0.5
_JOINED_WEIGHT = 1.5
"""Two words of a query that are written as one, or that are neighbours in an identifier, are rarely so by chance."""
_MOST_FORMS = 12
_MOST_CORRECTIONS = 3
_WIDENED = 10
"""Words of a query that are widened; whoever types more is not looking for other words."""
_LEAST_FOR_FORMS = 3
_LEAST_FOR_ONE_EDIT = 4
_LEAST_FOR_TWO_EDITS = 8
_LONGEST = 30
_ALPHABETS = ("abcdefghijklmnopqrstuvwxyz0123456789", "αβγδεζηθικλμνξοπρστυφχψω", "абвгдежзийклмнопрстуфхцчшщъыьэюя")
_BEGINNING = 3


@dataclass(frozen=True, slots=True)
class Correction:
    """A word that occurs nowhere in the library, and the words that were searched for as well."""

    word: str
    instead: tuple[str, ...]


def widen(query: Query, vocabulary: Vocabulary) -> tuple[Query, list[Correction]]:
    """Add to each single word of a query its other forms, and corrections if it occurs nowhere."""
    groups = query.wanted[:_WIDENED]
    if not any(_is_word(term) for group in groups for term in group):
        return query, []
    stemmers = [
        Stemmer.Stemmer(_LANGUAGES[code]) for code in sorted(vocabulary.languages() | {_DEFAULT}) if code in _LANGUAGES
    ]
    wanted: list[AnyOf] = []
    corrections: list[Correction] = []
    for group, joined in zip(groups, _joined(groups, vocabulary), strict=True):
        others = [Term(word, prefix=False, weight=_JOINED_WEIGHT) for word in joined]
        for term in filter(_is_word, group):
            word = plain_words(term.text)
            forms = _forms(word, term.text.lower(), stemmers, vocabulary)
            others += [Term(form, prefix=False, weight=_FORM_WEIGHT) for form in forms if form != word]
            if len(pieces := pieces_of(term.text)) > 1:
                others.append(Term(" ".join(pieces), prefix=False, weight=_FORM_WEIGHT, is_quoted=True))
            # A misspelled word can have the stem of another by chance, but then it mostly is that stem: "metr" and "metres".
            is_typo = not forms or any(stemmer.stemWord(word) == word for stemmer in stemmers)
            if word in forms or joined or not is_typo:
                continue
            if instead := tuple(other for other in _corrections(word, vocabulary) if other not in forms):
                corrections.append(Correction(term.text, instead))
                others += [Term(other, prefix=False, weight=_CORRECTION_WEIGHT) for other in instead]
        wanted.append((*group, *others))
    return replace(query, wanted=(*wanted, *query.wanted[_WIDENED:])), corrections


def _joined(groups: Sequence[AnyOf], vocabulary: Vocabulary) -> list[list[str]]:
    """For each group, the words of the library that it makes with its neighbour: "green house", "http client"."""
    words = [plain_words(group[0].text) if len(group) == 1 and _is_word(group[0]) else "" for group in groups]
    pairs = [before + after if before and after else "" for before, after in pairwise(words)]
    known = vocabulary.among([pair for pair in pairs if pair])
    return [[pair for pair in around if pair in known] for around in zip(["", *pairs], [*pairs, ""], strict=True)]


def _is_word(term: Term) -> bool:
    """Whether a term is one word that may be widened: not a phrase, a prefix, or in a script without spaces."""
    if term.prefix or term.is_quoted or len(term.text) > _LONGEST or NO_SPACES.search(term.text):
        return False
    return _WORD.fullmatch(plain_words(term.text)) is not None


def _forms(word: str, typed: str, stemmers: Sequence[Stemmer.Stemmer], vocabulary: Vocabulary) -> list[str]:
    """The words with the same stem, itself too if it occurs; the most frequent first."""
    if len(word) < _LEAST_FOR_FORMS or not word.isalpha():
        return list(vocabulary.among([word]))
    stems = [(stemmer, {stemmer.stemWord(word), plain_words(stemmer.stemWord(typed))}) for stemmer in stemmers]
    shortest = min(len(stem) for _, mine in stems for stem in mine)
    found = vocabulary.beginning(word[: max(_LEAST_FOR_FORMS, shortest - 1)])
    forms = {
        other
        for stemmer, mine in stems
        for other, stem in zip(found, stemmer.stemWords(list(found)), strict=True)
        if stem in mine
    }
    forms |= {word} & found.keys()
    return sorted(forms, key=lambda form: (form != word, -found[form], form))[:_MOST_FORMS]


def _corrections(word: str, vocabulary: Vocabulary) -> tuple[str, ...]:
    """The words of the library nearest to one that it does not have; the most frequent first."""
    if len(word) < _LEAST_FOR_ONE_EDIT:
        return ()
    found = vocabulary.among(set(_edited(word)))
    if not found and len(word) >= _LEAST_FOR_TWO_EDITS:
        beginnings = vocabulary.beginning(word[:_BEGINNING])
        found = {other: number for other, number in beginnings.items() if is_near(word, other, 2)}
    return tuple(sorted(found, key=lambda other: (-found[other], other))[:_MOST_CORRECTIONS])


def _edited(word: str) -> Iterator[str]:
    """Every word that one letter makes of a word: left out, added, replaced, or swapped with the next."""
    letters = next((alphabet for alphabet in _ALPHABETS if word[0] in alphabet), "")
    for n in range(len(word) + 1):
        before, after = word[:n], word[n:]
        yield from (before + letter + after for letter in letters)
        if after:
            yield before + after[1:]
            yield from (before + letter + after[1:] for letter in letters if letter != after[0])
        if len(after) > 1:
            yield before + after[1] + after[0] + after[2:]


def is_near(word: str, other: str, most: int) -> bool:
    """Whether at most so many edits lead from one word to the other; to swap two neighbours is one edit.

    Optimal string alignment: https://en.wikipedia.org/wiki/Damerau-Levenshtein_distance
    """
    if abs(len(word) - len(other)) > most:
        return False
    before: list[int] = []
    above: list[int] = []
    row = list(range(len(other) + 1))
    for n, letter in enumerate(word, 1):
        before, above, row = above, row, [n]
        for m, wanted in enumerate(other, 1):
            best = min(above[m] + 1, row[m - 1] + 1, above[m - 1] + (letter != wanted))
            if n > 1 and m > 1 and letter == other[m - 2] and word[n - 2] == wanted:
                best = min(best, before[m - 2] + 1)
            row.append(best)
    return row[-1] <= most
