"""Write the section titles and code blocks of other markups as Markdown. Lists, links and tables stay as they are written."""

from __future__ import annotations

import re
from collections.abc import Iterator

from catchment.content.normalize import rst, tex
from catchment.content.normalize.titles import ASCIIDOC, BRACES, ORG, RST, TEX, words
from catchment.model import Entity, EntityKind

_SECTIONS = ("chapter", "section", "subsection", "subsubsection", "paragraph", "subparagraph")
_LEVELS = {"part": 1, **{name: level for level, name in enumerate(_SECTIONS, 1)}}
_LINES = "=-~^+"
"""The lines below the titles of AsciiDoc, by level."""
_PARTS = {
    ORG: re.compile(
        r"^[ \t]*#\+begin_(?P<code>src|example|export|comment)\b(?P<info>.*)\n(?P<body>(?s:.*?))"
        r"(?:^[ \t]*#\+end_(?P=code)\b.*|\Z)|^(?P<mark>\*+)[ \t]+(?P<words>\S.*)",
        re.MULTILINE | re.IGNORECASE,
    ),
    ASCIIDOC: re.compile(
        r"^(?P<code>(?:-{4,}|\.{4,}|/{4,}|\+{4,})(?=[ \t]*$)|`{3,})(?P<info>.*)\n(?P<body>(?s:.*?))"
        r"(?:^(?P=code)[ \t]*$|\Z)|^(?P<mark>={1,6}|#{1,6})[ \t]+(?P<words>\S.*)"
        r"|^(?P<title>\w.*)\n(?P<line>(?P<one>[=~^+-])(?P=one){2,})[ \t]*$",
        re.MULTILINE,
    ),
    TEX: re.compile(
        r"^[ \t]*\\begin\{(?P<code>(?:[vV]erbatim|lstlisting|minted|comment|filecontents)\*?)\}(?P<info>.*)\n"
        r"(?P<body>(?s:.*?))(?:\\end\{(?P=code)\}|\Z)|^[ \t]*\\(?P<mark>" + "|".join(_LEVELS) + r")\*?" + BRACES,
        re.MULTILINE,
    ),
}
KINDS = frozenset({RST, *_PARTS})
_WRITTEN = re.compile(r"^(?P<fence>`{3,})(?s:.*?)(?:^(?P=fence)$|\Z)|^(?P<mark>#{1,6}) (?P<words>.+)", re.MULTILINE)
_LIKE_MARKDOWN = re.compile(r"^(?=#{1,6}[ \t]|`{3})", re.MULTILINE)


def as_markdown(text: str, kind: str) -> str:
    """Return a text of one of these `KINDS` with its titles as headings and its code blocks in fences. Linear in the text.

    Other lines that Markdown would read as either get a backslash.
    """
    pieces, position = [""], 0
    for start, end, written in rst.titles(text) if kind == RST else _parts(text, kind):
        pieces += _lines(text[position:start], kind), written
        position = end
    return "".join((*pieces, _lines(text[position:], kind)))


def _lines(text: str, kind: str) -> str:
    return _LIKE_MARKDOWN.sub(r"\\", tex.with_letters(text) if kind == TEX else text)


def headings(text: str) -> list[Entity]:
    """Return the headings that `as_markdown` wrote, in order, with the level as detail."""
    matches = (part for part in _WRITTEN.finditer(text) if part["mark"])
    return [Entity(EntityKind.HEADING, each["words"], str(len(each["mark"])), *each.span()) for each in matches]


def without_code(text: str) -> str:
    """Return a text that `as_markdown` wrote without its code blocks."""
    return _WRITTEN.sub(lambda match: "" if match["fence"] else match[0], text)


def _parts(text: str, kind: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and Markdown of the titles and code blocks."""
    place = 0
    while match := _PARTS[kind].search(text, place):
        place, part = match.end(), match.groupdict()
        if part["code"]:
            fence, body = "```", part["body"].removesuffix("\n")
            while fence in body:
                fence += "`"
            yield match.start(), place, f"{fence}{part['info'].replace('`', '').strip()}\n{body}\n{fence}"
        elif part["mark"]:
            level = _LEVELS.get(part["mark"]) or min(len(part["mark"]), 6)
            end = "" if text.startswith("\n", place) else "\n"
            yield match.start(), place, f"{'#' * level} {words(part['words'], kind)}{end}"
        elif abs(len(part["line"]) - len(part["title"].rstrip())) > 1:
            place = match.start("line")
        else:
            yield match.start(), place, f"{'#' * (_LINES.index(part['one']) + 1)} {part['title'].rstrip()}"
