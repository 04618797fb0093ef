"""Split mail into passages that keep the sender's own words apart from quotations and signatures, for ranking in search."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from catchment.content.extract.chunks import chunks
from catchment.model import ASIDE, Chunk, Entity

_SIGNATURE = "-- "
_LEAST_ASIDE = 200
_MAX_STRETCHES = 200


def passages(text: str, headings: Sequence[Entity]) -> tuple[Chunk, ...]:
    """Return passages as `chunks` does, each either the sender's own words or an aside (`heading` is `ASIDE`).

    Asides are quotations and signatures. Those shorter than 200 characters stay with the words around them: an answer needs
    its question.
    """
    stretches = _stretches(text)
    if len(stretches) > _MAX_STRETCHES:
        return chunks(text, headings)
    parts: list[Chunk] = []
    for start, stop, is_aside in stretches:
        first = bisect_left(headings, start, key=_start)
        inside = headings[first : bisect_left(headings, stop, key=_start)]
        moved = [heading._replace(start=heading.start - start, end=heading.end - start) for heading in inside]
        for chunk in chunks(text[start:stop], moved):
            parts.append(Chunk(chunk.start + start, chunk.end + start, ASIDE if is_aside else chunk.heading))
    return tuple(parts)


def stretches(text: str) -> list[tuple[str, bool]]:
    """Return the parts of a message in order; True marks a quotation or a signature, False the sender's own words."""
    return [(text[start:stop], is_aside) for start, stop, is_aside in _runs(text)]


def _start(heading: Entity) -> int:
    return heading.start


def _stretches(text: str) -> list[tuple[int, int, bool]]:
    """Return start, end and whether it is an aside, for each stretch of the text."""
    stretches: list[tuple[int, int, bool]] = []
    for start, stop, is_marked in _runs(text):
        is_aside = is_marked and stop - start >= _LEAST_ASIDE
        if stretches and is_aside == stretches[-1][2]:
            stretches[-1] = (stretches[-1][0], stop, is_aside)
        else:
            stretches.append((start, stop, is_aside))
    return stretches


def _runs(text: str) -> list[tuple[int, int, bool]]:
    """Group consecutive lines by whether they are quoted or in a signature. Empty lines belong to the lines before them."""
    runs: list[tuple[int, int, bool]] = []
    place, is_signature = 0, False
    for line in text.split("\n"):
        is_quoted = line.startswith(">")
        is_signature = not is_quoted and (is_signature or line == _SIGNATURE)
        is_marked = is_quoted or is_signature
        stop = min(place + len(line) + 1, len(text))
        if runs and (is_marked == runs[-1][2] or not line.strip()):
            runs[-1] = (runs[-1][0], stop, runs[-1][2])
        else:
            runs.append((place, stop, is_marked))
        place = stop
    return runs
