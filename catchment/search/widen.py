"""Word forms and corrections. Widening only adds results: those of the typed words rank first.

Forms are the words of the library with the same stem in one of the query's languages (Snowball). Corrections are the words of
the library nearest to a word that occurs nowhere: one edit for four letters or more, two for eight or more. A rare word
without other forms is corrected as well if a word at one edit is much more frequent.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice, pairwise

import Stemmer

from catchment.ledger import AnyOf, Query, Term, Vocabulary, plain_words
from catchment.search.results import Word

_WORD = re.compile(r"\S*[^\W_]\S*")
_FORM_WEIGHT = 0.7
CORRECTION_WEIGHT = 0.5
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
_BEGINNING = 3
_ARABIC = re.compile("[\u0620-\u064a]")
_BEFORE = ("", "ال", "بال", "كال", "لل", "و", "ف", "ب")
"""Prefixes of Arabic words: the article, particles, or both, as far as Snowball removes them."""


def widen(
    query: Query, vocabulary: Vocabulary, languages: Collection[str]
) -> tuple[Query, list[Word], Mapping[str, int]]:
    """Add to each single word of a query its other forms, and corrections if it seems to be misspelled.

    Returns also in how many passages and names each word and form occurs.

    `languages`: that the query may be in, as ISO 639-1 codes.
    """
    groups = query.wanted[:_WIDENED]
    terms = [term for group in groups for term in group]
    rest = [Word(term.text) for group in query.wanted[_WIDENED:] for term in group]
    if not any(map(_is_word, terms)):
        return query, [*(Word(term.text) for term in terms), *rest], {}
    words, joined, counts = _look_up(groups, vocabulary, languages)
    term_words = zip(terms, words, strict=True)
    wider: list[AnyOf] = []
    for group, around in zip(groups, joined, strict=True):
        others = [Term(word, prefix=False, weight=_JOINED_WEIGHT) for word in around]
        for term, word in islice(term_words, len(group)):
            others += [Term(form, prefix=False, weight=_FORM_WEIGHT) for form in word.forms]
            if word.parts and len(term.pieces) > 1:
                others.append(Term(" ".join(term.pieces), prefix=False, weight=_FORM_WEIGHT))
            others += [Term(other, prefix=False, weight=CORRECTION_WEIGHT) for other in word.corrections]
        wider.append((*group, *others))
    return replace(query, wanted=(*wider, *query.wanted[_WIDENED:])), [*words, *rest], counts


def _look_up(
    groups: Sequence[AnyOf], vocabulary: Vocabulary, languages: Collection[str]
) -> tuple[list[Word], list[list[str]], Mapping[str, int]]:
    """Return each term with its related words, the words that each group forms with its neighbours, and all counts."""
    terms = [(term, n) for n, group in enumerate(groups) for term in group]
    widened = {place: term for place, (term, _) in enumerate(terms[:_WIDENED]) if _is_word(term)}
    pieces = {term: term.pieces if len(term.pieces) > 1 else [] for term in widened.values()}
    stemmers = list(_stemmers(languages))
    alike, pairs = _alike(widened.values(), stemmers, vocabulary), _pairs(groups)
    counts = vocabulary.among({*filter(None, pairs), *chain.from_iterable(alike.values())})
    joined = [[pair for pair in around if pair in counts] for around in zip(["", *pairs], [*pairs, ""], strict=True)]
    words = [Word(term.text) for term, _ in terms]
    suspects: dict[int, str] = {}
    for place, term in widened.items():
        forms, around = _most_frequent(term.words, alike[term], counts), joined[terms[place][1]]
        count, others = counts.get(term.words, 0), tuple(form for form in forms if form != term.words)
        words[place] = Word(term.text, count, others, (*around, *pieces[term]))
        # A misspelled word can have the stem of another by chance, but then it mostly is that stem: "metr" and "metres".
        is_typo = not forms or any(stemmer.stemWord(term.words) == term.words for stemmer in stemmers)
        is_rare = 0 < count <= _RARE and not others and term.words.isalpha()
        if is_rare or (not count and not around and is_typo):
            suspects[place] = term.words
    corrections = _corrections({word: counts.get(word, 0) for word in suspects.values()}, vocabulary)
    for place, typed in suspects.items():
        fitting = tuple(other for other in corrections[typed] if other not in words[place].forms)
        words[place] = replace(words[place], corrections=fitting)
    return words, joined, counts


def _pairs(groups: Sequence[AnyOf]) -> list[str]:
    """Return the words that neighbours form, such as "greenhouse" for "green house"; "" where one of them is no word."""
    words = [group[0].words if len(group) == 1 and _is_word(group[0]) else "" for group in groups]
    return [before + after if before and after else "" for before, after in pairwise(words)]


def _stemmers(languages: Collection[str]) -> Iterator[Stemmer.Stemmer]:
    for code in sorted(languages):
        # Snowball has no stemmer for every language, and a note may have an invalid language code.
        with suppress(KeyError, ValueError):
            yield Stemmer.Stemmer(code)


def _is_word(term: Term) -> bool:
    """Return whether a term is one word that may be widened: not a phrase, a prefix, or in a script without spaces."""
    if term.prefix or term.is_quoted or len(term.text) > _LONGEST or term.substring:
        return False
    return _WORD.fullmatch(term.words) is not None


def _alike(
    terms: Collection[Term], stemmers: Sequence[Stemmer.Stemmer], vocabulary: Vocabulary
) -> dict[Term, set[str]]:
    """Return for each word itself and the words of the library with the same stem."""
    alike = {term: {term.words} for term in terms}
    stems = {
        term: [{stemmer.stemWord(term.words), _plain(stemmer.stemWord(term.text.lower()))} for stemmer in stemmers]
        for term in alike
        if stemmers and len(term.words) >= _LEAST_FOR_FORMS and term.words.isalpha()
    }
    prefixes = {term: [*_beginnings(term.words, {*chain.from_iterable(sets)})] for term, sets in stems.items()}
    listed = vocabulary.beginning(set(chain.from_iterable(prefixes.values())))
    for term, sets in stems.items():
        words = [*chain.from_iterable(map(listed.__getitem__, prefixes[term]))]
        for stemmer, its_stems in zip(stemmers, sets, strict=True):
            alike[term] |= {
                word for word, stem in zip(words, stemmer.stemWords(words), strict=True) if stem in its_stems
            }
    return alike


def _beginnings(word: str, stems: Collection[str]) -> Iterator[str]:
    """Yield how words with one of these stems may begin."""
    length = max(_LEAST_FOR_FORMS, min(map(len, stems)) - 1)
    yield word[:length]
    if _ARABIC.match(word):
        yield from {before + stem[:length] for stem in stems for before in _BEFORE} - {word[:length]}


def _plain(stem: str) -> str:
    return stem if stem.isascii() and stem.isalnum() else plain_words(stem)


def _most_frequent(word: str, alike: Collection[str], counts: Mapping[str, int]) -> list[str]:
    """Return those words that occur, the most frequent first, but the word itself before all."""
    forms = [form for form in alike if form in counts]
    return sorted(forms, key=lambda form: (form != word, -counts[form], form))[:_MOST_FORMS]


def _corrections(suspects: Mapping[str, int], vocabulary: Vocabulary) -> dict[str, list[str]]:
    """Return for each word the nearest words of the library, the most frequent first.

    For a word that occurs a few times (`suspects`: the counts), these are only words that are much more frequent.
    """
    if not suspects:
        return {}
    edited = {
        word: {*_edited(word, vocabulary.letters(word[0]))} - {word}
        for word, count in suspects.items()
        if len(word) >= (_LEAST_FOR_RARE if count else _LEAST_FOR_ONE_EDIT)
    }
    counts = vocabulary.among({*chain.from_iterable(edited.values())})
    neighbours = {word: {other for other in others if other in counts} for word, others in edited.items()}
    unmatched = [
        word for word in neighbours if not suspects[word] and not neighbours[word] and len(word) >= _LEAST_FOR_TWO_EDITS
    ]
    if unmatched:
        listed = vocabulary.beginning({word[:_BEGINNING] for word in unmatched})
        neighbours |= {
            word: {other for other in listed[word[:_BEGINNING]] if is_near(word, other, 2)} for word in unmatched
        }
        counts |= vocabulary.among({*chain.from_iterable(neighbours[word] for word in unmatched)})
    return {
        word: sorted(
            (other for other in neighbours.get(word, ()) if counts.get(other, 0) >= max(1, _MUCH_MORE * count)),
            key=lambda other: (-counts[other], other),
        )[:_MOST_CORRECTIONS]
        for word, count in suspects.items()
    }


def _edited(word: str, letters: Collection[str]) -> Iterator[str]:
    """Yield every word at one edit: a letter removed, added, replaced, or swapped with the next."""
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
        for m, other_letter in enumerate(other, 1):
            best = min(above[m] + 1, row[m - 1] + 1, above[m - 1] + (letter != other_letter))
            if n > 1 and m > 1 and letter == other[m - 2] and word[n - 2] == other_letter:
                best = min(best, before[m - 2] + 1)
            row.append(best)
    return row[-1] <= most
