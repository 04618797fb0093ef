"""A reference parser for the prose of a note: markdown-it-py with rules for Obsidian's inline comments and formulas.

It has no rules for footnotes, nor for comments and formulas that span blocks.
"""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, html_block
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

_FORMULA = re.compile(r"\$(?![\s$])(?:[^$\\]|\\.)*(?<!\s)\$(?!\d)", re.DOTALL)
_PAIR = re.compile(r"(%%|\$\$)(?![%$]).*?\1", re.DOTALL)
_RAW = "script|pre|style|textarea"
_RAW_HTML = re.compile(rf"<(?:(!--)|(?:{_RAW})\b)")
_HIDDEN_HTML = re.compile(rf"\A\s*<!--.*?(?:-->|\Z)|<!--.*?-->|\A\s*<(?:{_RAW})\b.*?(?:</(?:{_RAW})>|\Z)", re.DOTALL)


def _hide(state: StateInline, silent: bool) -> bool:
    found = _PAIR.match(state.src, state.pos) or _FORMULA.match(state.src, state.pos)
    if found is None:
        return False
    state.pos = found.end()
    return True


def _html_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse HTML blocks as CommonMark does, except that an unclosed comment or raw HTML is text."""
    place = state.bMarks[start] + state.tShift[start]
    opening = _RAW_HTML.match(state.src, place)
    if opening and not re.search("-->" if opening[1] else f"</(?:{_RAW})>", state.src[opening.end() :]):
        return False
    return html_block(state, start, end, silent)


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"maxNesting": 1_000}).enable("table")
    parser.block.ruler.at("html_block", _html_block, {"alt": ["paragraph", "reference", "blockquote"]})
    parser.inline.ruler.before("backticks", "hidden", _hide)
    parser.inline.add_terminator_char("%")
    return parser


_PARSER = _parser()


def prose(text: str) -> str:
    """Return the text of a note without code, comments and formulas."""
    return "\n".join(_words(_PARSER.parse(text)))


def _words(tokens: list[Token]) -> list[str]:
    words = []
    for token in tokens:
        if token.children:
            words.append("".join(_words(token.children)))
        elif token.type == "html_block":
            words.append(_HIDDEN_HTML.sub("", token.content))
        elif token.type == "text":
            words.append(token.content)
        elif token.type in ("softbreak", "hardbreak"):
            words.append("\n")
    return words
