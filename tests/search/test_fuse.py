"""The fusion of two rankings: no page repeats a result, for any size of page."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.ledger import Ranked
from catchment.search.fuse import DEPTH, fuse


def by_words(*contents: int) -> list[Ranked]:
    return [Ranked(one, one, 1 / rank, lexical_rank=rank) for rank, one in enumerate(contents, 1)]


def by_meaning(*contents: int) -> list[Ranked]:
    return [Ranked(one, -one, 1 / rank, semantic_rank=rank, cosine=1 / rank) for rank, one in enumerate(contents, 1)]


def contents(ranked: list[Ranked]) -> list[int]:
    return [one.content_id for one in ranked]


def test_scores_are_added_by_their_shares() -> None:
    ranked = fuse(by_words(1, 2, 3), by_meaning(4, 3))
    assert [(one.content_id, one.score) for one in ranked] == [
        (4, pytest.approx(0.6)),
        (3, pytest.approx(0.4 / 3 + 0.6 / 2)),
        (1, pytest.approx(0.4)),
        (2, pytest.approx(0.4 / 2)),
    ]


def test_near_passage_counts_more_than_the_nearest_of_distant_ones() -> None:
    near, far = by_meaning(4, 3), [replace(one, cosine=one.cosine and one.cosine / 10) for one in by_meaning(4, 3)]
    words = [replace(one, score=one.score / 2) for one in by_words(1)]
    assert contents(fuse(words, near))[0] == 4
    assert contents(fuse(words, far))[0] == 1
    assert contents(fuse(words, far, lambda cosine: 10 * cosine))[0] == 4


def test_equal_ranks_are_ordered_by_content() -> None:
    for word, near in ((9, 4), (4, 9)):
        without_words = [replace(one, score=0.0) for one in by_words(word)]
        assert contents(fuse(without_words, by_meaning(near), lambda _: 0.0)) == [4, 9]


def test_passage_with_the_words_is_shown() -> None:
    assert [one.chunk_id for one in fuse(by_words(3), by_meaning(3))] == [3]
    assert [one.chunk_id for one in fuse([replace(by_words(3)[0], chunk_id=None)], by_meaning(3))] == [-3]


def test_messages_of_a_conversation_are_one_result() -> None:
    best = [replace(one, conversation=7, alike=2) for one in by_words(7)]
    near = [replace(one, conversation=7) for one in by_meaning(8, 9)]
    assert [(one.content_id, one.alike, one.semantic_rank) for one in fuse(best, near, by_conversation=True)] == [
        (7, 2, 1)
    ]
    assert contents(fuse([], near, by_conversation=True)) == [8]
    assert sorted(contents(fuse(best, near))) == [7, 8, 9]


@given(data=st.data(), total=st.integers(0, DEPTH + 60), near=st.sets(st.integers(1, DEPTH + 80), max_size=30))
def test_order_is_independent_of_the_page(data: st.DataObject, total: int, near: set[int]) -> None:
    order = data.draw(st.permutations(sorted(near)))
    everything = by_words(*range(1, total + 1))
    whole = contents(fuse(everything, by_meaning(*order)))
    assert sorted(whole) == sorted({*range(1, total + 1), *near})
    seen = data.draw(st.integers(DEPTH, DEPTH + 100))
    part = contents(fuse(everything[:seen], by_meaning(*order)))
    assert part[: min(seen, total)] == whole[: min(seen, total)]
