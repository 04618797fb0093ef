"""Blanks out what is not prose: code, comments and mathematics, so that nothing inside them counts as a link or a tag.

One pass, linear in the text's length whatever the text is; positions and line ends stay where they were.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import pairwise

FILLER = "\x00"
"""Stands for each blanked character: neither a word nor white space. No document holds one."""

_SUSPECT = re.compile(r"[`$\\]|%%|~~~|<!--|\n[ \t]*\n(?: {4}|\t)|\A(?: {4}|\t)")
_OPENING = re.compile(
    r"\\.|`+|\$\$?|%%|<!--|(?m:^)(?P<lead>(?:[ \t]*(?:>|[-*+][ \t]|\d{1,9}[.)][ \t]))*+[ \t]*+)(?P<fence>`{3,}(?=[^`\n]*$)|~{3,})",
    re.MULTILINE,
)
_BACKTICKS = re.compile(r"`+")
_BLANK_LINE = re.compile(r"\n[ \t>]*(?=\n)")
_MATH_END = re.compile(r"(?<![\s\\])\$(?![0-9])")
_LIST_ITEM = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)|\[\^")


def mask(text: str) -> str:
    """The text with code, comments and mathematics blanked out; of the same length."""
    if not _SUSPECT.search(text):
        return text
    spans = _Spans(text).found()
    spans = _with_indented_code(text, spans) if "    " in text or "\t" in text else spans
    if not spans:
        return text
    parts, done = [], 0
    for start, end in spans:
        parts += text[done:start], _blank(text[start:end])
        done = end
    return "".join((*parts, text[done:]))


def _blank(text: str) -> str:
    if "\n" not in text:
        return FILLER * len(text)
    return "\n".join(FILLER * len(line) for line in text.split("\n"))


class _Spans:
    """The stretches to blank, found from left to right; each remembers what it learned about closers further on."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._runs: dict[int, list[int]] | None = None
        self._paragraph_end = -1
        self._math_from, self._math_end = 0, -1
        self._no_more: set[str] = set()

    def found(self) -> list[tuple[int, int]]:
        spans, position = [], 0
        while opening := _OPENING.search(self._text, position):
            start = opening.start() if opening["fence"] is None else opening.end("lead")
            end = self._end(opening, start)
            if end is None:
                position = opening.end()
                continue
            spans.append((start, end))
            position = end
        return spans

    def _end(self, opening: re.Match[str], start: int) -> int | None:
        token = opening["fence"] or opening[0]
        if opening["fence"] is not None:
            return self._fence_end(token, opening["lead"], opening.end())
        match token[0]:
            case "`":
                return self._code_span_end(start, len(token))
            case "$" if token == "$":
                return self._inline_math_end(start)
            case "$" | "%":
                return self._next(token, start + 2)
            case "<":
                return self._next("-->", start + 4)
        return None

    def _next(self, closer: str, position: int) -> int | None:
        """Where the next `closer` ends; a search that found none is not made again."""
        if closer in self._no_more:
            return None
        found = self._text.find(closer, position)
        if found < 0:
            self._no_more.add(closer)
            return None
        return found + len(closer)

    def _fence_end(self, fence: str, lead: str, position: int) -> int:
        closing = rf"[ \t>]*+{fence[0]}{{{len(fence)},}}+[ \t]*$"
        if ">" in lead:  # the end of the quotation ends its code as well
            closing += r"|(?![ \t]*>)"
        found = re.compile(rf"^(?:{closing})", re.MULTILINE).search(self._text, position + 1)
        return found.end() if found else len(self._text)

    def _code_span_end(self, start: int, ticks: int) -> int | None:
        if self._runs is None:
            self._runs = {}
            for run in _BACKTICKS.finditer(self._text):
                self._runs.setdefault(run.end() - run.start(), []).append(run.start())
        starts = self._runs.get(ticks, [])
        after = bisect_right(starts, start)
        if after == len(starts) or starts[after] > self._end_of_paragraph(start):
            return None
        return starts[after] + ticks

    def _inline_math_end(self, start: int) -> int | None:
        if self._text[start + 1 : start + 2].isspace():
            return None
        if not self._math_from <= start + 2 <= self._math_end:
            found = _MATH_END.search(self._text, start + 2)
            self._math_from, self._math_end = start + 2, found.start() if found else len(self._text)
        return self._math_end + 1 if self._math_end < self._end_of_paragraph(start) else None

    def _end_of_paragraph(self, position: int) -> int:
        if position >= self._paragraph_end:
            blank = _BLANK_LINE.search(self._text, position)
            self._paragraph_end = blank.start() if blank else len(self._text)
        return self._paragraph_end


def _with_indented_code(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans and, between them, the lines indented by four or more after a blank line and outside of a list."""
    found: list[tuple[int, int]] = []
    in_list, after_blank = False, True
    edges = [(0, 0), *spans, (len(text), len(text))]
    for (_, start), (end, _) in pairwise(edges):
        position = start
        while position < end:
            stop = text.find("\n", position, end) + 1 or end
            line = text[position:stop]
            if not line.strip():
                after_blank = True
            elif line.startswith(("    ", "\t")) and after_blank and not in_list and (position == 0 or text[position - 1] == "\n"):
                found.append((position, stop))
            else:
                if not line[0].isspace():
                    in_list = _LIST_ITEM.match(line) is not None
                after_blank = False
            position = stop
    return sorted(found + spans) if found else spans
