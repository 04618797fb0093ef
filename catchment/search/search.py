"""Search the library as a person asks: parse, widen, match by words, match by meaning, fuse, present.

By words, every word has to occur in some form; failing that, as many as possible. By meaning, the nearest passages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from catchment.errors import MeaningOff
from catchment.ledger import (
    OFF,
    AnyOf,
    Ledger,
    Query,
    Ranked,
    Ranking,
    Term,
    pieces_of,
    plain_words,
    storable_text,
    time_limit,
)
from catchment.search.fuse import DEPTH, fuse, key
from catchment.search.language import is_code, parse, written
from catchment.search.present import present
from catchment.search.results import Lanes, Results, Understood, Word
from catchment.search.widen import widen

if TYPE_CHECKING:
    from catchment.search.meaning.index import MeaningIndex

_NEAR = 20
"""Results that the meaning adds to a search by words."""
_NEAR_ALONE = 100
"""Results of a search by meaning alone."""
_NEAR_BELOW = 5
"""Results below the floor for a question, if no document has all its words and no meaning is above the floor."""
_QUESTION = 3
"""Words from which a query can be a question. A shorter one may be a name, and nothing is the right answer."""
_PARTIAL_WEIGHT = 0.5
"""Weight of a rank by some of the words: they are often the least important ones of a question."""
_KNOWN_WEIGHT = 1.0
"""Weight of a rank by all words that occur in the library, if those are most."""
_FULL_WEIGHT = 1.5
"""Weight of a rank by all words: a document with all of them rarely is a worse answer than one that is only near."""
_COMMON, _COMMON_AT_LEAST = 0.25, 20
"""Share and number of passages with a word from which it does not count if a document need not have all words."""
_ASKED = 400
"""Results by meaning that are read to find those that pass the filters."""
_ALL = 2**31
SECONDS = 10.0
"""Time limit of a search, with all its attempts."""
_LONGEST = 2_000
"""Characters of a query whose meaning is searched."""
_FEW = 5
"""A word that occurs at most so often is a name or an exact term."""
_TOP = 10
"""First results by words, which show whether a query is about code."""
_IDENTIFIER = re.compile(r"#\d+|.*[@_/\\].*|.*\w[.:]+\w.*|(?=.*\d)[\w#-]{3,}")
_EDGES = ".,;:!?()[]{}<>'…"


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
        typed = parse(text, {source.name: source.kind for source in sources}, now)
        understood = Understood((), tuple(term.text for term in typed.unwanted), written(text))
        if not typed.wanted and not typed.filters:
            return Results([], 0, understood)
        return _found(ledger, typed, understood, meaning, lanes, limit, offset, by_conversation)


def _found(
    ledger: Ledger,
    typed: Query,
    understood: Understood,
    meaning: MeaningIndex | None,
    lanes: Lanes,
    limit: int,
    offset: int,
    by_conversation: bool,
) -> Results:
    query, words = widen(typed, ledger.vocabulary)
    understood = replace(understood, words=tuple(words))
    if lanes is Lanes.MEANING and meaning is None:
        raise MeaningOff("search by meaning: no model is loaded")
    is_wanted = lanes is Lanes.MEANING or (lanes is Lanes.BOTH and ledger.embeddings.setting != OFF)
    by_meaning = is_wanted and meaning is not None and bool(typed.wanted)

    by_words, weight = Ranking([], 0), _FULL_WEIGHT
    if lanes is not Lanes.MEANING or not typed.wanted:
        depth = max(DEPTH, offset + limit) if by_meaning else limit
        query, by_words, weight = _by_words(ledger, query, depth, 0 if by_meaning else offset, by_conversation)
    is_partial = weight < _FULL_WEIGHT
    if not by_meaning or meaning is None:
        hits = present(ledger, by_words.ranked, query)
        return Results(hits, by_words.total, understood, is_partial, is_capped=by_words.is_capped)

    asked = " ".join(term.text for group in typed.wanted for term in group)[:_LONGEST]
    try:
        found = _by_meaning(ledger, meaning, query, asked, _NEAR if lanes is Lanes.BOTH else _NEAR_ALONE)
        floor = meaning.floor
    except MeaningOff as off:
        if lanes is Lanes.MEANING:
            raise
        page = by_words.ranked[offset : offset + limit]
        hits = present(ledger, page, query)
        return Results(hits, by_words.total, understood, is_partial, str(off), by_words.is_capped)
    first = _words_first(ledger, typed, words, by_words) if not is_partial else None
    near = [one for one in found if one.cosine is not None and one.cosine >= floor]
    is_question = len(typed.wanted) >= _QUESTION and not _literal(typed)
    if not near and is_question and (is_partial or not by_words.total):
        near = found[:_NEAR_BELOW]
    total = by_words.total + _number_without_words(ledger, query, by_words, near, by_conversation)
    if first is not None and len(by_words.ranked) < by_words.total:
        near = []  # They follow the results by words, which this page does not end.
    ranked = fuse(by_words.ranked, near, weight=weight, words_first=first is not None, by_conversation=by_conversation)
    hits = present(ledger, ranked[offset : offset + limit], query)
    understood = replace(understood, words_first=first, meaning=asked, floor=floor)
    return Results(hits, total, understood, is_partial, is_capped=by_words.is_capped)


def search_without_meaning(
    ledger: Ledger, text: str, now: datetime, reason: str, *, limit: int, offset: int, by_conversation: bool = False
) -> Results:
    """Search by words, because the meaning cannot be searched. The results have the reason if it would have been."""
    found = search(ledger, text, now, lanes=Lanes.WORDS, limit=limit, offset=offset, by_conversation=by_conversation)
    is_on = ledger.embeddings.setting != OFF and ledger.embeddings.searched() is not None
    return replace(found, meaning_off=reason) if is_on and found.understood.words else found


def _by_words(
    ledger: Ledger, query: Query, limit: int, offset: int, by_conversation: bool
) -> tuple[Query, Ranking, float]:
    """Return the results with all words, or else with some; and the weight of their ranks."""
    rank = partial(ledger.library.rank, by_conversation=by_conversation)
    for some, weight in _attempts(query, ledger):
        ranking = rank(some, limit=limit, offset=offset)
        if ranking.total or (offset and rank(some, limit=1).total):
            return some, ranking, weight
    return some, ranking, weight


def _attempts(query: Query, ledger: Ledger) -> Iterator[tuple[Query, float]]:
    """Yield queries that match ever more documents, with the weight of a rank by each."""
    yield query, _FULL_WEIGHT
    if len(query.wanted) > 1:
        known = _known(query, ledger)
        if len(query.wanted) / 2 < len(known) < len(query.wanted):
            yield replace(query, wanted=known), _KNOWN_WEIGHT
        any_of = tuple(chain.from_iterable(_significant(query, ledger)))
        yield replace(query, wanted=(any_of,)), _PARTIAL_WEIGHT


def _known(query: Query, ledger: Ledger) -> tuple[AnyOf, ...]:
    """Return the wanted groups without words that occur nowhere in the library, in no form."""
    single = {group: group[0].words for group in query.wanted if len(group) == 1 and _is_plain(group[0])}
    counts = ledger.vocabulary.among(set(single.values()))
    return tuple(group for group in query.wanted if group not in single or single[group] in counts)


def _is_plain(term: Term) -> bool:
    return not (term.is_quoted or term.prefix or term.substring) and " " not in term.words


def _significant(query: Query, ledger: Ledger) -> tuple[AnyOf, ...]:
    """Return the wanted groups without words of every other sentence, such as "the"; all if there are no others."""
    counts = ledger.vocabulary.among({group[0].words for group in query.wanted if not group[0].is_quoted})
    most = max(_COMMON_AT_LEAST, ledger.vocabulary.passages() * _COMMON)
    rare = tuple(group for group in query.wanted if counts.get(group[0].words, 0) <= most)
    return rare or query.wanted


def _by_meaning(ledger: Ledger, meaning: MeaningIndex, query: Query, text: str, limit: int) -> list[Ranked]:
    """Return the nearest contents that pass the filters, have no excluded word and are not deleted, nearest first."""
    without_words = replace(query, wanted=())
    is_narrowed = bool(query.filters or query.unwanted)
    asked = _ASKED if is_narrowed else limit
    nearest = meaning.nearest(text, asked)
    passing = ledger.library.rank(without_words, limit=_ALL, within=[one.content_id for one in nearest])
    if is_narrowed and passing.total < limit and len(nearest) == asked:
        passing = ledger.library.rank(without_words, limit=_ALL)
        nearest = meaning.nearest(text, limit, [one.content_id for one in passing.ranked])
    conversations = {one.content_id: one.conversation for one in passing.ranked}
    eligible = [one for one in nearest if one.content_id in conversations][:limit]
    return [
        Ranked(
            one.content_id,
            one.chunk_id,
            one.cosine,
            conversations[one.content_id],
            semantic_rank=rank,
            cosine=one.cosine,
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


def _words_first(ledger: Ledger, typed: Query, words: Sequence[Word], by_words: Ranking) -> str | None:
    """Return why the order by words stays: the query is literal, or about program code, which models know little of."""
    if reason := _literal(typed):
        return reason
    if not by_words.total:
        return None
    if len(words) == 1 and 0 < words[0].count <= _FEW and not words[0].corrections:
        return "rare word"
    if len(words) > 1 and all(word.parts for word in words):
        return "identifier"
    first = [one.content_id for one in by_words.ranked[:_TOP]]
    top = ledger.library.names_and_types(first)
    asked = plain_words(" ".join(map(_corrected, words)))
    names, _ = top.get(first[0], ((), ""))
    if any(name and f" {name} " in f" {asked} " for name in names):
        return "name of a document"
    return "program code" if 2 * sum(map(is_code, (kind for _, kind in top.values()))) > len(top) else None


def _corrected(word: Word) -> str:
    return word.corrections[0] if word.corrections and not word.count else word.text


def _literal(query: Query) -> str | None:
    """Return why the words of a query are meant as they are; None for words of a language."""
    terms = [term for group in query.wanted for term in group]
    if any(term.is_quoted for term in terms):
        return "phrase"
    if any(term.prefix for term in terms):
        return "prefix"
    return "identifier" if any(_is_exact(term.text) for term in terms) else None


def _is_exact(text: str) -> bool:
    """Return whether a word is an identifier, a path, an address or a number, rather than a word of a language."""
    word = text.strip(_EDGES)
    return len(pieces_of(word)) > 1 or _IDENTIFIER.fullmatch(word) is not None
