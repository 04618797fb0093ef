"""Blanks out what is not prose: code, comments and mathematics, so that nothing inside them counts as a link or a tag.

One pass, linear in the text's length whatever the text is; positions and line ends stay where they were.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import pairwise

FILLER = "\x00"
"""Stands for each blanked character: neither a word nor white space. No document holds one."""

_MARKS = ("`", "$", "%%", "~~~", "<!--")
_INDENTED = ("\n    ", "\n\t")
_OPENING = re.compile(r"([`~$%<\\])\1*+")
_LEAD = re.compile(r"(?>(?:[ \t]*(?:>|[-*+][ \t]|\d{1,9}[.)][ \t]))*)[ \t]*+\Z")
_LONGEST_LEAD = 100
_BACKTICKS = re.compile(r"`+")
_BLANK_LINE = re.compile(r"\n[ \t>]*(?=\n)")
_MATH_END = re.compile(r"(?<![\s\\])\$(?![0-9])")
_LIST_ITEM = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)|\[\^")


def mask(text: str) -> str:
    """The text with code, comments and mathematics blanked out; of the same length."""
    spans = _Spans(text).found() if any(mark in text for mark in _MARKS) else []
    if any(mark in text for mark in _INDENTED) or text.startswith(("    ", "\t")):
        spans = _with_indented_code(text, spans)
    if not spans:
        return text
    parts: list[str] = []
    done = 0
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
            start, position = opening.span()
            if opening[1] == "\\":
                position += len(opening[0]) % 2
            elif (end := self._end(opening[0], start)) is not None:
                spans.append((start, end))
                position = end
        return spans

    def _end(self, run: str, start: int) -> int | None:
        """Where the stretch that a run of one character opens ends; None where it opens nothing."""
        after = start + len(run)
        match run[0]:
            case "`" | "~":
                if len(run) >= 3 and (lead := self._lead(start)) is not None and self._is_fence(run, after):
                    return self._fence_end(run, lead, after)
                return self._code_span_end(start, len(run)) if run[0] == "`" else None
            case "$" if len(run) == 1:
                return self._inline_math_end(start)
            case "$" | "%" if len(run) > 1:
                return after if len(run) >= 4 else self._next(run[:2], after)
            case "<" if self._text.startswith("!--", after):
                return self._next("-->", after + 3)
        return None

    def _lead(self, start: int) -> str | None:
        """What stands before `start` on its line if that is only indentation, quotation and list marks."""
        earliest = max(0, start - _LONGEST_LEAD)
        line = self._text.rfind("\n", earliest, start) + 1
        if not line and earliest:
            return None
        lead = self._text[line:start]
        return lead if _LEAD.match(lead) else None

    def _is_fence(self, token: str, after: int) -> bool:
        if token[0] == "~":
            return True
        end = self._text.find("\n", after)
        return self._text.find("`", after, end if end >= 0 else len(self._text)) < 0

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
            elif (
                line.startswith(("    ", "\t"))
                and after_blank
                and not in_list
                and (position == 0 or text[position - 1] == "\n")
            ):
                found.append((position, stop))
            else:
                if not line[0].isspace():
                    in_list = _LIST_ITEM.match(line) is not None
                after_blank = False
            position = stop
    return sorted(found + spans) if found else spans
