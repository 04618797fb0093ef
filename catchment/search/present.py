"""Presentation of search results: the document to show for a content, and the excerpt with marked matches."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby, islice
from typing import Any

from catchment.ledger import Folded, Ledger, Match, Query, Ranked, Term, word_pattern
from catchment.records import record_of
from catchment.search.language import is_code
from catchment.search.meaning.fill import embedded_parts
from catchment.search.results import Hit

_BEST, _BEGIN, _END = "\U00100000", "\U00100001", "\U00100002"
"""Temporary marks of matches, so that the brackets of a snippet are not mistaken for those of a link."""
_MATCH = re.compile(f"[{_BEST}{_BEGIN}]([^{_END}]*){_END}")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\((?:[^()\s]|\([^()\s]*\))*(?:\s+\"[^\"]*\")?\)")
_UNSEEN = re.compile(
    r"%%(.*?)%%|<!--(.*?)-->|<%[-_*+~]?(.*?)[-_]?%>|\{%(.*?)%\}|\{\{(.*?)\}\}|^[-*+>0-9.) \t]*(?:`{3,}|~{3,})([^\n]*)$",
    re.DOTALL | re.MULTILINE,
)
_INLINE = r"a|abbr|b|big|code|del|em|font|i|ins|kbd|mark|s|small|span|strike|strong|sub|sup|tt|u"
_BLOCKS = (
    r"br|center|dd|details|div|d[lt]|fig\w+|h[1-6]|hr|img|li|ol|p|section|source|summary|table|t[dhr]|tbody|thead|ul"
)
_HTML = re.compile(rf"</?(?:({_INLINE})|{_BLOCKS})(?:\s[^<>]*)?/?>", re.IGNORECASE)
_VERBATIM = re.compile(
    r"(?<!`)(`+)(?!`)([^`\n]+)(?<!`)\1(?!`)|\$\$[^$]+\$\$|(?<![\w$\\])\$(?=[^\s$])[^$\n]*(?<=[^\s\\])\$(?![\d$])"
)
_HIDDEN = {ord(sign): chr(0x100100 + ord(sign)) for sign in "!#%*-<=>[]^_`{|}~"}  # in code and formulas
TASK_MARKS = {" ": "☐", "x": "☑", "X": "☑", "/": "◪", "-": "☒", ">": "→"}  # other characters are shown
_MARKUP = (
    (_VERBATIM, lambda verbatim: (verbatim[2] or verbatim[0]).translate(_HIDDEN)),
    (_UNSEEN, lambda unseen: unseen[unseen.lastindex] if _MATCH.search(unseen[0]) else " "),
    (re.compile(r"!?\[\[(?:[^\[\]|]*\|)?([^\[\]]*)\]\]"), r"\1"),
    (_LINK, r"\1"),
    (_LINK, r"\1"),  # an image in a link
    (re.compile(r"^[-=*_|: \t]*[-=*_]{3,}[-=*_|: \t]*$", re.MULTILINE), ""),
    (re.compile(r"^[ \t]*\|.*$", re.MULTILINE), lambda row: row[0].replace("|", " ")),
    (re.compile(r"^ {0,3}#{1,6}\s+", re.MULTILINE), ""),
    (
        re.compile(r"^[ \t>]*(?:[-*+]|\d+[.)])[ \t]+\[([^]\n])\](?=\s)", re.M),
        lambda box: TASK_MARKS.get(box[1], box[1]),
    ),
    (re.compile(r"^[ \t>]*\[\^[\w-]+\]:|(?<=\S)\[\^[\w-]+\]", re.MULTILINE), ""),
    (_HTML, lambda tag: tag[0] if _MATCH.search(tag[0]) else "" if tag[1] else " "),
    (re.compile(r"(\*\*|~~|==)(?=\S)(.+?)(?<=\S)\1"), r"\2"),
    (re.compile(r"(?<![\w*_])([*_])(?=[^\s*_])([^*_\n]+?)(?<=\S)\1(?![\w*_])"), r"\2"),
    (re.compile(r"^[ \t]*(?:> ?)+(?:\[![^\]\n]+\][+-]?)?", re.MULTILINE), ""),
)
"""Code, formulas, comments, template code, fences, links, rules, tables, headings, tasks, footnotes, tags, emphasis, quotes.

A match in a comment or a tag is shown.
"""
_UNMARKED = {ord(hidden): chr(sign) for sign, hidden in _HIDDEN.items()} | dict.fromkeys(
    map(ord, (_BEST, _BEGIN, _END))
)
_BEFORE, _WINDOW, _AFTER = 60, 100, 30
"""Characters of a snippet: before its first match, with other matches, and beyond."""

_Span = tuple[int, int]
_Mark = tuple[int, int, int]
"""Where a match begins and ends, and the number of its word in the query."""


def present(ledger: Ledger, ranked: Sequence[Ranked], query: Query, weights: Sequence[float]) -> list[Hit]:
    """Return the hits for ranked contents. Each shows the copy that passes the filters and resembles the query most.

    Omits contents without a live document. `weights`: of the query's groups of words, for the choice of an excerpt.
    """
    matches = ledger.library.matches(ranked, query)
    number = {term: n for n, group in enumerate(query.wanted) for term in group}
    patterns = ["|".join(map(pattern, terms)) for _, terms in groupby(query.shown, key=number.__getitem__)]
    return [_hit(match, patterns, weights) for match in matches]


def _hit(match: Match, patterns: Sequence[str], weights: Sequence[float]) -> Hit:
    shown, ranked = match.eligible[0], match.ranked
    if len(match.eligible) > 1:
        shown = max(match.eligible, key=lambda copy: _likeness(f"{copy.title} {copy.item}", patterns))
    begin, end = _near(match)
    text = match.passage[begin:end]
    parts = [(start - begin, stop - begin) for start, stop in match.parts if begin <= start and stop <= end]
    marked = marks(text, patterns, parts)
    best = _best(marked, weights)
    return record_of(
        Hit,
        shown,
        ranked,
        **snippet(text, marked, best, is_code=is_code(shown.media_type)),
        places=tuple((copy.source, copy.item) for copy in match.copies),
        url=_text(shown.metadata, "url"),
        number=number if isinstance(number := shown.metadata.get("number"), int) else None,
        state=_text(shown.attributes, "state"),
        symbol=_symbol(match, begin + best[1] if best else end),
        is_recognized=match.is_recognized,
    )


def _text(values: Mapping[str, Any], key: str) -> str | None:
    value = values.get(key)
    return value if isinstance(value, str) and value else None


def _likeness(text: str, patterns: Sequence[str]) -> int:
    """Return the number of query terms in the text."""
    folded = Folded(text).text
    return sum(re.search(pattern, folded) is not None for pattern in patterns)


def _near(match: Match) -> _Span:
    """Return which part of a passage is near by meaning; all of it if words were found there."""
    number, text = match.ranked.part, match.passage
    part = None if number is None else next(islice(embedded_parts(text), number, None), None)
    if part is None:
        return 0, len(text)
    begin = text.index(part)
    return begin, begin + len(part)


def _best(marked: Sequence[_Mark], weights: Sequence[float]) -> _Mark | None:
    """Return the first mark of the window with the most and the rarest words of the query."""

    def worth(first: _Mark) -> float:
        inside = {number for begin, end, number in marked if first[0] <= begin and end <= first[0] + _WINDOW}
        return sum(weights[number] for number in inside if number < len(weights))

    return max(marked, key=worth, default=None)


def snippet(
    text: str, marked: Sequence[_Mark], best: _Mark | None, *, is_code: bool = False, lead: str = ""
) -> dict[str, Any]:
    """Return `snippet` and `marks` of a hit: one line of text around the best mark, after `lead` and without other markup."""
    pieces, position = [], 0
    for mark in marked:
        begin, end, _ = mark
        pieces += [text[position:begin], _BEST if mark == best else _BEGIN, text[begin:end], _END]
        position = end
    line = "".join([*pieces, text[position:]])
    for markup, plain in () if is_code else _MARKUP:
        line = markup.sub(plain, line)
    line = " ".join(line.split())
    first = max(line.find(_BEST), 0)
    start, stop = max(0, first - _BEFORE), min(len(line), first + _WINDOW + _AFTER)
    if start and (space := line.find(" ", start, start + 20)) >= 0:
        start = space + 1
    if stop < len(line) and (space := line.rfind(" ", stop - 20, stop)) > start:
        stop = space
    shown, places = f"{lead}{'… ' if start else ''}", list[_Span]()
    for number, part in enumerate(_MATCH.split(line[start:stop])):
        words = part.translate(_UNMARKED)
        if number % 2:
            places.append((len(shown), len(shown) + len(words) + 2))
            words = f"[{words}]"
        shown += words
    return {"snippet": f"{shown}{' …' if stop < len(line) else ''}", "marks": tuple(places)}


def _symbol(match: Match, position: int) -> str | None:
    """Return the definition around a position in a passage."""
    before = [symbol for start, symbol in match.symbols if start < position]
    return before[-1] if before else None


def marks(text: str, patterns: Sequence[str], parts: Sequence[_Span]) -> list[_Mark]:
    """Return where words match, in order and without overlaps: whole words and the parts of identifiers."""
    folded = Folded(text)
    words = "|".join(f"({words})" for words in patterns)
    matched = re.finditer(words, folded.text) if words else ()
    spans = [(*folded.span(*match.span()), match.lastindex or 0) for match in matched if match[0]]
    matches: list[_Mark] = []
    for begin, end, number in sorted(
        [*((begin, end, number - 1) for begin, end, number in spans), *((*span, len(patterns)) for span in parts)],
        key=lambda mark: (mark[0], -mark[1]),
    ):
        if begin < end and (not matches or begin >= matches[-1][1]):
            matches.append((begin, end, number))
    return matches


def pattern(term: Term) -> str:
    """Return a regular expression that matches a term in folded text."""
    return re.escape(term.substring) if term.substring else word_pattern(term.words, is_prefix=term.prefix)
