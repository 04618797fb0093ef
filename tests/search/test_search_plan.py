"""The plan of a search is computed from the query alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from catchment.ledger import Ranked
from catchment.search.language import parse, sentence
from catchment.search.results import Lanes, Word
from catchment.search.search_plan import NEAR_ALONE, SearchPlan, any_word
from catchment.search.widened_query import WidenedQuery

NOW = datetime(2026, 3, 11, tzinfo=UTC)
FLOOR = 0.2


def plan(
    text: str,
    lanes: Lanes = Lanes.BOTH,
    *,
    literal: str | None = None,
    is_sentence: bool = False,
    has_meaning: bool = True,
    words: Sequence[Word] = (),
) -> SearchPlan:
    typed = parse(text, {"notes": "obsidian"}, NOW)
    widened = WidenedQuery(typed, typed, tuple(words), literal, is_sentence, {}, 0)
    return SearchPlan(widened, sentence(text), lanes, has_meaning)


def candidates(*cosines: float) -> list[Ranked]:
    return [Ranked(number, number, 0.0, cosine=cosine) for number, cosine in enumerate(cosines)]


@pytest.mark.parametrize(
    ("text", "lanes", "has_meaning", "uses_words", "uses_meaning"),
    [
        ("rain", Lanes.BOTH, True, True, True),
        ("rain", Lanes.BOTH, False, True, False),
        ("rain", Lanes.WORDS, True, True, False),
        ("rain", Lanes.MEANING, True, False, True),
        ("tag:rain", Lanes.BOTH, True, True, False),
        ("tag:rain -snow", Lanes.MEANING, True, True, False),
        ("rain sort:date", Lanes.MEANING, True, True, False),
    ],
)
def test_lanes_follow_the_query_and_the_choice(
    text: str, lanes: Lanes, has_meaning: bool, uses_words: bool, uses_meaning: bool
) -> None:
    planned = plan(text, lanes, has_meaning=has_meaning)
    assert (planned.uses_words, planned.uses_meaning) == (uses_words, uses_meaning)


@pytest.mark.parametrize(
    ("text", "is_sentence", "needs_all", "allows_some"),
    [
        ("rain", False, True, False),
        ("rain snow", False, True, True),
        ("where is the rain", True, False, True),
        ("rain snow sort:date", False, True, False),
        ("where is the rain sort:date", True, True, False),
    ],
)
def test_some_words_are_enough_for_a_sentence_or_several_words(
    text: str, is_sentence: bool, needs_all: bool, allows_some: bool
) -> None:
    planned = plan(text, is_sentence=is_sentence)
    assert (planned.needs_all_words, planned.allows_some_words) == (needs_all, allows_some)


def test_any_word_matches_unless_some_are_quoted() -> None:
    texts = [
        [[term.text for term in group] for group in any_word(parse(text, {}, NOW)).wanted]
        for text in ("rain OR hail snow", '"heavy rain" snow OR "ice"')
    ]
    assert texts == [[["rain", "hail", "snow"]], [["heavy rain"], ["snow", "ice"]]]


def test_corrections_are_meant_beside_words_and_not_in_a_sentence() -> None:
    words = (Word("rian", corrections=("rain", "ruin")), Word("snow", 3, corrections=("show",)))
    assert plan("rian snow lang:en", words=words).meaning_text == "rian snow rain"
    assert plan("where is rian", words=words, is_sentence=True).meaning_text == "where is rian"


def test_meaning_keeps_filters_exclusions_and_quoted_words() -> None:
    meant = plan('rain "heavy snow" -ice tag:winter').meant
    assert [[term.text for term in group] for group in meant.wanted] == [["heavy snow"]]
    assert [term.text for term in meant.unwanted] == ["ice"]
    assert [condition.values for condition in meant.filters] == [("winter",)]


@pytest.mark.parametrize(
    ("text", "literal", "total", "is_partial", "number"),
    [
        ("rain", None, 1, False, 2),
        ("rain", None, 0, False, 2),
        ("HttpClient", "identifier", 1, False, 0),
        ("rai*", "prefix", 1, False, 0),
        ("HttpClient rain", "identifier", 1, True, 2),
        ("HttpClient", "identifier", 0, False, 2),
        ('"the rain"', "phrase", 1, False, 2),
    ],
)
def test_meaning_adds_what_is_near_unless_words_found_the_exact_text(
    text: str, literal: str | None, total: int, is_partial: bool, number: int
) -> None:
    added = plan(text, literal=literal).added(candidates(0.9, FLOOR, 0.1), FLOOR, total, is_partial=is_partial)
    assert [candidate.cosine for candidate in added] == [0.9, FLOOR][:number]


def test_meaning_alone_adds_more_than_beside_words() -> None:
    near = candidates(*[0.9] * 150)
    numbers = [
        len(plan("rain", lanes).added(near, FLOOR, 0, is_partial=False)) for lanes in (Lanes.BOTH, Lanes.MEANING)
    ]
    assert numbers == [20, NEAR_ALONE]


@pytest.mark.parametrize(
    ("text", "literal", "lanes", "number"),
    [
        ("where is rain", None, Lanes.MEANING, 5),
        ("where is rain", None, Lanes.BOTH, 0),
        ("two words", None, Lanes.MEANING, 0),
        ('"rain" or snow', "phrase", Lanes.MEANING, 0),
    ],
)
def test_question_by_meaning_alone_gets_the_nearest(text: str, literal: str | None, lanes: Lanes, number: int) -> None:
    distant = candidates(*[0.1] * 9)
    assert list(plan(text, lanes, literal=literal).added(distant, FLOOR, 0, is_partial=False)) == distant[:number]
