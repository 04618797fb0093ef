"""Blank out code, comments and formulas, so that links and tags are found in prose only.

`blocks` finds the block structure; this module finds the spans within inline text. Always linear in the length of the text.
Offsets and line ends are preserved.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from catchment.content.extract.blocks import TAG, Leaf, leaves

FILLER = "\x00"
"""Replaces each blanked character. It is neither a word character nor white space, and no document contains it."""

_OPENING = re.compile(r"([`$%<\\])\1*+")
_BACKTICKS = re.compile(r"`+")
_DOLLAR = re.compile(r"(?<!\\)\$")
_AUTOLINK = re.compile(r"<[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*+>")


def mask(text: str, has_html: bool = True) -> str:
    """Return the text with code, comments and formulas blanked out, at the same length.

    Without `has_html`, HTML tags are ordinary text.
    """
    if not (stretches := leaves(text, has_html)):
        return text
    parts: list[str] = []
    position = 0
    for start, end in _Spans(text, has_html).collect(stretches):
        parts += text[position:start], _blank(text[start:end])
        position = end
    return "".join((*parts, text[position:]))


def _blank(text: str) -> str:
    if "\n" not in text:
        return FILLER * len(text)
    return "\n".join(FILLER * len(line) for line in text.split("\n"))


class _Spans:
    """Collects the spans to blank, from left to right."""

    def __init__(self, text: str, has_html: bool) -> None:
        self._text = text
        self._has_html = has_html
        self._spans: list[tuple[int, int]] = []
        self._runs: dict[int, list[int]] | None = None
        self._unclosed: dict[str, int] = {}
        """For each closer that a search did not find, the end of the stretch that was searched."""

    def collect(self, stretches: list[Leaf]) -> list[tuple[int, int]]:
        for start, end, is_text in stretches:
            if is_text:
                self._inline(start, end)
            else:
                self._spans.append((start, end))
        return self._spans

    def _inline(self, position: int, stop: int) -> None:
        """Find the spans of one stretch of inline text."""
        while opening := _OPENING.search(self._text, position, stop):
            start, position = opening.span()
            if opening[1] == "\\":
                position += len(opening[0]) % 2
            elif opening[1] == "<" and not (self._has_html and self._text.startswith("!--", position)):
                if tag := TAG.match(self._text, start, stop) or _AUTOLINK.match(self._text, start, stop):
                    position = tag.end()
            elif (end := self._end(opening[0], start, stop)) is not None:
                self._spans.append((start, end))
                position = end

    def _end(self, run: str, start: int, stop: int) -> int | None:
        """Return the end of the span that this run of one character opens, or None if it does not open a span."""
        after = start + len(run)
        match run[0]:
            case "`":
                return self._code_end(start, len(run), stop)
            case "$" if len(run) == 1:
                return self._formula_end(after, stop)
            case "$" | "%" if len(run) > 1:
                return after if len(run) >= 4 else self._next(run[:2], after, stop)
            case "<":
                return self._next("-->", after + 3, stop)
        return None

    def _next(self, closer: str, position: int, stop: int) -> int | None:
        """Return the end of the next `closer` or None. A search without a hit is not repeated in the same stretch."""
        if self._unclosed.get(closer) == stop:
            return None
        start = self._text.find(closer, position, stop)
        if start < 0:
            self._unclosed[closer] = stop
            return None
        return start + len(closer)

    def _code_end(self, start: int, ticks: int, stop: int) -> int | None:
        end = self._text.find("`" * ticks, start + ticks, stop)
        if end < 0 or not self._text.startswith("`", end + ticks):
            return end + ticks if end >= 0 else None
        if self._runs is None:
            self._runs = {}
            for run in _BACKTICKS.finditer(self._text):
                self._runs.setdefault(run.end() - run.start(), []).append(run.start())
        starts = self._runs.get(ticks, [])
        after = bisect_right(starts, start)
        return starts[after] + ticks if after < len(starts) and starts[after] < stop else None

    def _formula_end(self, position: int, stop: int) -> int | None:
        """Return the end of a formula between single dollars, or None. Neither dollar touches a space, and no digit follows."""
        text = self._text
        if text[position : position + 1].isspace() or (closing := _DOLLAR.search(text, position, stop)) is None:
            return None
        end = closing.end()
        return None if text[end - 2].isspace() or text[end : end + 1].isdigit() else end
