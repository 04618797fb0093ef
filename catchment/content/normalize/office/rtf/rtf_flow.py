"""The paragraphs and tables of RTF, which control words end."""

from __future__ import annotations

from catchment.content.normalize.office.flow import Flow, heading

BREAKS = frozenset({"par", "sect", "page", "column", "\n", "\r"})
"""Control words and signs that end a paragraph."""


class RtfFlow(Flow):
    """The text of a document, or of a part beside it, such as a note."""

    def __init__(self) -> None:
        super().__init__()
        self._is_row = False
        self._level = 0

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
                self._is_row, self._level = False, 0
            case "outlinelevel":
                self._level = number + 1 if number is not None and 0 <= number < 9 else 0
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
        self.end_paragraph(heading(self._level))
