"""Fusion of two rankings, by words and by meaning: their scores are added.

Ranks do not show how well a document matches: the nearest of many distant passages has the same rank as a good answer.
The order depends only on the query, never on the page, so that no result is on two pages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from catchment.ledger import Ranked

DEPTH = 200
"""Number of results by words whose meaning counts. All lower results keep their order by words."""

_WORDS = 0.4
"""Share of the score by words in the sum."""


def fuse(
    by_words: Sequence[Ranked],
    by_meaning: Sequence[Ranked],
    scaled: Callable[[float], float] = float,
    *,
    by_conversation: bool = False,
) -> list[Ranked]:
    """Return both rankings as one.

    A result of both keeps the passage that contains the words.

    Args:
        by_words: The first `DEPTH` results at least, with scores up to 1; more of them yield a longer list.
        by_meaning: Also the results by words of which the meaning is known.
        scaled: Returns a score from 0 to 1 for a cosine.
        by_conversation: The messages of a conversation are one result.
    """
    near: dict[int, Ranked] = {}
    for result in by_meaning:
        near.setdefault(key(result, by_conversation), result)
    merged = [_merged(result, near.pop(key(result, by_conversation), None)) for result in by_words]

    def added(result: Ranked, share: float = _WORDS) -> Ranked:
        meaning = 0.0 if result.cosine is None else (1 - _WORDS) * scaled(result.cosine)
        return replace(result, score=share * result.score + meaning)

    both = [added(result) for result in merged[:DEPTH]]
    # Below the depth the words do not count, so that the position is the same if only the meaning is known.
    both += [added(result, 0) for result in [*merged[DEPTH:], *near.values()] if result.cosine is not None]
    rest = [added(result) for result in merged[DEPTH:] if result.cosine is None]
    return sorted(both, key=lambda result: (-result.score, result.content_id)) + rest


def key(result: Ranked, by_conversation: bool) -> int:
    """Return the number that two results have in common if they are shown as one."""
    # A conversation has the number of a content in it, so no content outside the conversation has the same.
    return result.conversation if by_conversation and result.conversation is not None else result.content_id


def _merged(result: Ranked, near: Ranked | None) -> Ranked:
    if near is None:
        return result
    if result.chunk_id is None:
        result = replace(result, chunk_id=near.chunk_id, part=near.part)
    return replace(result, semantic_rank=near.semantic_rank, cosine=near.cosine)
