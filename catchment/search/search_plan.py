"""The plan of a search: the lanes that take part, the match of words, the results by meaning. Pure: reads no library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from catchment.ledger import AnyOf, Query, Ranked
from catchment.search.results import Lanes
from catchment.search.widened_query import WidenedQuery

NEAR_ALONE = 100
"""Results of a search by meaning alone."""
_NEAR = 20
"""Results that the meaning adds to a search by words."""
_NEAR_BELOW = 5
"""Maximum number of results below the floor. A search by meaning alone shows them for a question without nearer results."""
_QUESTION = 3
"""Words from which a query can be a question. A shorter query may be an unknown name, which needs no results."""
_EXACT = frozenset({"identifier", "prefix"})
"""Kinds of literal queries for which matches by words suffice."""


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """The steps of a search for one query.

    Attributes:
        widened: The query with the words that it is widened to.
        text: The query as a sentence; see `language.sentence`.
        lanes: The lanes that may take part.
        has_meaning: Meaning may take part: a model is loaded, and beside words it is not switched off.
    """

    widened: WidenedQuery
    text: str
    lanes: Lanes
    has_meaning: bool

    @property
    def is_list(self) -> bool:
        """Whether relevance does not determine the order: filters alone, or the newest first."""
        return not self.widened.typed.wanted or self.widened.typed.newest_first

    @property
    def uses_words(self) -> bool:
        """Whether documents are matched by words. True for every list, with any lanes."""
        return self.lanes is not Lanes.MEANING or self.is_list

    @property
    def uses_meaning(self) -> bool:
        """Whether documents are matched by meaning."""
        return self.has_meaning and self.lanes is not Lanes.WORDS and not self.is_list

    @property
    def needs_all_words(self) -> bool:
        """Whether documents with all the words are searched first."""
        return not self.widened.is_sentence or self.widened.typed.newest_first

    @property
    def allows_some_words(self) -> bool:
        """Whether some of the words are enough: for a sentence, or if no document has all of several."""
        if self.widened.typed.newest_first:
            return False
        return self.widened.is_sentence or len(self.widened.query.wanted) > 1

    @property
    def some_words(self) -> Query:
        """The query for documents with only some of its words."""
        return self.widened.query if self.widened.is_sentence else self.widened.without_common()

    @property
    def meant(self) -> Query:
        """The conditions on documents found by meaning: the filters, the quoted words and the excluded words."""
        return replace(self.widened.typed, wanted=quoted(self.widened.typed))

    @property
    def meaning_text(self) -> str:
        """The text for the search by meaning. The words of a sentence are not corrected."""
        words = () if self.widened.is_sentence else self.widened.words
        return " ".join([self.text, *(word.corrections[0] for word in words if word.is_misspelled)])

    def added(self, candidates: Sequence[Ranked], floor: float, total: int, *, is_partial: bool) -> Sequence[Ranked]:
        """Return the results that the meaning adds to those by words.

        Args:
            candidates: Results by meaning only, the nearest first.
            floor: The cosine below which they may be near by chance.
            total: Number of results by words.
            is_partial: Those have only some of the words.
        """
        if total and not is_partial and self.widened.literal in _EXACT:
            return ()
        near = [candidate for candidate in candidates if candidate.cosine is not None and candidate.cosine >= floor]
        if near or self.lanes is not Lanes.MEANING:
            return near[: NEAR_ALONE if self.lanes is Lanes.MEANING else _NEAR]
        is_question = not self.widened.literal and len(self.widened.typed.wanted) >= _QUESTION
        return candidates[:_NEAR_BELOW] if is_question else ()


def any_word(query: Query) -> Query:
    """Return the query that a document with any of the words matches, or with all quoted ones if there are any."""
    return replace(query, wanted=quoted(query) or (tuple(chain.from_iterable(query.wanted)),))


def quoted(query: Query) -> tuple[AnyOf, ...]:
    """Return the groups of words of which one is quoted."""
    return tuple(group for group in query.wanted if any(term.is_quoted for term in group))
