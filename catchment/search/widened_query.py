"""The kinds of queries: literal words, some words, or a sentence with words that are not about its subject."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

from catchment.ledger import AnyOf, Query, Term, Vocabulary, pieces_of
from catchment.search.results import Word
from catchment.search.stop_words import PARTICLES, spoken
from catchment.search.widen import CORRECTION_WEIGHT, widen

_SENTENCE = 4
"""Words from which a query is a sentence, even without a stop word."""
_DEFAULT = "en"
_COMMON, _COMMON_AT_LEAST = 0.25, 20
"""Share and number of passages with a word from which it does not count if a document need not have all words."""
_COMMON_GRAMMAR = 0.02
"""The same share for the only stop word of a query: if it is rare, it may be a word of another language, or a name."""
_CORRECTED = 0.6
"""How much a correction counts, compared with the word itself."""
_LONGEST_RUN = 6
"""Characters without a space from which they are a sentence."""
_IDENTIFIER = re.compile(r"#\d+|.*[@_/\\].*|.*\w[.:]+\w.*|(?=.*\d)[\w#-]{3,}")
_NUMBER = re.compile(r"\d")
_CITED = 0.4
"""Share of words with a number from which a query cites a place in a text, such as "BGBl I: 1963, 2"."""
_EDGES = ".,;:!?()[]{}<>'…"


@dataclass(frozen=True)
class WidenedQuery:
    """A query with the words that it is widened to.

    Attributes:
        typed: The query without its widening.
        query: The widened query; of a sentence, only the words of its subject.
        words: Each word with its related words in the library.
        literal: Why its words are meant as they are, such as "phrase"; None for words of a language.
        is_sentence: A document need not have all its words.
        counts: In how many passages and names each word and form occurs.
        passages: About how many there are.
    """

    typed: Query
    query: Query
    words: tuple[Word, ...]
    literal: str | None
    is_sentence: bool
    counts: Mapping[str, int] = field(repr=False)
    passages: int

    def weights(self, groups: Iterable[AnyOf]) -> list[float]:
        """Return the weight of each group of words: the rarer, the higher."""
        numbers = (max(self.counts.get(term.words, 0) for term in group) for group in groups)
        return [math.log(1 + (1 + self.passages) / (1 + number)) for number in numbers]

    def has(self, term: Term) -> bool:
        """Return whether the library has a term of the query: not of a word of which only corrections occur."""
        return term.text not in self._misspelled

    @cached_property
    def _misspelled(self) -> frozenset[str]:
        return frozenset(word.text for word in self.words if word.is_misspelled)

    @cached_property
    def _corrections(self) -> frozenset[str]:
        return frozenset(chain.from_iterable(word.corrections for word in self.words))

    def coverage(self, groups: Sequence[AnyOf], weights: Sequence[float], occurs: Callable[[Term], bool]) -> float:
        """Return the share of the groups of words that occur, by their weights. Corrections count less."""
        total = 0.0
        for group, weight in zip(groups, weights, strict=True):
            worth = (_CORRECTED if term.text in self._corrections else 1.0 for term in group if occurs(term))
            total += weight * max(worth, default=0.0)
        return total / (sum(weights) or 1.0)

    def without_corrections(self) -> Query:
        """Return the query that only documents with all words as typed, or in another form, match."""
        groups = (tuple(term for term in group if term.weight != CORRECTION_WEIGHT) for group in self.query.wanted)
        return replace(self.query, wanted=tuple(groups))

    def without_common(self) -> Query:
        """Return the query without words of every other text, such as "the"; unchanged if there are no others."""
        return _without_common(self.query, self.counts, self.passages)


def understand(typed: Query, vocabulary: Vocabulary | None) -> WidenedQuery:
    """Widen a query and determine its kind. Without a vocabulary, its words stay as they are."""
    terms = [term for group in typed.wanted for term in group]
    # A list of a tag or a folder needs none. In a large library, they take longer than the list.
    languages = {_DEFAULT, *(vocabulary.languages() if vocabulary else ())} if terms else set[str]()
    grammar = spoken([term.words for term in terms], languages)
    literal = _literal(terms)
    is_sentence = literal not in {"phrase", "prefix"} and _is_sentence(typed, grammar)
    counts, passages, subject = dict[str, int](), vocabulary.passages() if vocabulary else 0, typed
    if is_sentence:
        literal = None
        pieces = replace(typed, wanted=tuple(chain.from_iterable(map(_pieces, typed.wanted))))
        if vocabulary:
            counts = vocabulary.among({term.words for group in pieces.wanted for term in group})
        subject = _without_common(pieces, counts, passages, set().union(*grammar.values()))
    if vocabulary is None:
        words = tuple(Word(term.text) for group in subject.wanted for term in group)
        return WidenedQuery(typed, subject, words, literal, is_sentence, counts, passages)
    query, widened, others = widen(subject, vocabulary, grammar or languages)
    return WidenedQuery(typed, query, tuple(widened), literal, is_sentence, {**counts, **others}, passages)


def _without_common(query: Query, counts: Mapping[str, int], passages: int, grammar: Collection[str] = ()) -> Query:
    def number(group: AnyOf) -> int:
        return 0 if group[0].is_quoted else counts.get(group[0].words, 0)

    def is_grammar(group: AnyOf) -> bool:
        is_rare = len(grammar) == 1 and 0 < number(group) < passages * _COMMON_GRAMMAR
        return group[0].words in grammar and not is_rare

    content = [group for group in query.wanted if not is_grammar(group)]
    rare = [group for group in content if number(group) <= max(_COMMON_AT_LEAST, passages * _COMMON)]
    # Words that occur nowhere are no reason to leave out words that occur.
    groups = rare if any(map(number, rare)) else content
    return replace(query, wanted=tuple(groups) or query.wanted)


def _is_sentence(query: Query, grammar: Mapping[str, Collection[str]]) -> bool:
    if any(len(group) > 1 for group in query.wanted):
        return False
    numbers = [group for group in query.wanted if _NUMBER.search(group[0].text) and group[0].substring is None]
    if len(numbers) >= _CITED * len(query.wanted):
        return False
    is_run = any(len(group[0].substring or "") >= _LONGEST_RUN for group in query.wanted)
    return is_run or len(query.wanted) >= _SENTENCE or (len(query.wanted) > 1 and bool(grammar))


def _pieces(group: AnyOf) -> Iterator[AnyOf]:
    """Yield the words of a sentence without spaces."""
    if group[0].substring is None or len(group[0].text) < _LONGEST_RUN:
        yield group
        return
    pieces = [piece for piece in PARTICLES.split(group[0].text) if len(piece.strip(_EDGES + "。？！、，")) > 1]
    yield from ((Term(piece, prefix=False),) for piece in dict.fromkeys(pieces or [group[0].text]))


def _literal(terms: Collection[Term]) -> str | None:
    if any(term.is_quoted for term in terms):
        return "phrase"
    if any(term.prefix for term in terms):
        return "prefix"
    return "identifier" if any(_is_exact(term.text) for term in terms) else None


def _is_exact(text: str) -> bool:
    """Return whether a word is an identifier, a path, an address or a number, rather than a word of a language."""
    word = text.strip(_EDGES)
    return len(pieces_of(word)) > 1 or _IDENTIFIER.fullmatch(word) is not None
