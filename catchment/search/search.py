"""Search the library as a person asks: parse, widen, match by words, match by meaning, fuse, present.

By words, a document has to have every word in some form; failing that, and for a sentence, as many of the rarer ones as
possible. By meaning, the nearest passages.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

from catchment.errors import BadInput, MeaningOff
from catchment.ledger import (
    OFF,
    AnyOf,
    FilterName,
    Ledger,
    Query,
    Ranked,
    Ranking,
    Term,
    plain_words,
    storable_text,
    time_limit,
)
from catchment.search.asked import Asked, understand
from catchment.search.fuse import DEPTH, fuse, key
from catchment.search.language import nearest_name, parse, sentence, without_filters, written
from catchment.search.present import present
from catchment.search.results import Lanes, Results, Understood
from catchment.search.task_search import find_tasks, wants_tasks

if TYPE_CHECKING:
    from catchment.search.meaning.index import MeaningIndex

_NEAR = 20
"""Results that the meaning adds to a search by words."""
_NEAR_ALONE = 100
"""Results of a search by meaning alone."""
_NEAR_BELOW = 5
"""Results below the floor for a question, if nothing else is found."""
_QUESTION = 3
"""Words from which a query can be a question. A shorter one may be a name, and nothing is the right answer."""
_SOME = 100
"""Results with some of the words."""
_STEP = 150
"""Half of the characters in which words are near each other, about as many as have a vector."""
_ASKED = 400
"""Results by meaning that are read to find those that pass the filters."""
_ALL = 2**31
SECONDS = 10.0
"""Time limit of a search, with all its attempts."""
_LONGEST = 2_000
"""Characters of a query whose meaning is searched."""


def search(
    ledger: Ledger,
    text: str,
    now: datetime,
    *,
    meaning: MeaningIndex | None = None,
    lanes: Lanes = Lanes.BOTH,
    limit: int = 20,
    offset: int = 0,
    by_conversation: bool = False,
) -> Results:
    """Return the documents that match a query in the language of `language.parse`, best first.

    Args:
        now: Aware, in the time zone of the person.
        meaning: Searches also by meaning; without it, only by words.
        lanes: Only by words, or only by meaning. Raises MeaningOff if only by meaning is impossible.
        by_conversation: Return only the best message of each conversation.

    Raises BadInput for a query that cannot be understood, TookTooLong after `SECONDS`.
    """
    with time_limit(SECONDS):
        text = storable_text(text)
        sources = ledger.sources.all()
        kinds = {source.name: source.kind for source in sources}
        typed, unknown = parse(text, kinds, now), list[str]()
        for one in typed.filters:
            if one.name not in (FilterName.TAG, FilterName.IN) or one.is_negated:
                continue
            if (others := ledger.library.other_names(one)) is not None:
                unknown.append(f"{one.name}:{one.values[0]}")
                if near := nearest_name(one, others, kinds):
                    raise BadInput(f"{unknown[-1]} is not known; did you mean {near}?")
        excluded = tuple(term.text for term in typed.unwanted)
        is_listing = (typed.filters or typed.newest_first) and (excluded or not without_filters(text).strip())
        if not typed.wanted and not is_listing:
            return Results([], 0, Understood((), excluded, ()))
        understood = Understood((), excluded, written(text), unknown=tuple(unknown))
        found = _found(ledger, typed, understood, sentence(text), meaning, lanes, limit, offset, by_conversation)
        if meaning is None or found.understood.meaning is None:
            return found
        visible = {source.name for source in sources}
        return replace(found, incomplete=tuple(name for name in meaning.lacking() if name in visible))


def _found(
    ledger: Ledger,
    typed: Query,
    understood: Understood,
    text: str,
    meaning: MeaningIndex | None,
    lanes: Lanes,
    limit: int,
    offset: int,
    by_conversation: bool,
) -> Results:
    asked = understand(typed, ledger.vocabulary)
    understood = replace(understood, words=asked.words, is_sentence=asked.is_sentence)
    if wants_tasks(typed):
        tasks = find_tasks(ledger, asked)
        return Results(tasks[offset : offset + limit], len(tasks), understood)
    if lanes is Lanes.MEANING and meaning is None:
        raise MeaningOff("search by meaning: no model is loaded")
    is_wanted = lanes is Lanes.MEANING or (lanes is Lanes.BOTH and ledger.embeddings.setting != OFF)
    by_meaning = is_wanted and meaning is not None and bool(typed.wanted) and not typed.newest_first

    by_words, is_partial = Ranking([], 0), False
    if lanes is not Lanes.MEANING or not typed.wanted or typed.newest_first:
        by_words, is_partial = _by_words(ledger, asked, max(DEPTH, offset + limit), by_conversation)

    def page(ranked: Sequence[Ranked], total: int, off: str | None = None) -> Results:
        hits = present(ledger, ranked[offset : offset + limit], asked.query, asked.weights(asked.query.wanted))
        return Results(hits, total, understood, is_partial, off, by_words.is_capped)

    if not by_meaning or meaning is None:
        return page(by_words.ranked, by_words.total)
    if not asked.is_sentence:
        text = " ".join([text, *(word.corrections[0] for word in asked.words if word.is_misspelled)])
    try:
        found = _by_meaning(ledger, meaning, asked, text[:_LONGEST], by_words.ranked[:DEPTH])
        chance = meaning.chance
    except MeaningOff as off:
        if lanes is Lanes.MEANING:
            raise
        return page(by_words.ranked, by_words.total, str(off))
    known = {one.content_id for one in by_words.ranked[:DEPTH]}
    others = [one for one in found if one.content_id not in known]
    near = [one for one in others if one.cosine is not None and one.cosine >= chance.floor]
    near = near[: _NEAR if lanes is Lanes.BOTH else _NEAR_ALONE]
    if by_words.total and not is_partial and asked.literal in {"identifier", "prefix"}:
        near = []
    elif not near and not by_words.total and not asked.literal and len(typed.wanted) >= _QUESTION:
        near = others[:_NEAR_BELOW]
    total = by_words.total + _number_without_words(ledger, asked.query, by_words, near, by_conversation)
    with_words = [one for one in found if one.content_id in known]
    ranked = fuse(by_words.ranked, [*with_words, *near], chance.scaled, by_conversation=by_conversation)
    understood = replace(understood, literal=asked.literal, meaning=text, floor=chance.floor)
    return page(ranked, total)


def search_without_meaning(
    ledger: Ledger, text: str, now: datetime, reason: str, *, limit: int, offset: int, by_conversation: bool = False
) -> Results:
    """Search by words, because the meaning cannot be searched. The results have the reason if it would have been."""
    found = search(ledger, text, now, lanes=Lanes.WORDS, limit=limit, offset=offset, by_conversation=by_conversation)
    is_on = ledger.embeddings.setting != OFF and ledger.embeddings.searched() is not None
    return replace(found, meaning_off=reason) if is_on and found.understood.words else found


def _by_words(ledger: Ledger, asked: Asked, limit: int, by_conversation: bool) -> tuple[Ranking, bool]:
    """Return the results with all words; or with some, for a sentence, and if there are none. Scores are at most 1."""
    query = asked.query
    if not asked.is_sentence or query.newest_first:
        ranking = ledger.library.rank(query, limit=limit, by_conversation=by_conversation)
        if ranking.total or len(query.wanted) < 2 or query.newest_first:
            weights = asked.weights(query.wanted)
            return _scaled(ranking, asked.coverage(query.wanted, weights, asked.has)), False
        query = asked.without_common()
    wanted = _quoted(query) or (tuple(chain.from_iterable(query.wanted)),)
    found = ledger.library.rank(replace(query, wanted=wanted), limit=_SOME, by_conversation=by_conversation)
    return _covered(ledger, asked, query, _scaled(found)), True


def _quoted(query: Query) -> tuple[AnyOf, ...]:
    return tuple(group for group in query.wanted if any(term.is_quoted for term in group))


def _scaled(ranking: Ranking, coverage: float = 1.0) -> Ranking:
    """Return for each score the root of its share of the best one, times the square of the share of words that occur."""
    best = max((one.score for one in ranking.ranked), default=1.0) or 1.0
    # A list without words has times as scores, which are negative before 1970.
    shares = (max(one.score / best, 0.0) for one in ranking.ranked)
    scores = (math.sqrt(share) * coverage**2 for share in shares)
    return ranking._replace(
        ranked=[replace(one, score=score) for one, score in zip(ranking.ranked, scores, strict=True)]
    )


def _covered(ledger: Ledger, asked: Asked, query: Query, ranking: Ranking) -> Ranking:
    """Multiply each score by the square of the share of the query's words near each other in the passage, or in the names."""
    texts, weights = ledger.library.words(ranking.ranked), asked.weights(query.wanted)
    sought = frozenset(map(_written, chain.from_iterable(query.wanted)))

    @cache
    def coverage(found: frozenset[str]) -> float:
        return asked.coverage(query.wanted, weights, lambda term: _written(term) in found)

    def best(one: Ranked) -> float:
        return max(map(coverage, _near_each_other(sought, *texts.get(one.content_id, ("", "")))))

    scored = [replace(one, score=one.score * best(one) ** 2) for one in ranking.ranked]
    scored.sort(key=lambda one: (-one.score, one.content_id))
    placed = [replace(one, lexical_rank=rank) for rank, one in enumerate(scored, 1)]
    return ranking._replace(ranked=placed, total=len(placed))


def _near_each_other(sought: frozenset[str], names: str, passage: str) -> Iterator[frozenset[str]]:
    """Yield what occurs in each part of a passage, and what occurs in the names with each."""
    named = frozenset(text for text in sought if text in names)
    yield named
    steps: defaultdict[int, set[str]] = defaultdict(set)
    for text in sought - named:
        place = passage.find(text)
        while place >= 0:
            steps[place // _STEP].add(text)
            place = passage.find(text, place + 1)
    yield from (named | found | steps.get(step + 1, frozenset()) for step, found in steps.items())


def _written(term: Term) -> str:
    """Return a term as it is in folded words between spaces."""
    if term.substring is not None:
        return plain_words(term.substring)
    return f" {term.words}{'' if term.prefix else ' '}"


def _by_meaning(
    ledger: Ledger, meaning: MeaningIndex, asked: Asked, text: str, by_words: Sequence[Ranked]
) -> list[Ranked]:
    """Return the nearest contents that pass the filters, have no excluded word, all quoted ones, and are not deleted.

    Nearest first, with all results by words that have embeddings.
    """
    typed = asked.typed
    quoted = _quoted(typed)
    passes = replace(typed, wanted=quoted)
    is_narrowed = bool(passes.filters or passes.unwanted or quoted)
    limit = _ASKED if is_narrowed else _NEAR_ALONE
    nearest = meaning.nearest(text, limit, also=[one.content_id for one in by_words])
    passing = ledger.library.rank(passes, limit=_ALL, within=[one.content_id for one in nearest])
    if is_narrowed and passing.total < _NEAR_ALONE + len(by_words) and len(nearest) >= _ASKED:
        passing = ledger.library.rank(passes, limit=_ALL)
        nearest = meaning.nearest(text, _ASKED, [one.content_id for one in passing.ranked])
    conversations = {one.content_id: one.conversation for one in passing.ranked}
    eligible = [one for one in nearest if one.content_id in conversations]
    return [
        Ranked(
            one.content_id,
            one.chunk_id,
            0.0,
            conversations[one.content_id],
            semantic_rank=rank,
            cosine=one.cosine,
            part=one.part,
        )
        for rank, one in enumerate(eligible, 1)
    ]


def _number_without_words(
    ledger: Ledger, query: Query, by_words: Ranking, near: Sequence[Ranked], by_conversation: bool
) -> int:
    """Return how many results by meaning are not among the results by words."""
    ranked = {key(one, by_conversation) for one in by_words.ranked}
    unseen = {key(one, by_conversation): one for one in near if key(one, by_conversation) not in ranked}
    if len(by_words.ranked) == by_words.total or not unseen:
        return len(unseen)
    contents = [one.content_id for one in unseen.values()]
    if by_conversation:
        contents += ledger.library.in_conversations(
            [one.conversation for one in unseen.values() if one.conversation is not None]
        )
    return len(unseen) - ledger.library.rank(query, limit=1, by_conversation=by_conversation, within=contents).total
