"""Split text into passages, at headings first, then between paragraphs, sentences and words.

Passages of a section overlap by about 200 characters, so that a sentence at a cut is complete in one of them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from catchment.model import Chunk, Entity

SMALLEST = 500
LARGEST = 4_000
OVERLAP = 200
_LONGEST_LABEL = 1_000
"""Characters of a heading path. Every passage of a section stores it, so an unbounded heading would multiply in size."""

_SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*\s|[。！？]|\n")
_JOINERS = "\u200d\ufe0e\ufe0f"
_MAX_CLUSTER = 32


def chunks(text: str, headings: Sequence[Entity]) -> tuple[Chunk, ...]:
    """Return the passages of a text in order. They cover every character except white space, and none is blank.

    `headings` are in the order of the text. A passage has 500 to 4 000 characters; the last passage and one before a long
    section may be shorter. Offsets count characters.
    """
    if len(text) <= LARGEST:
        return (Chunk(0, len(text), _path_at(text, headings)),) if text and not text.isspace() else ()
    passages = []
    for start, end, path in _merged(text, headings):
        for first, last in _passages(text, start, end):
            if not text[first:last].isspace():
                passages.append(Chunk(first, last, path))
    return tuple(passages)


def _path_at(text: str, headings: Sequence[Entity]) -> str:
    """Return the heading at the start of a short text, or "" if it starts with other text."""
    return headings[0].value[:_LONGEST_LABEL] if headings and not text[: headings[0].start].strip() else ""


def _sections(text: str, headings: Sequence[Entity]) -> list[tuple[int, int, str]]:
    """Return start, end and heading path of each section. The path of text before the first heading is empty."""
    sections: list[tuple[int, int, str]] = []
    path: list[tuple[int, str]] = []
    start, label = 0, ""
    for heading in headings:
        if heading.start > start:
            sections.append((start, heading.start, label))
        level = int(heading.detail)
        path = [(above, name) for above, name in path if above < level] + [(level, heading.value[:_LONGEST_LABEL])]
        start, label = heading.start, " > ".join(name for _, name in path)[:_LONGEST_LABEL]
    sections.append((start, len(text), label))
    return sections


def _merged(text: str, headings: Sequence[Entity]) -> list[tuple[int, int, str]]:
    """Return the sections, joining each small section with the next if both fit into one passage."""
    merged: list[tuple[int, int, str]] = []
    for start, end, path in _sections(text, headings):
        if merged and merged[-1][1] - merged[-1][0] < SMALLEST and end - merged[-1][0] <= LARGEST:
            before = merged.pop()
            merged.append((before[0], end, before[2] or path))
        else:
            merged.append((start, end, path))
    if len(merged) > 1 and (last := merged[-1])[1] - last[0] < SMALLEST and last[1] - merged[-2][0] <= LARGEST:
        merged[-2:] = [(merged[-2][0], last[1], merged[-2][2])]
    return merged


def _passages(text: str, start: int, end: int) -> list[tuple[int, int]]:
    passages = []
    while end - start > LARGEST:
        cut = _cut(text, start, min(start + LARGEST, end - SMALLEST))
        passages.append((start, cut))
        start = _overlap(text, cut)
    passages.append((start, end))
    return passages


def _cut(text: str, start: int, limit: int) -> int:
    """Return the end of a passage: after a paragraph, sentence or word in its second half, else at the limit."""
    earliest = start + LARGEST // 2
    paragraph = text.rfind("\n\n", earliest, limit)
    if paragraph >= 0:
        return paragraph + 2
    sentences = [match.end() for match in _SENTENCE_END.finditer(text, earliest, limit)]
    if sentences:
        return sentences[-1]
    space = max(text.rfind(blank, earliest, limit) for blank in " \n\t")
    return space + 1 if space >= 0 else _between_characters(text, limit)


def _overlap(text: str, cut: int) -> int:
    """Return the start of the next passage: a sentence, else a word, within the 200 characters before the cut."""
    earliest = cut - OVERLAP
    sentence = _SENTENCE_END.search(text, earliest, cut - 1)
    if sentence:
        return sentence.end()
    space = text.find(" ", earliest, cut - 1)
    return space + 1 if space >= 0 else _between_characters(text, earliest)


def _between_characters(text: str, position: int) -> int:
    """Return the last position up to `position` that does not split a letter from its accents, or an emoji."""
    for place in range(position, position - _MAX_CLUSTER, -1):
        joined = text[place] in _JOINERS or text[place - 1] == "\u200d" or "\U0001f3fb" <= text[place] <= "\U0001f3ff"
        if not joined and not unicodedata.combining(text[place]):
            return place
    return position
