"""Read Jupyter notebooks: cells and the text of their outputs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from catchment.content.normalize.canvas import closed, json_object, objects
from catchment.content.normalize.html import fragment
from catchment.content.normalize.language_detection import language
from catchment.content.normalize.titles import headings, title_of
from catchment.model import Document

_LONGEST = 20_000
"""Characters of an output."""
_OVERWRITTEN = re.compile(r"^[^\n]*\r(?=[^\n])", re.MULTILINE)
"""The part of a line that a terminal overwrites, such as a progress bar."""
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f]")
_OLD_NAMES = {
    "text": "text/plain",
    "html": "text/html",
    "png": "image/png",
    "jpeg": "image/jpeg",
    "svg": "image/svg+xml",
}
"""The keys of outputs before nbformat 4."""
_FORMS = ("text/markdown", "text/html", "text/plain", "text/latex")


class _Outputs:
    """The outputs of a notebook, and counts of the omitted parts."""

    def __init__(self) -> None:
        self.left_out = {"pictures and other data in outputs not read": 0, "long outputs cut": 0}

    def texts(self, cell: dict[str, Any]) -> Iterator[str]:
        """Yield the outputs of a cell as Markdown: code in fences, HTML converted."""
        for output in objects(cell, "outputs", "notebook"):
            data = output.get("data")
            match output.get("output_type"):
                case "stream":
                    yield self._fenced(_joined(output.get("text")))
                case "error" | "pyerr":
                    yield self._fenced("\n".join(map(str, output.get("traceback") or [output.get("evalue", "")])))
                case _:
                    forms = (
                        data if isinstance(data, dict) else {_OLD_NAMES.get(key, key): output[key] for key in output}
                    )
                    yield self._best(forms)

    def _best(self, forms: dict[str, Any]) -> str:
        """Return the best form of a result: Markdown or HTML before plain text."""
        is_picture = any(kind.startswith("image/") for kind in forms)
        for kind in _FORMS if not is_picture else ():
            text = _joined(forms.get(kind))
            written = fragment(text) if kind == "text/html" else text
            if written.strip():
                return self._fenced(text) if kind == "text/plain" else closed(self._cut(written).strip())
        self.left_out["pictures and other data in outputs not read"] += bool(forms.keys() - {"output_type", "metadata"})
        return ""

    def _fenced(self, text: str) -> str:
        lines = self._cut(_CONTROL.sub("", _OVERWRITTEN.sub("", text)).strip("\n"))
        return f"````\n{lines}\n````" if lines.strip() else ""

    def _cut(self, text: str) -> str:
        self.left_out["long outputs cut"] += len(text) > _LONGEST
        return text[:_LONGEST]


def notebook(data: bytes) -> Document:
    """Return the cells of a notebook: Markdown unchanged, code and outputs in fences. Raises ParseError."""
    book = json_object(data, "notebook")
    metadata = book.get("metadata")
    kernel = metadata.get("language_info") if isinstance(metadata, dict) else None
    name = str(kernel.get("name", "")) if isinstance(kernel, dict) else ""
    sheets = objects(book, "worksheets", "notebook")  # nbformat 3, used until 2014
    cells = [cell for holder in (book, *sheets) for cell in objects(holder, "cells", "notebook")]
    outputs = _Outputs()
    text = "\n\n".join(_texts(cells, name, outputs))
    words = "\n\n".join(_source(cell) for cell in cells if cell.get("cell_type") in ("markdown", "heading"))
    declared = metadata.get("title") if isinstance(metadata, dict) else None
    title = declared.strip() if isinstance(declared, str) else ""
    return Document(
        text=text,
        media_type="application/x-ipynb+json",
        title=title or title_of(headings(words)),
        language=language(words),
        warnings=tuple(f"{label}: {count}" for label, count in outputs.left_out.items() if count),
    )


def _texts(cells: list[dict[str, Any]], code_name: str, outputs: _Outputs) -> Iterator[str]:
    for cell in cells:
        is_code = cell.get("cell_type") == "code"
        if (words := _source(cell)).strip():
            yield f"````{code_name}\n{words.rstrip()}\n````" if is_code else closed(words.strip())
        yield from filter(None, outputs.texts(cell) if is_code else ())


def _source(cell: dict[str, Any]) -> str:
    words = _joined(cell.get("source", cell.get("input", "")))
    level = cell.get("level")
    is_heading = cell.get("cell_type") == "heading" and level in range(1, 7)
    return f"{'#' * level} {words}" if is_heading and isinstance(level, int) else words


def _joined(text: Any) -> str:
    return "".join(map(str, text)) if isinstance(text, list) else str(text) if text is not None else ""
