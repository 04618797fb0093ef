"""Fusion of two rankings, by words and by meaning.

Their scores cannot be compared, so their ranks are combined: reciprocal rank fusion. The order depends only on the query,
never on the page, so that no result is on two pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from catchment.ledger import Ranked

_K = 20
"""The constant of reciprocal rank fusion: the smaller, the more the first ranks count."""
DEPTH = 200
"""Ranks by words that count in the fusion. The results below them follow in their order by words."""


def fuse(
    by_words: Sequence[Ranked],
    by_meaning: Sequence[Ranked],
    *,
    weight: float = 1.0,
    words_first: bool = False,
    by_conversation: bool = False,
) -> list[Ranked]:
    """Return both rankings as one. `by_words`: the first `DEPTH` results at least; more of them yield a longer list.

    A result of both keeps the passage that contains the words. `weight`: of a rank by words, relative to one by meaning.
    `words_first`: the meaning only adds results at the end. `by_conversation`: the messages of a conversation are one result.
    """
    near: dict[int, Ranked] = {}
    for one in by_meaning:
        near.setdefault(key(one, by_conversation), one)
    merged = [_merged(one, near.pop(key(one, by_conversation), None)) for one in by_words]
    if words_first:
        return [replace(one, score=1 + _by_words(one)) for one in merged] + [
            replace(one, score=_by_meaning(one)) for one in near.values()
        ]
    both = [replace(one, score=weight * _by_words(one) + _by_meaning(one)) for one in merged[:DEPTH]]
    # Below the depth the rank by words does not count, so that the position is the same if only the meaning is known.
    both += [replace(one, score=_by_meaning(one)) for one in [*merged[DEPTH:], *near.values()] if one.semantic_rank]
    rest = [replace(one, score=weight * _by_words(one)) for one in merged[DEPTH:] if not one.semantic_rank]
    return sorted(both, key=lambda one: (-one.score, one.content_id)) + rest


def key(one: Ranked, by_conversation: bool) -> int:
    """Return the number that two results have in common if they are shown as one."""
    # A conversation has the number of a content in it, so no content outside the conversation has the same.
    return one.conversation if by_conversation and one.conversation is not None else one.content_id


def _merged(one: Ranked, near: Ranked | None) -> Ranked:
    if near is None:
        return one
    chunk = one.chunk_id if one.chunk_id is not None else near.chunk_id
    return replace(one, chunk_id=chunk, semantic_rank=near.semantic_rank, cosine=near.cosine)


def _by_words(one: Ranked) -> float:
    return 1 / (_K + one.lexical_rank) if one.lexical_rank else 0.0


def _by_meaning(one: Ranked) -> float:
    return 1 / (_K + one.semantic_rank) if one.semantic_rank else 0.0
