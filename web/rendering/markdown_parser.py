"""Markdown as tokens of markdown-it: CommonMark with tables, and Obsidian's dialect. Makes no HTML.

Obsidian's syntax that this adds: wikilinks, embeds, callouts, tasks, footnotes, block ids, highlights, formulas, comments.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, reference
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from catchment.content.extract.notes import wikilink
from catchment.model import LinkKind

_MOST_STEPS = 10_000
"""Attempts of the parser at a block or a mark. 30,000 characters of notes take about 1,000, and these at most half a second."""
_DEEPEST = 40
_WIKILINK = re.compile(r"(!?)\[\[(?!\[)((?>(?:[^\[\]\n]++|\](?!\])|\[(?!\[))+))\]\]")
_FOOTNOTE = re.compile(r"\[\^([^\]\s]{1,100})\]")
_FORMULA = re.compile(r"\$\$((?>(?:\\.|[^\\$])+))\$\$|\$(?![\s$])((?>(?:\\.|[^\\$\n])+))(?<!\s)\$(?!\d)", re.DOTALL)
"""A text between two prices is no formula: "$5 and $6"."""
_DEFINITION = re.compile(r"(?:\A|(?<=\n))\[\^([^\]\s]{1,100})\]:[ \t]*")
_CALLOUT = re.compile(r"\[!([^\]\n]+)\]([+-]?)[ \t]*([^\n]*)(?:\n|\Z)")
_TASK = re.compile(r"\[([^\]\n])\][ \t]+(?=\S)")
_BLOCK_ID = re.compile(r"(?:\A|[ \t\n])\^([A-Za-z0-9-]{1,100})[ \t]*\Z")


class Dialect(StrEnum):
    """How a text is written."""

    NOTE = "note"
    VAULT = "vault"
    """A note in Obsidian."""
    EXTRACTED = "extracted"
    MAIL = "mail"

    @property
    def has_line_breaks(self) -> bool:
        """Whether the end of a line in a paragraph is a line break."""
        return self in (Dialect.VAULT, Dialect.MAIL)


class TooMuchWork(Exception):
    """The structure of a text is deeper or denser than that of any document that a person wrote."""


def parse(text: str, dialect: Dialect) -> list[Token]:
    """Return the tokens of a text. Raises TooMuchWork."""
    return _parser(dialect).parse(text, {"steps": 0})


@cache
def _parser(dialect: Dialect) -> MarkdownIt:
    is_note = dialect in (Dialect.NOTE, Dialect.VAULT)
    parser = MarkdownIt("js-default", {"html": is_note})
    parser.options.maxNesting = 2 * _DEEPEST
    # Addresses stay as written; the writer decides about them.
    parser.normalizeLink = parser.normalizeLinkText = lambda url: url  # type: ignore[assignment, method-assign]
    parser.validateLink = lambda _url: True  # type: ignore[assignment, method-assign]
    interrupted = ["paragraph", "reference", "blockquote", "list"]
    parser.block.ruler.before("table", "count", _count_blocks, {"alt": interrupted})
    parser.inline.ruler.before("text", "count", _count_marks)
    if dialect is Dialect.MAIL:
        # Most mail is not Markdown: an indent is no code, a star no emphasis, and a line of dashes makes no heading.
        parser.disable(["code", "lheading", "reference", "table", "emphasis", "strikethrough", "escape", "entity"])
    if is_note:
        parser.block.ruler.before("table", "comment", _between_lines("%%", ""), {"alt": interrupted})
        parser.block.ruler.before("table", "formula", _between_lines("$$", "math_block"), {"alt": interrupted})
        parser.block.ruler.at("reference", _reference)
        parser.core.ruler.after("block", "obsidian", _blocks)
        parser.inline.ruler.before("link", "wikilink", _wikilink)
        parser.inline.ruler.before("link", "footnote", _footnote)
        parser.inline.ruler.before("link", "formula", _formula)
        parser.inline.ruler.before("link", "highlight", _between("==", "mark"))
        parser.inline.ruler.before("link", "comment", _between("%%", ""))
    return parser


def _count(env: Any, depth: int) -> None:
    env["steps"] += 1
    if env["steps"] > _MOST_STEPS or depth > _DEEPEST:
        raise TooMuchWork


def _count_blocks(state: StateBlock, _line: int, _end: int, _silent: bool) -> bool:
    _count(state.env, state.level)
    return False


def _count_marks(state: StateInline, _silent: bool) -> bool:
    _count(state.env, state.level)
    return False


def _reference(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """Read a link reference definition, unless it is a footnote."""
    return not state.src.startswith("[^", state.bMarks[line] + state.tShift[line]) and reference(
        state, line, end, silent
    )


def _between_lines(mark: str, name: str) -> Callable[[StateBlock, int, int, bool], bool]:
    """Return a rule for a text of several lines between two marks; it is left out if `name` is empty."""

    def rule(state: StateBlock, line: int, end: int, silent: bool) -> bool:
        start = state.bMarks[line] + state.tShift[line] + len(mark)
        if not state.src.startswith(mark, start - len(mark)) or mark in state.src[start : state.eMarks[line]]:
            return False
        closing = state.src.find(mark, state.eMarks[line], state.eMarks[end - 1])
        if closing < 0:
            return False
        if not silent:
            state.line = bisect_left(state.eMarks, closing, line, end) + 1
            if name:
                lines = state.getLines(line, state.line, state.blkIndent, False)
                state.push(name, "", 0).content = lines.strip().removeprefix(mark).partition(mark)[0]
        return True

    return rule


# Marks within a line


def _wikilink(state: StateInline, silent: bool) -> bool:
    match = _WIKILINK.match(state.src, state.pos, state.posMax)
    link = wikilink(LinkKind.EMBED if match[1] else LinkKind.WIKILINK, match[2]) if match else None
    if match is None or link is None:
        return False
    if not silent:
        token = state.push("wikilink", "", 0)
        token.meta = {"link": link}
    state.pos = match.end()
    return True


def _footnote(state: StateInline, silent: bool) -> bool:
    match = _FOOTNOTE.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        state.push("footnote", "", 0).content = match[1]
    state.pos = match.end()
    return True


def _formula(state: StateInline, silent: bool) -> bool:
    match = _FORMULA.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        token = state.push("math_block" if match[1] else "math_inline", "", 0)
        token.content = match[1] or match[2]
    state.pos = match.end()
    return True


def _between(mark: str, name: str) -> Callable[[StateInline, bool], bool]:
    """Return a rule for text between two marks, without line ends in the text; it is left out if `name` is empty."""
    pattern = re.compile(rf"{mark}(?=\S)([^{mark[0]}]*+)(?<=\S){mark}" if name else rf"{mark}([^%]*+){mark}")

    def rule(state: StateInline, silent: bool) -> bool:
        match = pattern.match(state.src, state.pos, state.posMax)
        if match is None:
            return False
        if not silent and name:
            end = state.posMax
            state.push(f"{name}_open", name, 1)
            state.pos, state.posMax = match.start(1), match.end(1)
            state.md.inline.tokenize(state)
            state.posMax = end
            state.push(f"{name}_close", name, -1)
        state.pos = match.end()
        return True

    return rule


# Blocks


def _blocks(state: StateCore) -> None:
    """Mark callouts, tasks, footnotes and block ids, before the text in the blocks is read."""
    tokens = state.tokens
    for place, token in enumerate(tokens):
        if token.type == "inline":
            opener = tokens[place - 1]
            if opener.type == "paragraph_open":
                _mark(tokens, place)
            if match := _BLOCK_ID.search(token.content):
                token.content = token.content[: match.start()]
                opener.meta["block"] = match[1]
    state.tokens = [part for token in _split(tokens) for part in token]


def _mark(tokens: Sequence[Token], place: int) -> None:
    """Mark the container that starts with this paragraph as a callout or a task."""
    inline, container = tokens[place], tokens[place - 2] if place > 1 else None
    if container is not None and container.type == "blockquote_open" and (match := _CALLOUT.match(inline.content)):
        container.meta["callout"] = (match[1].partition("|")[0].strip().lower(), match[2], match[3].strip())
        inline.content = inline.content[match.end() :]
    elif container is not None and container.type == "list_item_open" and (match := _TASK.match(inline.content)):
        container.meta["task"] = match[1]
        inline.content = inline.content[match.end() :]


def _split(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield the tokens, with each definition of a footnote in a separate paragraph."""
    for place, token in enumerate(tokens):
        opener = tokens[place - 1] if place else None
        definitions = list(_DEFINITION.finditer(token.content)) if token.type == "inline" else []
        if opener is None or opener.type != "paragraph_open" or not definitions:
            yield [token]
            continue
        ends = [*(match.start() for match in definitions[1:]), len(token.content)]
        text, inline_token = token.content, token
        inline_token.content = text[: definitions[0].start()].rstrip()
        if not inline_token.content:
            inline_token.content = text[definitions[0].end() : ends[0]].rstrip()
            opener.meta["footnote"] = definitions.pop(0)[1]
            del ends[0]
        yield [inline_token]
        for match, end in zip(definitions, ends, strict=True):
            opening = Token("paragraph_open", "p", 1, meta={"footnote": match[1]})
            inline = Token("inline", "", 0, content=text[match.end() : end].rstrip(), children=[])
            yield [Token("paragraph_close", "p", -1), opening, inline]
