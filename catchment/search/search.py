"""Search the library: parse the query, widen it, match by words, match by meaning, fuse both rankings, present the hits.

By words, a document has to have every word in some form; failing that, and for a sentence, as many of the rarer ones as
possible. By meaning, the nearest passages.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

from catchment.errors import BadInput, MeaningOff, TookTooLong
from catchment.ledger import (
    OFF,
    FilterName,
    Ledger,
    Query,
    Ranked,
    Ranking,
    Term,
    plain_words,
    storable_text,
    time_left,
    time_limit,
)
from catchment.search.fuse import DEPTH, fuse, key
from catchment.search.language import nearest_name, parse, sentence, without_filters, written
from catchment.search.present import present
from catchment.search.results import MEANING_LATE, Lanes, Results, Understood
from catchment.search.search_plan import NEAR_ALONE, SearchPlan, any_word
from catchment.search.task_search import find_tasks, wants_tasks
from catchment.search.widened_query import WidenedQuery, understand

if TYPE_CHECKING:
    from catchment.search.meaning.index import MeaningIndex
    from catchment.search.meaning.vectors import Chance, Near

_SOME = 100
"""Results with some of the words."""
_STEP = 150
"""Half of the characters in which words are near each other, about as many as have a vector."""
_NEAREST = 400
"""Number of results by meaning to which the filters are applied."""
_SHORT = 40
"""Bytes of a passage below which it is short, as without text. Of 549 texts above the floor that answered none of 48 queries,
489 were shorter, and of the answers to 106 none."""
_ALL = 2**31
SECONDS = 10.0
_WIDENING, _LANE = 0.4, 0.75
"""Shares of the time that is left: of the widening of the query, and of each lane, so that its results can be shown."""
_WORDS, _FORMS = "search by words", "word forms and corrections"
_LONGEST = 2_000
"""Maximum characters of a query for the search by meaning."""


def search(
    ledger: Ledger,
    text: str,
    now: datetime,
    *,
    meaning: MeaningIndex | None = None,
    meaning_off: str | None = None,
    lanes: Lanes = Lanes.BOTH,
    limit: int = 20,
    offset: int = 0,
    by_conversation: bool = False,
    seconds: float = SECONDS,
) -> Results:
    """Return the documents that match a query in the language of `language.parse`, best first.

    Args:
        now: Aware, in the time zone of the person.
        meaning: Searches also by meaning; without it, only by words.
        meaning_off: Why there is none. The results have it if the meaning would be searched.
        lanes: Only by words, or only by meaning. Raises MeaningOff if only by meaning is impossible.
        by_conversation: Return only the best message of each conversation.
        seconds: Time limit of the search. The results lack what takes longer, and say so.

    Raises BadInput for a query that cannot be understood, TookTooLong if nothing is found in time.
    """
    with time_limit(seconds):
        text = storable_text(text)
        sources = ledger.sources.all()
        kinds = {source.name: source.kind for source in sources}
        typed = parse(text, kinds, now)
        unknown, late = tuple[str, ...](), tuple[str, ...]()
        with suppress(TookTooLong), time_limit(_WIDENING * time_left()):
            unknown = tuple(_unknown(ledger, typed, kinds))
        excluded = tuple(term.text for term in typed.unwanted)
        is_listing = (typed.filters or typed.newest_first) and (excluded or not without_filters(text).strip())
        if not typed.wanted and not is_listing:
            return Results([], 0, Understood((), excluded, ()))
        try:
            with time_limit(_WIDENING * time_left()):
                widened = understand(typed, ledger.vocabulary)
        except TookTooLong:
            widened, late = understand(typed, None), (_FORMS,)
        understood = Understood(
            widened.words, excluded, written(text), is_sentence=widened.is_sentence, unknown=unknown
        )
        if wants_tasks(typed):
            tasks = find_tasks(ledger, widened)
            return Results(tasks[offset : offset + limit], len(tasks), understood)
        if lanes is Lanes.MEANING and meaning is None:
            raise MeaningOff("search by meaning: no model is loaded")
        is_on = meaning is not None and (lanes is not Lanes.BOTH or ledger.embeddings.setting != OFF)
        plan = SearchPlan(widened, sentence(text), lanes, has_meaning=is_on)
        results = _Run(ledger, plan, understood, limit, offset, by_conversation).results(meaning)
        results = replace(results, late=late + results.late)
        if meaning is not None and results.understood.meaning is not None:
            with suppress(TookTooLong):
                incomplete = tuple(name for name in meaning.lacking() if name in kinds)
                results = replace(results, incomplete=incomplete)
        if meaning_off and understood.words and ledger.embeddings.setting != OFF and ledger.embeddings.searched():
            results = replace(results, meaning_off=meaning_off)
        return results


def _unknown(ledger: Ledger, typed: Query, kinds: Mapping[str, str]) -> Iterator[str]:
    """Yield the filters with a tag or a folder that no document has. Raises BadInput if a similar one exists."""
    for condition in typed.filters:
        if condition.name not in (FilterName.TAG, FilterName.IN) or condition.is_negated:
            continue
        if (others := ledger.library.other_names(condition)) is not None:
            unknown = f"{condition.name}:{condition.values[0]}"
            if near := nearest_name(condition, others, kinds):
                raise BadInput(f"{unknown} is not known; did you mean {near}?")
            yield unknown


@dataclass(frozen=True, slots=True)
class _Run:
    """The run of a plan over a library, for one page of its results."""

    ledger: Ledger
    plan: SearchPlan
    understood: Understood
    limit: int
    offset: int
    by_conversation: bool

    def results(self, meaning: MeaningIndex | None) -> Results:
        """Return the page, of the lanes that end in time.

        Raises MeaningOff if only the meaning may be searched, and cannot be, TookTooLong if no lane ends in time.
        """
        plan, ranking, is_partial, late = self.plan, Ranking([], 0), False, None
        understood, meaning_off = self.understood, None
        if plan.uses_words:
            try:
                with time_limit(_LANE * time_left()):
                    ranking, is_partial = self._by_words()
            except TookTooLong as error:
                late = error
        if meaning is not None and plan.uses_meaning:
            try:
                with time_limit(_LANE * time_left()):
                    ranking, understood = self._joined(meaning, ranking, is_partial=is_partial)
            except (MeaningOff, TookTooLong) as off:
                if plan.lanes is Lanes.MEANING:
                    raise
                meaning_off = str(off) if isinstance(off, MeaningOff) else MEANING_LATE
        if late and understood.meaning is None:
            raise late
        with suppress(TookTooLong):
            ranking = self._typed_first(ranking)
        results = self._page(ranking, understood, is_partial, meaning_off)
        return replace(results, late=(_WORDS,)) if late else results

    def _joined(self, meaning: MeaningIndex, by_words: Ranking, *, is_partial: bool) -> tuple[Ranking, Understood]:
        """Return the results by words together with those by meaning."""
        plan, by_meaning, chance = self.plan, self._by_meaning(meaning, by_words.ranked[:DEPTH]), meaning.chance
        known = {ranked.content_id for ranked in by_words.ranked[:DEPTH]}
        with_words = [near for near in by_meaning if near.content_id in known]
        others = [near for near in by_meaning if near.content_id not in known]
        if plan.lanes is not Lanes.MEANING:
            others = self._near(others, chance)
        added = plan.added(others, chance.floor, by_words.total, is_partial=is_partial)
        total = by_words.total + self._number_without_words(by_words, added)
        ranked = fuse(by_words.ranked, [*with_words, *added], chance.scaled, by_conversation=self.by_conversation)
        literal, text = plan.widened.literal, plan.meaning_text
        understood = replace(self.understood, literal=literal, meaning=text, floor=chance.floor)
        return by_words._replace(ranked=ranked, total=total), understood

    def _typed_first(self, ranking: Ranking) -> Ranking:
        """Move results with all words as typed before the first one that has a word only corrected, whatever their meaning."""
        is_rare = any(word.corrections and not word.is_misspelled for word in self.understood.words)
        if not is_rare or self.plan.is_list or self.plan.widened.is_sentence:
            return ranking
        query, by_conversation, ranked = self.plan.widened.without_corrections(), self.by_conversation, ranking.ranked
        typed = self.ledger.library.rank(query, limit=DEPTH, by_conversation=by_conversation).ranked
        known = {key(result, by_conversation) for result in typed}
        keys = [key(result, by_conversation) for result in ranked]
        first = next(
            (n for n, result in enumerate(ranked) if result.lexical_rank and keys[n] not in known), len(ranked)
        )
        moved = [n for n in range(first, len(ranked)) if keys[n] in known]
        lifted = [replace(ranked[n], score=max(ranked[n].score, ranked[first].score)) for n in moved]
        rest = [ranked[n] for n in range(first, len(ranked)) if n not in moved]
        return ranking._replace(ranked=[*ranked[:first], *lifted, *rest])

    def _page(
        self, ranking: Ranking, understood: Understood, is_partial: bool, meaning_off: str | None = None
    ) -> Results:
        query, weights = self.plan.widened.query, self.plan.widened.weights
        shown = ranking.ranked[self.offset : self.offset + self.limit]
        hits = present(self.ledger, shown, query, weights(query.wanted))
        return Results(hits, ranking.total, understood, is_partial, meaning_off, ranking.is_capped)

    def _by_words(self) -> tuple[Ranking, bool]:
        """Return the results with all words; or with some, if the plan allows it. Scores are at most 1."""
        plan, widened, rank = self.plan, self.plan.widened, self.ledger.library.rank
        if plan.needs_all_words:
            limit = max(DEPTH, self.offset + self.limit)
            ranking = rank(widened.query, limit=limit, by_conversation=self.by_conversation)
            if ranking.total or not plan.allows_some_words:
                groups = widened.query.wanted
                return _scaled(ranking, widened.coverage(groups, widened.weights(groups), widened.has)), False
        query = plan.some_words
        ranking = rank(any_word(query), limit=_SOME, by_conversation=self.by_conversation)
        return _covered(self.ledger, widened, query, _scaled(ranking)), True

    def _by_meaning(self, meaning: MeaningIndex, by_words: Sequence[Ranked]) -> list[Ranked]:
        """Return the nearest contents that pass the conditions of the plan and are not deleted.

        Nearest first, with all results by words that have embeddings.
        """
        text, passes, rank = self.plan.meaning_text[:_LONGEST], self.plan.meant, self.ledger.library.rank
        is_narrowed = bool(passes.filters or passes.unwanted or passes.wanted)
        limit = _NEAREST if is_narrowed else NEAR_ALONE
        nearest = meaning.nearest(text, limit, also=[ranked.content_id for ranked in by_words])
        passing = rank(passes, limit=_ALL, within=[near.content_id for near in nearest])
        if is_narrowed and passing.total < NEAR_ALONE + len(by_words) and len(nearest) >= _NEAREST:
            passing = rank(passes, limit=_ALL)
            nearest = meaning.nearest(text, _NEAREST, [ranked.content_id for ranked in passing.ranked])
        conversations = {ranked.content_id: ranked.conversation for ranked in passing.ranked}
        ranked = [ranked.content_id for ranked in by_words]
        copies = self.ledger.library.copies([*ranked, *(near.content_id for near in nearest)])
        # Of a message, the copy that the words found is shown, or else the nearest one.
        shown = {copy: content for content in ranked for copy in copies.get(content, ())}
        eligible: dict[int, Near] = {}
        for near in nearest:
            if near.content_id in conversations:
                shown = dict.fromkeys(copies.get(near.content_id, ()), near.content_id) | shown
                eligible.setdefault(shown.get(near.content_id, near.content_id), near)
        return [
            Ranked(
                content,
                near.chunk_id,
                0.0,
                conversations[near.content_id],
                semantic_rank=place,
                cosine=near.cosine,
                part=near.part,
            )
            for place, (content, near) in enumerate(eligible.items(), 1)
        ]

    def _near(self, candidates: Sequence[Ranked], chance: Chance) -> list[Ranked]:
        """Return the candidates above the floor. A short text has to be as near as an answer."""
        near = [candidate for candidate in candidates if (candidate.cosine or 0) >= chance.floor]
        texts = self.ledger.library.words(near)
        long = {content for content, (_, passage) in texts.items() if len(passage.encode()) >= _SHORT}
        return [each for each in near if each.content_id in long or chance.scaled(each.cosine or 0) == 1]

    def _number_without_words(self, by_words: Ranking, added: Sequence[Ranked]) -> int:
        """Return how many results by meaning are not among the results by words."""
        by_conversation, library = self.by_conversation, self.ledger.library
        ranked = {key(result, by_conversation) for result in by_words.ranked}
        keyed = {key(result, by_conversation): result for result in added}
        unseen = [result for number, result in keyed.items() if number not in ranked]
        if len(by_words.ranked) == by_words.total or not unseen:
            return len(unseen)
        contents = [result.content_id for result in unseen]
        if by_conversation:
            contents += library.in_conversations(
                [result.conversation for result in unseen if result.conversation is not None]
            )
        query = self.plan.widened.query
        return len(unseen) - library.rank(query, limit=1, by_conversation=by_conversation, within=contents).total


def _scaled(ranking: Ranking, coverage: float = 1.0) -> Ranking:
    """Return for each score the root of its share of the best one, times the square of the share of words that occur."""
    best = max((result.score for result in ranking.ranked), default=1.0) or 1.0
    # A list without words has times as scores, which are negative before 1970.
    shares = (max(result.score / best, 0.0) for result in ranking.ranked)
    scores = (math.sqrt(share) * coverage**2 for share in shares)
    return ranking._replace(
        ranked=[replace(result, score=score) for result, score in zip(ranking.ranked, scores, strict=True)]
    )


def _covered(ledger: Ledger, widened: WidenedQuery, query: Query, ranking: Ranking) -> Ranking:
    """Multiply each score by the square of the share of the query's words near each other in the passage, or in the names."""
    texts, weights = ledger.library.words(ranking.ranked), widened.weights(query.wanted)
    terms = frozenset(map(_written, chain.from_iterable(query.wanted)))

    @cache
    def coverage(matches: frozenset[str]) -> float:
        return widened.coverage(query.wanted, weights, lambda term: _written(term) in matches)

    def best(result: Ranked) -> float:
        return max(map(coverage, _near_each_other(terms, *texts.get(result.content_id, ("", "")))))

    scored = [replace(result, score=result.score * best(result) ** 2) for result in ranking.ranked]
    scored.sort(key=lambda result: (-result.score, result.content_id))
    placed = [replace(result, lexical_rank=rank) for rank, result in enumerate(scored, 1)]
    return ranking._replace(ranked=placed, total=len(placed))


def _near_each_other(terms: frozenset[str], names: str, passage: str) -> Iterator[frozenset[str]]:
    """Yield the terms that occur in the names, then, for each part of a passage, these and the terms in the part."""
    named = frozenset(text for text in terms if text in names)
    yield named
    steps: defaultdict[int, set[str]] = defaultdict(set)
    for text in terms - named:
        place = passage.find(text)
        while place >= 0:
            steps[place // _STEP].add(text)
            place = passage.find(text, place + 1)
    yield from (named | matches | steps.get(step + 1, frozenset()) for step, matches in steps.items())


def _written(term: Term) -> str:
    """Return a term as it occurs in a text of folded words between spaces."""
    if term.substring is not None:
        return plain_words(term.substring)
    return f" {term.words}{'' if term.prefix else ' '}"
