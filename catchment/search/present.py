"""Presentation of search results: the document to show for a content, and the excerpt with marked matches."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from catchment.ledger import Ledger, Match, Query, Ranked, Term, fold_with_spans, word_pattern
from catchment.search.results import Hit

_BEGIN, _END = "\ue000", "\ue001"
"""Temporary marks of matches, so that the brackets of a snippet are not mistaken for those of a link."""
_WIKILINK = re.compile(r"!?\[\[(?:[^\[\]|]*\|)?([^\[\]]*)\]\]")
_AROUND = 90

_Span = tuple[int, int]


def present(ledger: Ledger, ranked: Sequence[Ranked], query: Query) -> list[Hit]:
    """Return the hits for ranked contents. Of several copies, one that passes the filters and resembles the query is shown.

    Omits contents without a live document.
    """
    matches = ledger.library.matches(ranked, query)
    patterns = [pattern(term) for term in query.shown]
    return [_hit(match, patterns) for match in matches]


def _hit(match: Match, patterns: Sequence[str]) -> Hit:
    shown, ranked = match.eligible[0], match.ranked
    if len(match.eligible) > 1:
        shown = max(match.eligible, key=lambda copy: _likeness(f"{copy.title} {copy.item}", patterns))
    found = marks(match.passage, patterns, match.parts)
    return Hit(
        document=shown.document,
        title=shown.title,
        source=shown.source,
        item=shown.item,
        snippet=snippet(match.passage, found),
        score=ranked.score,
        places=tuple((copy.source, copy.item) for copy in match.copies),
        thread=ranked.conversation,
        alike=ranked.alike,
        media_type=shown.media_type,
        author=shown.author,
        moment=shown.moment,
        url=_text(shown.metadata, "url"),
        number=number if isinstance(number := shown.metadata.get("number"), int) else None,
        state=_text(shown.attributes, "state"),
        symbol=_symbol(match, found),
        lexical_rank=ranked.lexical_rank,
        lexical_score=ranked.lexical_score,
        semantic_rank=ranked.semantic_rank,
        cosine=ranked.cosine,
    )


def _text(values: Mapping[str, Any], key: str) -> str | None:
    value = values.get(key)
    return value if isinstance(value, str) and value else None


def _likeness(text: str, patterns: Sequence[str]) -> int:
    """Return the number of query terms in the text."""
    folded, *_ = fold_with_spans(text)
    return sum(re.search(pattern, folded) is not None for pattern in patterns)


def snippet(text: str, marked: Sequence[_Span]) -> str:
    """Return one line of text around the first mark, with the marked words in [brackets]."""
    first, end = marked[0] if marked else (0, _AROUND)
    start = max(0, first - _AROUND)
    stop = min(len(text), end + _AROUND)
    if start and (space := text.find(" ", start, start + 20)) >= 0:
        start = space + 1
    if stop < len(text) and (space := text.rfind(" ", stop - 20, stop)) > start:
        stop = space
    pieces, done = [], start
    for begin, end in marked:
        if start <= begin and end <= stop:
            pieces += [text[done:begin], _BEGIN, text[begin:end], _END]
            done = end
    line = _WIKILINK.sub(r"\1", "".join([*pieces, text[done:stop]]).replace("\\|", "|"))
    line = " ".join(line.replace(_BEGIN, "[").replace(_END, "]").split())
    return f"{'… ' if start else ''}{line}{' …' if stop < len(text) else ''}"


def _symbol(match: Match, marked: Sequence[_Span]) -> str | None:
    """Return the definition around the first mark in a passage."""
    position = marked[0][1] if marked else len(match.passage)
    before = [symbol for start, symbol in match.symbols if start < position]
    return before[-1] if before else None


def marks(text: str, patterns: Sequence[str], parts: Sequence[_Span]) -> list[_Span]:
    """Return where terms match, in order and without overlaps: whole words and the parts of identifiers."""
    folded, starts, stops = fold_with_spans(text)
    matched = (match.span() for match in re.finditer("|".join(patterns), folded)) if patterns else ()
    spans = [(starts[begin], stops[end - 1]) for begin, end in matched if begin < end]
    found: list[_Span] = []
    for begin, end in sorted([*spans, *parts], key=lambda span: (span[0], -span[1])):
        if begin < end and (not found or begin >= found[-1][1]):
            found.append((begin, end))
    return found


def pattern(term: Term) -> str:
    """Return a regular expression that matches a term in folded text."""
    return re.escape(term.substring) if term.substring else word_pattern(term.words, is_prefix=term.prefix)
