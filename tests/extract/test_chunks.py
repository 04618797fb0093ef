"""Passages: sizes, offsets, and complete coverage of the text."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.content.extract.chunks import LARGEST, OVERLAP, SMALLEST
from catchment.model import Chunk
from tests.extract.reading import of

_SENTENCE = "The gauge at the mill read two metres in spring. "
_ANY_TEXT = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "\n\n",
                "\n",
                " ",
                "# Head\n",
                "\n## Sub\n",
                _SENTENCE * 9,
                "x" * 4_100,
                "e\u0301" * 900,
                "👩‍🌾" * 700,
                "水。" * 999,
            ]
        ),
        st.text(max_size=300),
    ),
    max_size=12,
).map("".join)


def test_an_empty_text_has_no_passages() -> None:
    assert of("").chunks == ()
    assert of(" \n\n\t").chunks == ()


def test_short_text_is_one_passage_with_its_first_heading() -> None:
    assert of("# Plan\n\nwords").chunks == (Chunk(0, 13, "Plan"),)
    assert of("words\n# Plan").chunks == (Chunk(0, 12, ""),)


def test_a_long_text_is_cut_at_its_headings() -> None:
    text = "# Plan\n\n" + _SENTENCE * 40 + "\n\n## Costs\n\n" + _SENTENCE * 60 + "\n\n# Notes\n\n" + _SENTENCE * 30
    chunks = of(text).chunks
    assert [chunk.heading for chunk in chunks] == ["Plan", "Plan > Costs", "Notes"]
    assert [text[chunk.start :].split("\n")[0] for chunk in chunks] == ["# Plan", "## Costs", "# Notes"]


def test_heading_path_of_passages_is_bounded() -> None:
    found = of("# " + "line " * 20_000 + "\n" + "Text. " * 20_000).chunks
    assert len(found) > 20
    assert sum(len(chunk.heading) for chunk in found) <= 1_000 * len(found)
    assert all(chunk.heading.startswith("line line") for chunk in found)


def test_small_sections_are_joined() -> None:
    text = "".join(f"# Day {number}\n\n{_SENTENCE * 2}\n\n" for number in range(60))
    chunks = of(text).chunks
    assert all(SMALLEST <= chunk.end - chunk.start <= LARGEST for chunk in chunks)


def test_passages_of_a_long_section_overlap_and_start_at_sentences() -> None:
    text = _SENTENCE * 400
    chunks = of(text).chunks
    for before, after in pairwise(chunks):
        assert 0 < before.end - after.start <= OVERLAP
        assert text[after.start :].startswith("The gauge")


@settings(max_examples=60)
@given(_ANY_TEXT)
def test_passages_cover_any_text_within_their_limits(text: str) -> None:
    covered = 0
    for chunk in of(text).chunks:
        assert 0 <= chunk.start < chunk.end <= len(text)
        assert chunk.end - chunk.start <= LARGEST
        assert text[covered : chunk.start].strip() == "" or chunk.start <= covered
        assert chunk.end > covered
        covered = chunk.end
        if chunk.start:
            assert not unicodedata.combining(text[chunk.start])
    assert text[covered:].strip() == ""
