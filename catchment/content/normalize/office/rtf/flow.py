"""Collect text as paragraphs and tables in Markdown."""

from __future__ import annotations

import re
from itertools import groupby
from operator import itemgetter

from catchment.content.foreign_json import with_whole_characters
from catchment.content.normalize.html import linked

_LIKE_HEADING = re.compile(r"^(?=#{1,6}(?:\s|$))", re.MULTILINE)
BREAKS = frozenset({"par", "sect", "page", "column", "\n", "\r"})
"""Control words and signs that end a paragraph."""


class Flow:
    """The text of a document, or of a part beside it, such as a note."""

    def __init__(self) -> None:
        self._pieces: list[tuple[str, str]] = []
        """The current paragraph or cell: texts with the address of their link, or ""."""
        self._cells: list[str] = []
        self._rows: list[list[str]] = []
        self._blocks: list[str] = []
        self._asides: list[str] = []
        self._is_row = False
        self._level: int | None = None

    def write(self, text: str, address: str = "") -> None:
        """Add text to the paragraph."""
        self._pieces.append((text, address))

    def add_aside(self, text: str) -> None:
        """Add a text beside the paragraph: below it, if it has begun."""
        (self._asides if self._pieces or self._cells or self._rows else self._blocks).append(text)

    def source(self) -> str:
        """Return the text of the current paragraph as it was written."""
        return with_whole_characters("".join(text for text, _ in self._pieces))

    def text(self) -> str:
        """End the text and return it."""
        if self._cells:
            self.obey("row", None)
        self.obey("pard", None)
        self._end_paragraph()
        return "\n\n".join(self._blocks)

    def obey(self, word: str, number: int | None) -> None:
        """Obey a control word for paragraphs and tables; ignore others."""
        match word:
            case "trowd" | "intbl":
                self._is_row = True
            case "pard":
                self._is_row, self._level = False, None
            case "outlinelevel":
                self._level = number
            case "cell":
                self._cells.append(self._paragraph().replace("\n", " ").replace("|", "\\|"))
            case "row":
                if self._pieces:
                    self.obey("cell", None)
                self._rows.append(self._cells)
                self._cells, self._is_row = [], False
            case _ if word in BREAKS and self._is_row:
                self.write("\n")
            case _ if word in BREAKS:
                self._end_paragraph()

    def _end_paragraph(self) -> None:
        self._end_table()
        level = self._level if self._level is not None and 0 <= self._level < 9 else None
        if (text := self._paragraph()) and level is not None:
            text = "#" * min(level + 1, 6) + " " + text.replace("\n", " ")
        self._blocks += filter(None, (text, *self._asides))
        self._asides = []

    def _end_table(self) -> None:
        rows = [cells for cells in self._rows if any(cells)]
        self._rows = []
        if rows:
            width = max(map(len, rows))
            padded = [f"| {' | '.join(cells + [''] * (width - len(cells)))} |" for cells in rows]
            self._blocks.append("\n".join((padded[0], "|" + " --- |" * width, *padded[1:])))

    def _paragraph(self) -> str:
        """End the paragraph and return it, its lines without spaces around and a backslash before what is no heading."""
        pieces, self._pieces = self._pieces, []
        texts = (("".join(text for text, _ in part), address) for address, part in groupby(pieces, itemgetter(1)))
        whole = with_whole_characters("".join(linked(text, address) if address else text for text, address in texts))
        lines = filter(None, (" ".join(line.split()) for line in whole.split("\n")))
        return _LIKE_HEADING.sub(r"\\", "\n".join(lines))
