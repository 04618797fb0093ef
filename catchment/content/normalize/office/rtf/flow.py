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
        """Obey a control word for paragraphs and tables; ignore others."""
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
        self.end_paragraph("" if level is None else "#" * min(level + 1, 6) + " ")
