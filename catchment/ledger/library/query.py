"""The parts of a query: terms, alternatives and filters. `catchment.search.language` reads them from a text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import chain
from typing import Any

from catchment.ledger.db.folding import fold, plain_words
from catchment.ledger.library.word_parts import NO_SPACES, pieces_of

_SHOWN = 100
"""Maximum number of query terms marked in a passage."""

_NUMBERED = re.compile(r"([^\W\d_]+)(\d+)")


@dataclass(frozen=True)
class Term:
    """A word or phrase of a query. `weight` is the relative score of a match."""

    text: str
    prefix: bool
    weight: float = 1.0
    is_quoted: bool = False

    @cached_property
    def words(self) -> str:
        """Its `plain_words`; empty if it is only punctuation."""
        return plain_words(self.text)

    @cached_property
    def pieces(self) -> list[str]:
        """The parts of an identifier, of a word such as GPT4 its letters and its number, or the word itself; in lower case."""
        pieces = pieces_of(self.text)
        numbered = _NUMBERED.fullmatch(self.words) if len(pieces) == 1 else None
        return list(numbered.groups()) if numbered else pieces

    @cached_property
    def substring(self) -> str | None:
        """The folded text for a substring search if its script has no spaces between words, else None."""
        folded = fold(self.text).strip()
        return folded if NO_SPACES.search(folded) else None


AnyOf = tuple[Term, ...]
"""Alternative terms: a word with its other forms, or terms joined by `OR`."""


class FilterName(StrEnum):
    """Property compared by a filter."""

    SOURCE = "source"
    KIND = "kind"
    TYPE = "type"
    TAG = "tag"
    TITLE = "title"
    PATH = "path"
    IN = "in"
    FROM = "from"
    TO = "to"
    LANG = "lang"
    HAS = "has"
    DATE = "date"
    ADDED = "added"
    IS = "is"
    LABEL = "label"


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition, met if one of `values` matches, or if none does with `is_negated`.

    For `date` and `added`, the values are the start (inclusive) and the end (exclusive) in microseconds since 1970. For `type`,
    they are LIKE patterns of media types, or kinds of metadata; for `is`, states of issues; for `has`, keys of `query_sql.HAS`.
    Other values are compared as text without regard to case.
    """

    name: FilterName
    values: tuple[Any, ...]
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """Matches documents with a term of each group in `wanted` and none in `unwanted` that pass all filters.

    `newest_first`: their order.
    """

    wanted: tuple[AnyOf, ...]
    unwanted: tuple[Term, ...]
    filters: tuple[Filter, ...] = ()
    newest_first: bool = False

    @property
    def shown(self) -> list[Term]:
        """The terms to mark in a passage."""
        return list(chain.from_iterable(self.wanted))[:_SHOWN]
