"""Collect text as paragraphs, lists and tables in Markdown."""

from __future__ import annotations

import re
from itertools import groupby
from typing import NamedTuple

from catchment.content.foreign_json import with_whole_characters
from catchment.content.normalize.html import linked

_LINK_FIELD = re.compile(
    r'\s*HYPERLINK\s+(?:"([^"]+)"|([^\s"\\]\S*))(?:.*?\\l\s+"?([^"\s]+))?', re.IGNORECASE | re.DOTALL
)
_LIKE_HEADING = re.compile(r"^(?=#{1,6}(?:\s|$))", re.MULTILINE)


class _Look(NamedTuple):
    address: str
    is_struck: bool


class Flow:
    """The text of a document, or of a part beside it, such as a note."""

    def __init__(self) -> None:
        self._pieces: list[tuple[str, _Look]] = []
        """The current paragraph or cell."""
        self._lowers = False
        """The last piece is a lowered number without a mark, which it needs before another number."""
        self._cells: list[str] = []
        self._rows: list[list[str]] = []
        self._blocks: list[str] = []
        self._asides: list[str] = []

    def write(self, text: str, address: str = "", mark: str = "", *, is_struck: bool = False) -> None:
        """Add text to the paragraph, with the address of its link.

        `mark`: "^" for raised and "~" for lowered text. A number gets it if it is raised, or lowered beside a number.
        """
        if self._lowers and text[:1].isdecimal():
            lowered, look = self._pieces[-1]
            self._pieces[-1] = (f"~{lowered}~", look)
        is_marked = mark and (mark == "^" or bool(self._pieces and self._pieces[-1][0][-1:].isdecimal()))
        self._lowers = mark == "~" and text.isdecimal() and not is_marked
        self._pieces.append(
            (f"{mark}{text}{mark}" if is_marked and text.isdecimal() else text, _Look(address, is_struck))
        )

    def add_aside(self, text: str) -> None:
        """Add a text beside the paragraph: below it, if it has begun."""
        (self._asides if self._pieces or self._cells or self._rows else self._blocks).append(text)

    def source(self) -> str:
        """Return the text of the current paragraph as it was written."""
        return with_whole_characters("".join(text for text, _ in self._pieces))

    def text(self) -> str:
        """End the text and return it."""
        if self._cells:
            self.end_row()
        self.end_paragraph()
        return "\n\n".join(self._blocks)

    def end_cell(self) -> None:
        """End a cell of a table."""
        self._cells.append(self._paragraph().replace("\n", " ").replace("|", "\\|"))

    def end_row(self) -> None:
        """End a row of a table, and its last cell."""
        if self._pieces:
            self.end_cell()
        self._rows.append(self._cells)
        self._cells = []

    def end_paragraph(self, mark: str = "") -> None:
        """End the paragraph, or the table before it. `mark`: of a heading ("## ") or an element of a list ("- ")."""
        self.end_table()
        text = self._paragraph()
        if text and mark:
            text = mark + text.replace("\n", " ")
        is_next = mark.endswith(("- ", ". ")) and self._blocks and re.match(r" *(?:-|1\.) ", self._blocks[-1])
        if text and is_next and not self._asides:
            self._blocks[-1] += f"\n{text}"
        else:
            self._blocks += filter(None, (text, *self._asides))
        self._asides = []

    def end_table(self) -> None:
        """End a table. Its first row is the header."""
        rows = [cells for cells in self._rows if any(cells)]
        self._rows = []
        if rows:
            width = max(map(len, rows))
            padded = [f"| {' | '.join(cells + [''] * (width - len(cells)))} |" for cells in rows]
            self._blocks.append("\n".join((padded[0], "|" + " --- |" * width, *padded[1:])))

    def _paragraph(self) -> str:
        """End the paragraph and return its stripped lines, with a backslash before a `#` outside headings."""
        pieces, self._pieces, self._lowers = self._pieces, [], False
        whole = "".join(
            _looking("".join(text for text, _ in part), look) for look, part in groupby(pieces, lambda piece: piece[1])
        )
        lines = filter(None, (" ".join(line.split()) for line in with_whole_characters(whole).split("\n")))
        return _LIKE_HEADING.sub(r"\\", "\n".join(lines))


def heading(level: int) -> str:
    """Return the mark of a heading; for level 0, which is a paragraph, none."""
    return "#" * min(level, 6) + " " if level else ""


def field_address(instruction: str) -> str:
    """Return the address of a HYPERLINK field with its fragment (ECMA-376 part 1, 17.16.5.25); "" for other fields.

    A place inside the document has no address.
    """
    if (field := _LINK_FIELD.match(instruction)) is None:
        return ""
    address = field[1] or field[2]
    return f"{address}#{field[3]}" if field[3] and "#" not in address else address


def _looking(text: str, look: _Look) -> str:
    words = text.strip()
    if words and look.is_struck:
        text = text.replace(words, f"~~{words}~~", 1)
    return linked(text, look.address) if look.address else text
