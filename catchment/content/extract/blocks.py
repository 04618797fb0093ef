"""Find the block structure of Markdown: code blocks and the stretches of inline text. Spans within text are in `prose`.

Implements CommonMark 0.31 with GFM tables and Obsidian's footnotes, block comments and block formulas. Comments, `pre`,
`script` and `style` are hidden; other lines of HTML blocks are neither code nor inline text. One pass over the lines, linear
in the length of the text. Paragraphs without code marks are skipped.
"""

from __future__ import annotations

import re

_QUOTE = 0
_DEEPEST = 100
"""Open containers; deeper marks are text. Each line is compared with every open container."""

_MARK = re.compile(r"[`$~%<\t]")
_INDENT = "    "
"""Text without a mark or an indent has neither code nor comments nor formulas."""
_BLANK_LINES = re.compile(r"(?:[ \t]*\n)*")
_LIST_MARK = re.compile(r"([-*+]|([0-9]{1,9})[.)])(?=[ \t\n]|\Z)")
_FOOTNOTE = re.compile(r"\[\^[^\]\s]+\]:")
_RULE = re.compile(r"([-*_])(?>(?:[ \t]*+\1){2,})[ \t]*+(?=\n|\Z)")
_UNDERLINE = re.compile(r"(?:=++|-++)[ \t]*+(?=\n|\Z)")
_HEADING = re.compile(r"#{1,6}(?=[ \t\n]|\Z)")
_FENCE = re.compile(r"(`{3,}+)[^`\n]*+(?=\n|\Z)|(~{3,}+)")
_DELIMITERS = re.compile(r"\|?+[ \t]*+:?+-++:?+[ \t]*+(?>(?:\|[ \t]*+:?+-++:?+[ \t]*+)*)\|?+[ \t]*+(?=\n|\Z)")
_PIPE = re.compile(r"(?<!\\)\|")
_CELL = re.compile(r"(?>(?:[^|\\\n]++|\\.)+)|\\")
_SPANNING = re.compile(r"(%%|\$\$)(?![$%])")
_BLOCK_TAGS = """
    address article aside base basefont blockquote body caption center col colgroup dd details dialog dir div dl dt fieldset
    figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hr html iframe legend li link main menu
    menuitem nav noframes ol optgroup option p param search section summary table tbody td tfoot th thead title tr track ul"""
_HTML = re.compile(
    r"<(?:(script|pre|style|textarea)(?=[\s>]|\Z)|(!--)|/?(?:" + "|".join(_BLOCK_TAGS.split()) + r")(?=[\s>]|/>|\Z))",
    re.IGNORECASE,
)
_ATTRIBUTE = (
    r"[ \t\n]++[A-Za-z_:][\w.:-]*+(?>(?:[ \t\n]*+=[ \t\n]*+(?:[^\s\"'=<>`]++|'[^']{0,2000}+'|\"[^\"]{0,2000}+\"))?)"
)
TAG = re.compile(
    rf"<(?:[A-Za-z][A-Za-z0-9-]*+(?>(?:{_ATTRIBUTE}){{0,50}})[ \t\n]*+/?|/[A-Za-z][A-Za-z0-9-]*+[ \t\n]*+)>"
)
_ALONE = re.compile(r"[ \t]*+(?:\n|\Z)")
_RAW_END = re.compile(r"</(?:script|pre|style|textarea)>", re.IGNORECASE)
_COMMENT_END = re.compile(r"-->")


Leaf = tuple[int, int, bool]
"""Start, end, and whether the stretch is inline text; otherwise it is hidden: code, a comment or a formula."""


def leaves(text: str, has_html: bool = True) -> list[Leaf]:
    """Return the hidden stretches and the stretches of inline text that may contain code, in order.

    Without `has_html`, HTML tags are ordinary text, as in the text of a web page.
    """
    if _INDENT not in text and not _MARK.search(text):
        return []
    blocks = _Blocks(text, has_html)
    blocks.read()
    return blocks.leaves


class _Blocks:
    def __init__(self, text: str, has_html: bool) -> None:
        self.leaves: list[Leaf] = []
        self._text = text
        self._indent = -1
        """The next position of four spaces, or the length of the text."""
        self._has_html = has_html
        self._last_ends: dict[re.Pattern[str], int] = {}
        self._containers: list[int] = []
        """For each open list item the indent of its content within its parent; for each quotation `_QUOTE`."""
        self._is_empty_item = False
        self._paragraph = self._last_line = -1
        self._html = -1
        self._is_table = False
        self._hidden = -1
        self._hidden_until: re.Pattern[str] | None = None
        self._is_fence = False

    def read(self) -> None:
        text, size = self._text, len(self._text)
        position = self._skip(0)
        while position < size:
            stop = text.find("\n", position)
            position = self._line(position, stop if stop >= 0 else size)
        self._close(0, size)

    def _skip(self, position: int) -> int:
        """Return where the next stretch with a mark may start: `position` or after a blank line. No container is open."""
        text = self._text
        if self._indent < position:
            self._indent = text.find(_INDENT, position) % (len(text) + 1)
        mark = _MARK.search(text, position, self._indent)
        before = mark.start() if mark else self._indent
        if before == len(text):
            return before
        while (before := text.rfind("\n\n", position, before + 1)) >= 0:
            if text[before + 2] not in " \t\n":
                return before + 2
        return position

    def _line(self, start: int, stop: int) -> int:
        """Read a line and return the start of the next one to read."""
        text, containers = self._text, self._containers
        place, column = self._indented(start, 0) if text[start] in " \t" else (start, 0)
        base = depth = 0
        for width in containers:
            if width == _QUOTE:
                if column - base > 3 or place == stop or text[place] != ">":
                    break
                place, column, base = self._quoted(place, column)
            elif place != stop:
                if column - base < width:
                    break
                base += width
            depth += 1
        is_inside = depth == len(containers)
        if self._hidden >= 0:
            if is_inside:
                return self._in_hidden(place, stop, column - base)
            self._close(depth, start)
        if place == stop:
            return self._blank(depth, start, stop)
        if self._html >= 0 and is_inside:
            return stop + 1
        return self._content(start, place, stop, column, base, depth)

    def _indented(self, place: int, column: int) -> tuple[int, int]:
        """Return position and column of the next character that is neither space nor tab."""
        text, size = self._text, len(self._text)
        while place < size:
            if text[place] == " ":
                column += 1
            elif text[place] == "\t":
                column += 4 - column % 4
            else:
                break
            place += 1
        return place, column

    def _quoted(self, place: int, column: int) -> tuple[int, int, int]:
        """Return position and column of the first character after a `>`, and the column where the quoted text starts."""
        base = column + 1
        place, column = self._indented(place + 1, base)
        return place, column, base + (column > base)

    def _blank(self, depth: int, start: int, stop: int) -> int:
        containers = self._containers
        if self._is_empty_item and depth == len(containers):
            depth -= 1
        self._is_empty_item = False
        self._close(depth, start)
        if containers and containers[0] == _QUOTE:
            return stop + 1
        after = stop + 1
        if self._text[after : after + 1].isspace() and (blanks := _BLANK_LINES.match(self._text, after)):
            after = blanks.end()
        if after < len(self._text) and self._text[after] not in " \t":
            containers.clear()
            return self._skip(after)
        return after

    def _content(self, start: int, place: int, stop: int, column: int, base: int, depth: int) -> int:
        """Read the rest of a line after the marks of open containers: new containers, then a leaf."""
        text, containers = self._text, self._containers
        is_open = self._paragraph >= 0
        is_inside = depth == len(containers)
        self._is_empty_item = False
        while column - base < 4 and len(containers) < _DEEPEST:
            char = text[place]
            if char == ">":
                self._close(depth, start)
                containers.append(_QUOTE)
                place, column, base = self._quoted(place, column)
            elif char in "-*+[0123456789":
                if char == "-" and is_open and is_inside and _UNDERLINE.match(text, place):
                    break
                item = self._item(place, column, base, stop, is_open and is_inside)
                if item is None:
                    break
                self._close(depth, start)
                width, place, column, base = item
                containers.append(width)
            else:
                break
            depth, is_open, is_inside = len(containers), False, True
            if place == stop:
                self._is_empty_item = containers[-1] != _QUOTE
                return stop + 1
        if column - base >= 4:
            if self._paragraph < 0:
                self._close(depth, start)
                self.leaves.append((place, stop, False))
            return stop + 1
        return self._leaf(start, place, stop, depth)

    def _item(
        self, place: int, column: int, base: int, stop: int, interrupts: bool
    ) -> tuple[int, int, int, int] | None:
        """Return the width of a list item or footnote, and position, column and base of its content; None for other text."""
        text = self._text
        if text[place] == "[":
            if (note := _FOOTNOTE.match(text, place)) is None:
                return None
            place, column = self._indented(note.end(), column + len(note[0]))
            return 4, place, column, column
        mark = _LIST_MARK.match(text, place)
        if mark is None or (text[place] in "-*" and _RULE.match(text, place)):
            return None
        end = mark.end()
        after = column + end - place
        indent = after - base
        place, column = self._indented(end, after)
        if interrupts and (place == stop or (mark[2] and int(mark[2]) != 1)):
            return None
        spaces = column - after if place != stop and column - after < 5 else 1
        return indent + spaces, place, column, after + spaces

    def _leaf(self, start: int, place: int, stop: int, depth: int) -> int:
        """Read the leaf block of a line: inline text, a thematic break, a table row, or a block that `_special` reads."""
        text = self._text
        char = text[place]
        is_open, is_inside = self._paragraph >= 0, depth == len(self._containers)
        if char in "#`~<%$":
            if (after := self._special(start, place, stop, depth)) is not None:
                return after
        elif char in "-*_=|:":
            if is_open and is_inside and self._is_table_head(place):
                self._open_table()
                return stop + 1
            if is_open and is_inside and _UNDERLINE.match(text, place):
                self._close(depth, start)
                return stop + 1
            if _RULE.match(text, place):
                self._close(depth, start)
                return stop + 1
        if self._is_table and is_inside:
            self._row(place, stop)
        elif is_open:
            self._last_line = place
        else:
            self._close(depth, start)
            self._paragraph = self._last_line = place
        return stop + 1

    def _special(self, start: int, place: int, stop: int, depth: int) -> int | None:
        """Read a heading, the start of fenced code or HTML, or a comment or formula of several lines; None for other lines."""
        text = self._text
        match text[place]:
            case "#" if _HEADING.match(text, place):
                self._close(depth, start)
                self.leaves.append((place, stop, True))
                return stop + 1
            case "`" | "~" if fence := _FENCE.match(text, place):
                self._close(depth, start)
                run = fence[1] or fence[2]
                closing = rf"{run[0]}{{{len(run)},}}+[ \t]*+(?=\n|\Z)"
                self._hide(place, re.compile(closing), True)
                return stop + 1
            case "%" | "$" if mark := _SPANNING.match(text, place):
                end = text.find(mark[1], mark.end())
                if end > stop:
                    self._close(depth, start)
                    self.leaves.append((place, end + 2, False))
                    if not _ALONE.match(text, end + 2):
                        self._paragraph = self._last_line = end + 2
                    line_end = text.find("\n", end)
                    return line_end + 1 if line_end >= 0 else len(text)
            case "<" if self._has_html:
                return self._open_html(start, place, stop, depth)
        return None

    def _open_html(self, start: int, place: int, stop: int, depth: int) -> int | None:
        text = self._text
        html = _HTML.match(text, place)
        until = None
        if html is None:
            tag = TAG.match(text, place, stop) if self._paragraph < 0 and not self._is_table else None
            if tag is None or not _ALONE.match(text, tag.end()):
                return None
        elif html[1] or html[2]:
            until = _RAW_END if html[1] else _COMMENT_END
            if not self._ends_later(until, html.end()):
                return None
        self._close(depth, start)
        if html and until:
            self._hide(place, until, False)
            return self._in_hidden(html.end(), stop, 0)
        self._html = place
        return stop + 1

    def _ends_later(self, until: re.Pattern[str], place: int) -> bool:
        """Return whether the end of a comment or of raw HTML follows anywhere after `place`."""
        if until not in self._last_ends:
            self._last_ends[until] = max((match.start() for match in until.finditer(self._text)), default=-1)
        return self._last_ends[until] >= place

    def _hide(self, place: int, until: re.Pattern[str], is_fence: bool) -> None:
        self._hidden, self._hidden_until, self._is_fence = place, until, is_fence

    def _in_hidden(self, place: int, stop: int, indent: int) -> int:
        """Read a line of fenced code or of hidden HTML."""
        until = self._hidden_until
        assert until is not None
        closing = None
        if not self._is_fence:
            closing = until.search(self._text, place, stop)
        elif indent < 4:
            closing = until.match(self._text, place)
        if closing:
            self.leaves.append((self._hidden, closing.end(), False))
            self._hidden = -1
        return stop + 1

    def _is_table_head(self, place: int) -> bool:
        """Return whether the line is the delimiter row of a table: the line above has the same number of cells."""
        delimiters = _DELIMITERS.match(self._text, place)
        if delimiters is None:
            return False
        head = self._text[self._last_line : self._text.find("\n", self._last_line)]
        return "|" in head and _cells(head) == _cells(delimiters[0])

    def _open_table(self) -> None:
        start, end = self._last_line, self._text.find("\n", self._last_line)
        if self._paragraph < start:
            self.leaves.append((self._paragraph, start, True))
        self._paragraph, self._is_table = -1, True
        self._row(start, end)

    def _row(self, start: int, end: int) -> None:
        if _MARK.search(self._text, start, end):
            self.leaves += ((*cell.span(), True) for cell in _CELL.finditer(self._text, start, end))

    def _close(self, depth: int, end: int) -> None:
        """Close the open leaf at `end`, and all containers except the first `depth`."""
        if self._paragraph >= 0:
            self.leaves.append((self._paragraph, end, True))
            self._paragraph = -1
        if self._hidden >= 0:
            self.leaves.append((self._hidden, end, False))
            self._hidden = -1
        if self._html >= 0:
            self._comments(self._html, end)
            self._html = -1
        self._is_table = False
        del self._containers[depth:]

    def _comments(self, start: int, end: int) -> None:
        text = self._text
        while (start := text.find("<!--", start, end)) >= 0 and (after := text.find("-->", start, end)) >= 0:
            self.leaves.append((start, after + 3, False))
            start = after


def _cells(row: str) -> int:
    """Return the number of cells in a table row."""
    return len(_PIPE.findall(row.strip().removeprefix("|").removesuffix("|"))) + 1
