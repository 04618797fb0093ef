"""Word forms and corrections. Widening only adds results: those of the typed words rank first.

Forms are the words of the library with the same stem in one of its languages (Snowball). Corrections are the words of the
library nearest to a word that occurs nowhere: one edit for four letters or more, two for eight or more. A rare word without
other forms is corrected as well if a word at one edit is much more frequent.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import Stemmer

from catchment.ledger.library.query import NO_SPACES, AnyOf, Query, Term, plain_words
from catchment.ledger.library.vocabulary import Vocabulary
from catchment.ledger.library.word_parts import pieces_of
from catchment.search.results import Word

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
"""Number of words of a query that are widened, alternatives included."""
_LEAST_FOR_FORMS = 3
_LEAST_FOR_ONE_EDIT = 4
_LEAST_FOR_TWO_EDITS = 8
_LEAST_FOR_RARE = 5
_RARE = 2
"""A word that occurs at most so often may be misspelled in the library itself."""
_MUCH_MORE = 3
_LONGEST = 30
_ALPHABETS = ("abcdefghijklmnopqrstuvwxyz0123456789", "αβγδεζηθικλμνξοπρστυφχψω", "абвгдежзийклмнопрстуфхцчшщъыьэюя")
_BEGINNING = 3


def widen(query: Query, vocabulary: Vocabulary) -> tuple[Query, list[Word]]:
    """Add to each single word of a query its other forms, and corrections if it seems to be misspelled."""
    groups = query.wanted[:_WIDENED]
    if not any(_is_word(term) for group in groups for term in group):
        return query, [Word(term.text) for group in query.wanted for term in group]
    stemmers = [
        Stemmer.Stemmer(_LANGUAGES[code]) for code in sorted(vocabulary.languages() | {_DEFAULT}) if code in _LANGUAGES
    ]
    wanted: list[AnyOf] = []
    words: list[Word] = []
    for group, joined in zip(groups, _joined(groups, vocabulary), strict=True):
        others = [Term(word, prefix=False, weight=_JOINED_WEIGHT) for word in joined]
        for term in group:
            is_widened = _is_word(term) and len(words) < _WIDENED
            word = _widened(term, joined, stemmers, vocabulary) if is_widened else Word(term.text)
            words.append(word)
            others += [Term(form, prefix=False, weight=_FORM_WEIGHT) for form in word.forms]
            if len(pieces := pieces_of(term.text)) > 1 and is_widened:
                others.append(Term(" ".join(pieces), prefix=False, weight=_FORM_WEIGHT, is_quoted=True))
            others += [Term(other, prefix=False, weight=_CORRECTION_WEIGHT) for other in word.corrections]
        wanted.append((*group, *others))
    words += [Word(term.text) for group in query.wanted[_WIDENED:] for term in group]
    return replace(query, wanted=(*wanted, *query.wanted[_WIDENED:])), words


def _widened(term: Term, joined: Sequence[str], stemmers: Sequence[Stemmer.Stemmer], vocabulary: Vocabulary) -> Word:
    word = plain_words(term.text)
    forms = _forms(word, term.text.lower(), stemmers, vocabulary)
    count = forms.get(word, 0)
    others = tuple(form for form in forms if form != word)
    pieces = pieces_of(term.text)
    parts = (*joined, *(pieces if len(pieces) > 1 else ()))
    # A misspelled word can have the stem of another by chance, but then it mostly is that stem: "metr" and "metres".
    is_typo = not forms or any(stemmer.stemWord(word) == word for stemmer in stemmers)
    corrections: Sequence[str] = ()
    if not count and not joined and is_typo:
        corrections = _corrections(word, vocabulary)
    elif 0 < count <= _RARE and not others and word.isalpha():
        corrections = _common(word, count, vocabulary)
    return Word(term.text, count, others, parts, tuple(other for other in corrections if other not in forms))


def _joined(groups: Sequence[AnyOf], vocabulary: Vocabulary) -> list[list[str]]:
    """Return for each group the words of the library that it forms with its neighbour: "green house", "http client"."""
    words = [plain_words(group[0].text) if len(group) == 1 and _is_word(group[0]) else "" for group in groups]
    pairs = [before + after if before and after else "" for before, after in pairwise(words)]
    known = vocabulary.among([pair for pair in pairs if pair])
    return [[pair for pair in around if pair in known] for around in zip(["", *pairs], [*pairs, ""], strict=True)]


def _is_word(term: Term) -> bool:
    """Return whether a term is one word that may be widened: not a phrase, a prefix, or in a script without spaces."""
    if term.prefix or term.is_quoted or len(term.text) > _LONGEST or NO_SPACES.search(term.text):
        return False
    return _WORD.fullmatch(plain_words(term.text)) is not None


def _forms(word: str, typed: str, stemmers: Sequence[Stemmer.Stemmer], vocabulary: Vocabulary) -> dict[str, int]:
    """Return the words with the same stem and their counts, itself too if it occurs; the most frequent first."""
    if len(word) < _LEAST_FOR_FORMS or not word.isalpha():
        return vocabulary.among([word])
    stems = [(stemmer, {stemmer.stemWord(word), plain_words(stemmer.stemWord(typed))}) for stemmer in stemmers]
    shortest = min(len(stem) for _, mine in stems for stem in mine)

    def alike(words: Collection[str]) -> set[str]:
        listed = list(words)
        return {word}.intersection(listed) | {
            other
            for stemmer, mine in stems
            for other, stem in zip(listed, stemmer.stemWords(listed), strict=True)
            if stem in mine
        }

    found = vocabulary.beginning(word[: max(_LEAST_FOR_FORMS, shortest - 1)], alike)
    first = sorted(found, key=lambda form: (form != word, -found[form], form))[:_MOST_FORMS]
    return {form: found[form] for form in first}


def _corrections(word: str, vocabulary: Vocabulary) -> tuple[str, ...]:
    """Return the words of the library nearest to one that it does not have; the most frequent first."""
    if len(word) < _LEAST_FOR_ONE_EDIT:
        return ()
    found = vocabulary.among(set(_edited(word)))
    if not found and len(word) >= _LEAST_FOR_TWO_EDITS:
        found = vocabulary.beginning(
            word[:_BEGINNING], lambda words: [other for other in words if is_near(word, other, 2)]
        )
    return tuple(sorted(found, key=lambda other: (-found[other], other))[:_MOST_CORRECTIONS])


def _common(word: str, count: int, vocabulary: Vocabulary) -> tuple[str, ...]:
    """Return the words at one edit that are much more frequent than a rare word, which is probably misspelled."""
    if len(word) < _LEAST_FOR_RARE:
        return ()
    found = vocabulary.among(set(_edited(word)) - {word})
    frequent = [other for other, number in found.items() if number >= _MUCH_MORE * count]
    return tuple(sorted(frequent, key=lambda other: (-found[other], other))[:_MOST_CORRECTIONS])


def _edited(word: str) -> Iterator[str]:
    """Yield every word at one edit: a letter removed, added, replaced, or swapped with the next."""
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
    """Return whether at most `most` edits lead from one word to the other; a swap of two neighbours is one edit.

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
