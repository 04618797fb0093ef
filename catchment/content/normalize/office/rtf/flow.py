"""The paragraphs and tables of RTF, which control words end."""

from __future__ import annotations

from catchment.content.normalize.office.flow import Flow

BREAKS = frozenset({"par", "sect", "page", "column", "\n", "\r"})
"""Control words and signs that end a paragraph."""


class RtfFlow(Flow):
    """The text of a document, or of a part beside it, such as a note."""

    def __init__(self) -> None:
        super().__init__()
        self._is_row = False
        self._level: int | None = None

    def write(self, text: str, address: str = "", mark: str = "") -> None:
        """Add text to the paragraph. A number gets a mark if it is raised, or lowered behind a number."""
        if text.isdecimal() and (mark == "^" or (mark and self._pieces and self._pieces[-1][0][-1:].isdecimal())):
            text = f"{mark}{text}{mark}"
        self._pieces.append((text, address))

    def add_aside(self, text: str) -> None:
        """Add a text beside the paragraph: below it, if it has begun."""
        (self._asides if self._pieces or self._cells or self._rows else self._blocks).append(text)

    def source(self) -> str:
        """Return the text of the current paragraph as it was written."""
        return with_whole_characters("".join(text for text, _ in self._pieces))

    def text(self) -> str:
        if self._cells:
            self.end_row()
        self._end()
        return super().text()

    def obey(self, word: str, number: int | None) -> None:
        """Apply a control word for paragraphs and tables; ignore others."""
        match word:
            case "trowd" | "intbl":
                self._is_row = True
            case "pard":
                self._is_row, self._level = False, None
            case "outlinelevel":
                self._level = number
            case "cell":
                self.end_cell()
            case "row":
                self.end_row()
                self._is_row = False
            case _ if word in BREAKS and self._is_row:
                self.write("\n")
            case _ if word in BREAKS:
                self._end()

    def _end(self) -> None:
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
        """End the paragraph and return its stripped lines, with a backslash before a `#` outside headings."""
        pieces, self._pieces = self._pieces, []
        texts = (("".join(text for text, _ in part), address) for address, part in groupby(pieces, itemgetter(1)))
        whole = with_whole_characters("".join(linked(text, address) if address else text for text, address in texts))
        lines = filter(None, (" ".join(line.split()) for line in whole.split("\n")))
        return _LIKE_HEADING.sub(r"\\", "\n".join(lines))
