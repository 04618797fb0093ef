"""A unified diff of two texts, with the words that changed within a line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

_AROUND = 3
"""Unchanged lines around a change."""
_MOST_LINES = 20_000
"""Changed lines that are compared one by one."""
_LONGEST = 5_000
"""Characters of a line that is compared by words."""
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
_ALIKE = 0.4
"""Share of equal words above which two lines are compared by words."""


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a unified diff.

    Attributes:
        sign: "+", "-", " ", or "@" for the line before each part.
        marked: Start and end of the words that changed; empty if the whole line is new, or is not there any more.
    """

    sign: str
    text: str
    marked: tuple[tuple[int, int], ...] = ()

    @property
    def parts(self) -> Iterator[tuple[str, bool]]:
        """The text in parts; True for changed parts."""
        place = 0
        for start, end in self.marked:
            yield self.text[place:start], False
            yield self.text[start:end], True
            place = end
        yield self.text[place:], False


def unified(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffLine]:
    """Yield the changed lines, with some unchanged lines around them; no lines for equal texts."""
    steps = _steps(old, new)
    if all(step[0] == "equal" for step in steps):
        return
    for group in _Matcher(steps).get_grouped_opcodes(_AROUND):
        (_, a, _, c, _), (_, _, b, _, d) = group[0], group[-1]
        yield DiffLine("@", f"@@ -{a + (a < b)},{b - a} +{c + (c < d)},{d - c} @@")
        for tag, a, b, c, d in group:
            if tag == "equal":
                yield from (DiffLine(" ", line) for line in old[a:b])
                continue
            marks = [_marks(*pair) for pair in zip(old[a:b], new[c:d], strict=False)]
            for sign, lines, side in (("-", old[a:b], 0), ("+", new[c:d], 1)):
                for place, line in enumerate(lines):
                    yield DiffLine(sign, line, marks[place][side] if place < len(marks) else ())


def counts(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return the number of lines that were added and removed."""
    changed = [step for step in _steps(old, new) if step[0] != "equal"]
    return sum(d - c for *_, c, d in changed), sum(b - a for _, a, b, *_ in changed)


_Step = tuple[str, int, int, int, int]
"""As of `SequenceMatcher.get_opcodes`."""


def _steps(old: Sequence[str], new: Sequence[str]) -> list[_Step]:
    """Return how lines changed. Lines that are equal at both ends are not compared with each other: that takes long."""
    shorter = min(len(old), len(new))
    start = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    rest = shorter - start
    end = next((n for n in range(rest) if old[-1 - n] != new[-1 - n]), rest)
    old_middle, new_middle = old[start : len(old) - end], new[start : len(new) - end]
    inner: Sequence[_Step] = [("replace", 0, len(old_middle), 0, len(new_middle))]
    if max(len(old_middle), len(new_middle)) <= _MOST_LINES:
        inner = SequenceMatcher(None, old_middle, new_middle).get_opcodes()
    moved = [(tag, a + start, b + start, c + start, d + start) for tag, a, b, c, d in inner]
    first, last = ("equal", 0, start, 0, start), ("equal", len(old) - end, len(old), len(new) - end, len(new))
    return [step for step in (first, *moved, last) if step[1] < step[2] or step[3] < step[4]]


class _Matcher(SequenceMatcher[str]):
    """A matcher with known steps, for their groups."""

    def __init__(self, steps: list[Any]) -> None:
        super().__init__()
        self._steps = steps

    def get_opcodes(self) -> list[Any]:
        return self._steps


_Marks = tuple[tuple[int, int], ...]


def _marks(old: str, new: str) -> tuple[_Marks, _Marks]:
    """Return the ranges of different words in two lines; empty if they have little in common."""
    old_words, new_words = (list(_WORDS.finditer(line)) if len(line) <= _LONGEST else [] for line in (old, new))
    matcher = SequenceMatcher(None, [word[0] for word in old_words], [word[0] for word in new_words])
    if not old_words or not new_words or matcher.ratio() < _ALIKE:
        return (), ()
    steps = [step for step in matcher.get_opcodes() if step[0] != "equal"]
    return (
        tuple((old_words[a].start(), old_words[b - 1].end()) for _, a, b, _, _ in steps if a < b),
        tuple((new_words[c].start(), new_words[d - 1].end()) for _, _, _, c, d in steps if c < d),
    )
