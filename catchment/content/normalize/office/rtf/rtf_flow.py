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
        self.end_paragraph("" if level is None else "#" * min(level + 1, 6) + " ")
